"""The learning rate against the line and the cosine that it should follow."""

import numpy as np
import pytest
import torch
from espnet2.schedulers.abs_scheduler import (
    AbsBatchStepScheduler,
    AbsEpochStepScheduler,
)
from madgrad import MADGRAD

from espnet_ext.errors import InputError
from espnet_ext.longform.warmup_cosine import WarmupCosine


def scheduler(total_steps: int = 30, warmup_steps: int = 10) -> WarmupCosine:
    groups = [
        {"params": [torch.nn.Parameter(torch.ones(1))], "lr": lr} for lr in (3e-3, 1e-3)
    ]
    return WarmupCosine(
        MADGRAD(groups, momentum=0.9),
        total_steps=total_steps,
        warmup_steps=warmup_steps,
    )


def rates(scheduler: WarmupCosine, updates: int) -> np.ndarray:
    """The rates that each of the next updates is made with, (updates, groups)."""
    used = []
    for _ in range(updates):
        used.append([group["lr"] for group in scheduler.optimizer.param_groups])
        scheduler.optimizer.step()
        scheduler.step()
    return np.array(used)


def test_line_then_cosine_then_zero():
    cosine = 0.5 + 0.5 * np.cos(np.linspace(0, np.pi, 22))[1:]
    expected = np.concatenate([np.linspace(0, 1, 11)[1:], cosine, [0.0, 0.0]])
    used = rates(scheduler(), 33)
    np.testing.assert_allclose(used, expected[:, None] * [3e-3, 1e-3], atol=1e-12)
    assert used[29].min() > 0 and not used[30:].any()


def test_espnet_steps_it_after_updates_only():
    assert isinstance(scheduler(), AbsBatchStepScheduler) and not isinstance(
        scheduler(), AbsEpochStepScheduler
    )


@pytest.mark.parametrize("cut", [1, 10, 25])
def test_resumes_from_its_state(cut):
    whole = scheduler()
    first = scheduler()
    second = scheduler()
    expected = rates(whole, 30)
    rates(first, cut)
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(rates(second, 30 - cut), expected[cut:])


@pytest.mark.parametrize(("total", "warmup"), [(10, 10), (10, 0), (5, 9)])
def test_bad_numbers_are_refused(total, warmup):
    with pytest.raises(
        InputError, match=rf"warmup_steps is {warmup}, .* 1 to total_steps \({total}\)"
    ):
        scheduler(total, warmup)
