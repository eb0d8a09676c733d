"""Settings of trainings: types and ranges, in one line that names the setting, its
value and what is expected.
"""

import pytest

from espnet_ext.errors import InputError
from espnet_ext.rescore.training.lm_training import LmSettings
from espnet_ext.rescore.training.mwer_training import MwerSettings
from espnet_ext.rescore.training.settings import TrainingSettings
from espnet_ext.work.settings import check_settings

NEEDED = {"batch_size": 4, "lm": "gpt2"}
NAN, INFINITE = float("nan"), float("inf")


MWER = [
    ({"learning_rate": 1.0}, "x: unknown key 'learning_rate'"),
    ({"lr": "1e-5"}, "x: lr: .*write 1.0e-5"),
    ({"lr": NAN}, "x: lr: "),
    ({"batch_size": True}, "x: batch_size: "),
    ({"max_steps": 0}, "x: max_steps: "),
    ({"warmup_steps": -1}, "x: warmup_steps: "),
    ({"lm": None}, "x: lm: "),
    ({"lm": 3}, "x: lm: "),
    ({"scorer": "ppl"}, "x: scorer: "),
    ({"pooling": "max"}, "x: pooling: "),
    ({"amp": "yes please"}, "x: amp: "),
    ({"ce_weight": INFINITE}, "x: ce_weight: "),
    ({"posterior_scale": 0}, "x: posterior_scale: "),
]
ON_TEXT = [
    ({"sentences": 0}, "sentences: "),
    ({"mask_probability": 1}, "mask_probability: "),
    ({"scorer": "pooled"}, "scorer: must be one of causal, pll"),
    ({"pooling": "cls"}, "unknown key 'pooling'"),
]


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (kind, *row)
        for kind, rows in ((MwerSettings, MWER), (LmSettings, ON_TEXT))
        for row in rows
    ],
)
def test_bad_settings_are_refused(kind, values, message):
    with pytest.raises(InputError, match=f"^[^\n]*{message}[^\n]*$"):
        check_settings(kind, NEEDED | values, "x")


def test_what_is_missing_is_named():
    with pytest.raises(InputError, match="x: the key 'batch_size' is missing"):
        check_settings(MwerSettings, {"lm": "gpt2"}, "x")
    with pytest.raises(InputError, match="x: the key 'lm' is missing"):
        check_settings(MwerSettings, {"batch_size": 1}, "x")


def test_good_settings_are_taken():
    values = NEEDED | {"max_steps": None, "seed": 1, "lr": 1, "posterior_scale": 2}
    found = check_settings(MwerSettings, values, "x")
    assert found.select_training() == TrainingSettings(batch_size=4, lr=1.0, seed=1)
    assert found.posterior_scale == 2.0
