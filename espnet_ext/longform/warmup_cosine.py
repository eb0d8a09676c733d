"""``scheduler: warmup_cosine``: linear warm-up, then a cosine to zero (P5, 3.3)."""

import math

import torch
from espnet2.schedulers.abs_scheduler import AbsBatchStepScheduler

from espnet_ext.errors import InputError


class WarmupCosine(torch.optim.lr_scheduler.LRScheduler, AbsBatchStepScheduler):
    """Warm up linearly to the learning rate, then follow a cosine to zero.

    The rate is zero after the last update. ESPnet's ``cosineannealingwarmuprestarts``
    restarts after its cycle, and needs the rate twice in the config.

    The k-th update, counted from 1, has ``k / warmup_steps`` of the learning rate up to
    the end of the warm-up, then ``(1 + cos(pi (k - warmup_steps) / (total_steps + 1 -
    warmup_steps))) / 2``, and 0 beyond ``total_steps``. The rate depends on k alone, so
    that a training resumes exactly.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        total_steps: int,
        warmup_steps: int,
        last_epoch: int = -1,
    ):
        if not 1 <= warmup_steps < total_steps:
            raise InputError(
                f"warmup_cosine: warmup_steps is {warmup_steps}, not 1 to "
                f"total_steps ({total_steps})"
            )
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | torch.Tensor]:
        """Return the rate of the next update for each of the optimizer's groups."""
        # torch's "epochs" are updates here, counted from 0.
        update = self.last_epoch + 1
        warm = self.warmup_steps
        if update <= warm:
            share = update / warm
        else:
            # Up to total_steps + 1: the last update has a rate above zero, and so has
            # something to do.
            done = min(1.0, (update - warm) / (self.total_steps + 1 - warm))
            share = 0.5 * (1.0 + math.cos(math.pi * done))
        return [share * lr for lr in self.base_lrs]
