"""``scheduler: warmup_cosine``: linear warm-up, then a cosine to zero at the end of training (P5, section 3.3)."""

import math

import torch
from espnet2.schedulers.abs_scheduler import AbsBatchStepScheduler
from torch.optim.lr_scheduler import LRScheduler

from espnet_ext.errors import InputError


class WarmupCosine(LRScheduler, AbsBatchStepScheduler):
    """Learning rate that rises in a line to the optimizer's over ``warmup_steps`` and falls to 0 at ``total_steps``.

    Args:
        optimizer: Its learning rate is the highest.
        warmup_steps: Updates of the warm-up.
        total_steps: Updates of the whole training.
        last_epoch: Updates done; -1 at the start.

    Raises:
        InputError: The warm-up is not shorter than the training, or a number is negative.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, warmup_steps: int = 0, total_steps: int = 0, last_epoch: int = -1
    ):
        if not 0 <= warmup_steps < total_steps:
            raise InputError(
                f"warmup_cosine: warmup_steps ({warmup_steps}) must be at least 0 and below total_steps ({total_steps})"
            )
        self.warmup_steps, self.total_steps = warmup_steps, total_steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rate of the update that comes next, of each parameter group."""
        return [rate * self.factor(self.last_epoch) for rate in self.base_lrs]

    def factor(self, step: int) -> float:
        """Share of the highest rate in update ``step``, counted from 0. The first update of a warm-up has some."""
        if step < self.warmup_steps:
            return (step + 1) / (self.warmup_steps + 1)
        done = min(1.0, (step - self.warmup_steps) / (self.total_steps - self.warmup_steps))
        return 0.5 * (1 + math.cos(math.pi * done))
