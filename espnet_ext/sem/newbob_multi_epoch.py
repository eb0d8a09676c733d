"""``scheduler: newbob_multi_epoch``: the learning rates of P2's reference [17].

They are those of Zeyer et al. 2018, as in RETURNN.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch
from espnet2.schedulers.abs_scheduler import AbsValEpochStepScheduler

from espnet_ext.errors import InputError


class NewbobMultiEpoch(AbsValEpochStepScheduler):
    """Set one learning rate for each epoch, by the dev scores of the epochs before.

    Epoch 1 has ``start_lr`` and epoch ``warmup_epochs`` the optimizer's learning rate,
    with equal steps between them. After that the rate is multiplied by ``decay`` if the
    mean relative gain of the last ``num_epochs`` epochs, as many as make one pass over
    the data, is less than ``threshold``, and no more often than every ``min_epochs``
    epochs. The relative gain of an epoch is (old - new) / |new|, divided by the epoch's
    rate as a share of the optimizer's: smaller steps gain less.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        warmup_epochs: int = 10,
        start_lr: float = 0.0003,
        decay: float = 0.9,
        num_epochs: int = 20,
        threshold: float = 0.01,
        min_epochs: int = 3,
    ):
        self.lr = min(group["lr"] for group in optimizer.param_groups)
        if not 0.0 < start_lr <= self.lr:
            raise InputError(
                f"newbob_multi_epoch: start_lr is {start_lr}, it must be above 0, "
                f"at most lr, {self.lr}"
            )
        if min(warmup_epochs, num_epochs, min_epochs) < 1 or not 0.0 < decay <= 1.0:
            raise InputError(
                f"newbob_multi_epoch: warmup_epochs ({warmup_epochs}), num_epochs "
                f"({num_epochs}) and min_epochs ({min_epochs}) must be 1 or more, "
                f"decay ({decay}) above 0 and at most 1"
            )
        self.optimizer = optimizer
        self.warmup_epochs = warmup_epochs
        self.start_lr = start_lr
        self.decay = decay
        self.num_epochs = num_epochs
        self.threshold = threshold
        self.min_epochs = min_epochs
        # learning rate and dev score of each epoch
        self.past: list[tuple[float, float]] = []
        self._set_rate()

    def step(self, val: float, epoch: int | None = None) -> None:
        """Step after an epoch, with its dev score: the lower, the better."""
        self.past.append((self.compute_rate(), float(val)))
        self._set_rate()

    def compute_rate(self) -> float:
        """Return the learning rate of the epoch that comes next."""
        epoch = len(self.past) + 1
        if epoch <= self.warmup_epochs:
            share = 1.0
            if self.warmup_epochs > 1:
                share = (epoch - 1) / (self.warmup_epochs - 1)
            return self.start_lr + share * (self.lr - self.start_lr)
        rates = [rate for rate, _ in self.past]
        recent = rates[-self.min_epochs :]
        # The rate has changed, or begun, less than ``min_epochs`` ago.
        if len(recent) < self.min_epochs or len(set(recent)) > 1:
            return rates[-1]
        # n gains are between n + 1 epochs.
        gains = self._compute_gains(self.past[-self.num_epochs - 1 :])
        if gains and fmean(gains) < self.threshold:
            return rates[-1] * self.decay
        return rates[-1]

    def _compute_gains(self, past: Sequence[tuple[float, float]]) -> list[float]:
        """Return the relative gain of each epoch but the first of these."""
        gains = []
        for (_, old), (rate, new) in pairwise(past):
            # Relative to the new score, as RETURNN has it. A score of zero must not end
            # a training.
            gain = (old - new) / max(abs(new), 1e-12)
            gains.append(gain / (rate / self.lr))
        return gains

    def _set_rate(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.compute_rate()

    def state_dict(self) -> dict[str, Any]:
        """Return what :meth:`load_state_dict` restores."""
        return {"past": [list(epoch) for epoch in self.past]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the epochs of a state."""
        self.past = [(rate, score) for rate, score in state["past"]]
        self._set_rate()
