"""The learning rates of [17], computed anew from all scores for each epoch."""

import numpy as np
import pytest
import torch
from espnet2.schedulers.abs_scheduler import AbsValEpochStepScheduler

from espnet_ext.errors import InputError
from espnet_ext.sem.newbob_multi_epoch import NewbobMultiEpoch


def optimizer(lr: float = 8e-4) -> torch.optim.Optimizer:
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def rates(scheduler: NewbobMultiEpoch, scores: np.ndarray) -> list[float]:
    """The rate that each epoch is trained with."""
    used = []
    for score in scores:
        used.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.step(float(score))
    return used


def expected(scores: np.ndarray, lr: float = 8e-4) -> list[float]:
    """As RETURNN's control does it, with the settings of [17], epoch by epoch."""
    lrs = list(np.linspace(3e-4, lr, num=10))[: len(scores)]
    while len(lrs) < len(scores):
        if len(set(lrs[-3:])) >= 2:
            lrs.append(lrs[-1])
            continue
        done = len(lrs)
        first = max(1, done - 20)
        errors = [
            (scores[i] - scores[i - 1]) / abs(scores[i]) / (lrs[i] / lr)
            for i in range(first, done)
        ]
        lrs.append(lrs[-1] * 0.9 if np.mean(errors) > -0.01 else lrs[-1])
    return lrs


def curve(epochs: int = 250, seed: int = 0) -> np.ndarray:
    """A dev score that falls ever more slowly, with noise and a jump where a step
    begins.
    """
    random = np.random.default_rng(seed)
    scores = (
        7 / np.arange(1, epochs + 1) ** 0.6 + 0.2 + 0.02 * random.normal(size=epochs)
    )
    scores[35:] -= 0.1
    return scores


@pytest.mark.parametrize("seed", range(5))
def test_the_rates_of_the_paper(seed):
    scores = curve(seed=seed)
    found = rates(NewbobMultiEpoch(optimizer()), scores)
    np.testing.assert_allclose(found, expected(scores), rtol=1e-12)
    assert (
        found[0] == pytest.approx(3e-4)
        and found[9] == pytest.approx(8e-4)
        and found[-1] < 0.5 * found[9]
    )
    changes = np.flatnonzero(np.diff(found[10:]))
    assert len(changes) > 3 and np.diff(changes).min() >= 3
    # ESPnet's trainer steps it after each epoch
    assert isinstance(NewbobMultiEpoch(optimizer()), AbsValEpochStepScheduler)


@pytest.mark.parametrize("cut", [4, 10, 33, 120])
def test_continues_from_its_state_in_a_checkpoint(cut):
    scores = curve()
    whole = rates(NewbobMultiEpoch(optimizer()), scores)
    first = NewbobMultiEpoch(optimizer())
    rates(first, scores[:cut])
    resumed = NewbobMultiEpoch(optimizer())
    resumed.load_state_dict(first.state_dict())
    assert rates(resumed, scores[cut:]) == whole[cut:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"start_lr": 1e-3},
            "start_lr is 0.001, it must be above 0, at most lr, 0.0008",
        ),
        ({"start_lr": 0.0}, "start_lr is 0.0"),
        ({"warmup_epochs": 0}, r"warmup_epochs \(0\)"),
        ({"min_epochs": 0}, r"min_epochs \(0\)"),
        ({"decay": 1.1}, r"decay \(1.1\)"),
    ],
)
def test_bad_numbers_are_refused(options, message):
    with pytest.raises(InputError, match=f"newbob_multi_epoch: .*{message}"):
        NewbobMultiEpoch(optimizer(), **options)
