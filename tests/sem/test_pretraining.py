"""The plan of P2's pre-training at its full size, and what is refused."""

import math

import pytest

from espnet_ext.errors import InputError
from espnet_ext.sem.curriculum import Selection
from espnet_ext.sem.pretraining import (
    PretrainSettings,
    can_grow,
    make_staged_config,
    plan_stages,
)
from espnet_ext.work.settings import check_settings

CONFIG = {
    "encoder": "blstm_maxpool",
    "encoder_conf": {
        "num_layers": 6,
        "hidden_size": 1024,
        "pooling": [2, 2, 2],
        "dropout_rate": 0.3,
    },
    "num_iters_per_epoch": 100,
    "max_epoch": 250,
}
PAPER = {
    "first_max_tokens": 60,
    "short_epochs": 5,
    "short_mean_chars": 75,
    "short_parts": ["clean-100", "clean-360"],
}


def plan_with(settings: dict, max_tokens: int | None = None, **changes):
    return plan_stages(
        CONFIG | changes,
        check_settings(PretrainSettings, settings, "pre-training"),
        max_tokens,
    )


def test_the_plan_of_the_paper():
    stages, selections = zip(*plan_with(PAPER, max_tokens=75), strict=True)
    assert [stage.num_layers for stage in stages] == [2, 2, 2, 3, 4, 5, 6, 6]
    pooling = [stage.pooling for stage in stages]
    assert pooling == [
        (32,),
        (32,),
        (32,),
        (2, 16),
        (2, 2, 8),
        (2, 2, 2, 4),
        (2, 2, 2, 2, 2),
        (2, 2, 2),
    ]
    assert [math.prod(factors) for factors in pooling] == [32] * 7 + [8]
    assert [stage.dropout_rate for stage in stages] == [0.0] * 2 + [0.3] * 6
    assert [stage.epochs for stage in stages] == [5, 5] + [5] * 6
    short = Selection(60, 75, ("clean-100", "clean-360"))
    assert list(selections) == [short, Selection(60)] + [Selection(75)] * 6
    assert can_grow(CONFIG) and not can_grow({"encoder": "rnn"})


def test_without_a_curriculum_nothing_is_selected():
    stages = plan_with({})
    assert [stage.epochs for stage, _ in stages] == [10] + [5] * 6
    assert {selection for _, selection in stages} == {
        Selection()
    } and Selection().name == ""


def test_updates_follow_the_audio():
    """Half of the audio has half of the updates."""
    found = make_staged_config(
        CONFIG,
        plan_with(PAPER, 75),
        lambda seen: (f"shape{seen.max_tokens}", {75: 0.9, 60: 0.5}[seen.max_tokens]),
    )
    assert [stage["num_iters_per_epoch"] for stage in found["stages"]] == [50, 50] + [
        90
    ] * 6
    assert [stage["shape_file"] for stage in found["stages"]] == ["shape60"] * 2 + [
        "shape75"
    ] * 6
    assert found | {"stages": 0} == CONFIG | {"num_iters_per_epoch": 90, "stages": 0}


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"encoder": "rnn"}, {}, "needs encoder: blstm_maxpool"),
        ({}, {"start_layers": 7}, "7 layers, but the encoder has only 6"),
        (
            {},
            {"time_reduction": 24},
            "a time reduction of 24 is impossible with 6 layers",
        ),
        ({}, {"start_layers": 1}, "is impossible with 1 layers"),
        ({}, {"epochs": 0}, "pre-training: epochs"),
        ({}, {"layers": 2}, "pre-training: unknown key 'layers'"),
        (
            {},
            {"short_epochs": 10},
            r"short_epochs \(10\) must be less than first_epochs \(10\)",
        ),
        ({}, {"first_max_tokens": 2.5}, "pre-training: first_max_tokens"),
        ({"max_epoch": 40}, {}, r"takes all of the 40 epochs \(max_epoch\)"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes, settings, message):
    with pytest.raises(InputError, match=message):
        plan_with(settings, **changes)
