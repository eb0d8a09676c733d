"""The learning rate against the straight line and the steps that it should follow."""

import numpy as np
import pytest
import torch
from espnet2.schedulers.abs_scheduler import AbsBatchStepScheduler, AbsValEpochStepScheduler

from espnet_ext.errors import InputError
from espnet_ext.scheduler.warmup_plateau import WarmupPlateau


def optimizer(lr: float = 8e-4) -> torch.optim.Optimizer:
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def rates(scheduler: WarmupPlateau, updates: int) -> list[float]:
    """The rate that each of the next updates is made with."""
    used = []
    for _ in range(updates):
        used.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.step()
    return used


def test_linear_from_the_first_update_on_then_constant():
    scheduler = WarmupPlateau(optimizer(), warmup_steps=10, start_lr=3e-4)
    expected = np.concatenate([np.linspace(3e-4, 8e-4, 11), np.full(4, 8e-4)])
    np.testing.assert_allclose(rates(scheduler, 15), expected, rtol=1e-9)
    # ESPnet's trainer steps it after updates and after epochs
    assert isinstance(scheduler, AbsBatchStepScheduler) and isinstance(scheduler, AbsValEpochStepScheduler)


@pytest.mark.parametrize("cut", [4, 10, 13])
def test_goes_on_where_an_earlier_training_stopped(cut):
    whole = rates(WarmupPlateau(optimizer(), warmup_steps=10, start_lr=3e-4), 20)
    rest = WarmupPlateau(optimizer(), warmup_steps=10, start_lr=3e-4, start_step=cut)
    np.testing.assert_allclose(rates(rest, 20 - cut), whole[cut:], rtol=1e-9)


def test_decays_by_the_factor_after_more_epochs_than_patience_without_a_better_score():
    scheduler = WarmupPlateau(optimizer(), warmup_steps=2, start_lr=3e-4, mode="max", factor=0.9, patience=1)
    rates(scheduler, 2)
    seen = []
    for score in (0.5, 0.6, 0.59, 0.6, 0.58, 0.57):
        scheduler.step(score)
        seen += rates(scheduler, 3)[-1:]
    np.testing.assert_allclose(np.array(seen) / 8e-4, [1, 1, 1, 0.9, 0.9, 0.81], rtol=1e-9)


def test_resumes_from_its_state():
    first, second = (WarmupPlateau(optimizer(), warmup_steps=10, start_lr=3e-4) for _ in range(2))
    whole = rates(first, 5)
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    second.load_state_dict(first.state_dict())
    assert rates(second, 10) == rates(first, 10) != whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start_lr": 1e-3}, "start_lr is 0.001, it must be between 0 and lr, 0.0008"),
        ({"start_lr": -1.0}, "start_lr is -1.0"),
        ({"warmup_steps": 0}, r"warmup_steps \(0\)"),
        ({"start_step": -1}, r"start_step \(-1\)"),
    ],
)
def test_bad_numbers_are_refused(options, message):
    with pytest.raises(InputError, match=f"warmup_plateau: .*{message}"):
        WarmupPlateau(optimizer(), **options)
