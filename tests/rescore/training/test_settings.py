"""Settings of trainings: types and ranges, in one line that names the setting, its value and what is expected."""

import pytest

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.large_models import Lora
from espnet_ext.rescore.training.lm_training import LmSettings
from espnet_ext.rescore.training.mwer_training import MwerSettings
from espnet_ext.rescore.training.settings import TrainingSettings
from espnet_ext.work.settings import SettingError, checked

NEEDED = {"batch_size": 4, "lm": "gpt2"}
NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"learning_rate": 1.0}, "x: unknown key 'learning_rate'; known are batch_size, epochs"),
        ({"lr": "1e-5"}, "x: lr: must be a number above 0, is '1e-5' .YAML reads 1e-5 as text: write 1.0e-5"),
        ({"lr": "often"}, "x: lr: must be a number above 0, is 'often'$"),
        ({"lr": -1.0}, "x: lr: must be a number above 0, is -1.0"),
        ({"lr": NAN}, "x: lr: must be a number above 0, is nan"),
        ({"batch_size": 4.0}, "x: batch_size: must be a whole number of at least 1, is 4.0"),
        ({"batch_size": True}, "x: batch_size: must be a whole number of at least 1, is True"),
        ({"batch_size": 0}, "x: batch_size: must be a whole number of at least 1, is 0"),
        ({"max_steps": 0}, "x: max_steps: must be a whole number"),
        ({"epochs": None}, "x: epochs: must be a whole number of at least 1, is None"),
        ({"warmup_steps": -1}, "x: warmup_steps: must be a whole number of at least 0, is -1"),
        ({"weight_decay": -0.1}, "x: weight_decay: must be a number of at least 0"),
        ({"schedule": "up"}, "x: schedule: must be one of linear, cosine, constant_with_warmup, is 'up'"),
        ({"lm": None}, "lm is missing: give the folder or hub name of a language model"),
        ({"lm": 3}, "x: lm: must be the folder or hub name of a language model, is 3"),
        ({"scorer": "ppl"}, "x: scorer: must be one of causal, pll, pooled"),
        ({"pooling": "max"}, "x: pooling: must be one of last, cls, attention"),
        ({"casing": ["lower"]}, r"x: casing: must be one of as-is, lower, upper, sentence, is \['lower'\]"),
        ({"dtype": "int4"}, "x: dtype: must be one of float32, bfloat16, float16"),
        ({"amp": "yes please"}, "x: amp: must be true or false, is 'yes please'"),
        ({"gradient_checkpointing": "no"}, "x: gradient_checkpointing: must be true or false, is 'no'"),
        ({"first_pass_weight": "many"}, "x: first_pass_weight: must be a number of at least 0, is 'many'"),
        ({"first_pass_weight": -2}, "x: first_pass_weight: must be a number of at least 0, is -2"),
        ({"ce_weight": "abc"}, "x: ce_weight: must be a number of at least 0, is 'abc'"),
        ({"ce_weight": NAN}, "x: ce_weight: must be a number of at least 0, is nan"),
        ({"ce_weight": INFINITE}, "x: ce_weight: must be a number of at least 0, is inf"),
        (
            {"posterior_scale": "much"},
            "x: posterior_scale: must be a number above 0, or dev to calibrate it, is 'much'",
        ),
        ({"posterior_scale": 0}, "x: posterior_scale: must be a number above 0"),
        ({"posterior_scale": NAN}, "x: posterior_scale: must be a number above 0"),
        ({"positions": "many"}, "x: positions: must be a whole number of at least 1, is 'many'"),
        ({"positions": -3}, "x: positions: must be a whole number of at least 1, is -3"),
        ({"lora": 8}, "x: lora: must be a mapping .key: value., is 8"),
        ({"lora": {"rank": 8}}, "x: lora: unknown key 'rank'; known are r, alpha, dropout, targets"),
        ({"lora": {"r": 0}}, "x: lora.r: must be a whole number of at least 1"),
        ({"lora": {"alpha": "big"}}, "x: lora.alpha: must be a whole number of at least 1, is 'big'"),
        ({"lora": {"dropout": 1.0}}, "x: lora.dropout: must be a number from 0 to below 1"),
        ({"lora": {"targets": "q_proj"}}, "x: lora.targets: must be a list"),
    ],
)
def test_bad_settings_of_mwer_training_are_refused(values, message):
    with pytest.raises(InputError, match=message) as caught:
        checked(MwerSettings, NEEDED | values, "x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sentences": 0}, "sentences: must be a whole number of at least 1, is 0"),
        ({"mask_probability": "x"}, "mask_probability: must be a number between 0 and 1, is 'x'"),
        ({"mask_probability": 1}, "mask_probability: must be a number between 0 and 1, is 1"),
        ({"scorer": "pooled"}, "scorer: must be one of causal, pll, is 'pooled'"),
        ({"amp": 1}, "amp: must be true or false, is 1"),
        ({"pooling": "cls"}, "unknown key 'pooling'"),
    ],
)
def test_bad_settings_of_training_on_text_are_refused(values, message):
    with pytest.raises(SettingError, match=message):
        checked(LmSettings, NEEDED | values, "x")


def test_what_is_missing_is_named():
    with pytest.raises(SettingError, match="x: the key 'batch_size' is missing") as caught:
        checked(MwerSettings, {"lm": "gpt2"}, "x")
    assert caught.value.name == "batch_size"
    with pytest.raises(SettingError, match="x: lm is missing") as caught:
        checked(MwerSettings, {"batch_size": 1}, "x")
    assert caught.value.name == "lm"


def test_good_settings_are_taken():
    values = NEEDED | {"max_steps": None, "seed": 1, "lr": 1, "lora": {"targets": ["q_proj"]}, "posterior_scale": 2}
    found = checked(MwerSettings, values, "x")
    assert found.training() == TrainingSettings(batch_size=4, lr=1.0, seed=1)
    assert (found.lora, found.posterior_scale) == (Lora(targets=("q_proj",)), 2.0)
    assert checked(MwerSettings, NEEDED | {"posterior_scale": "dev"}, "x").posterior_scale == "dev"
