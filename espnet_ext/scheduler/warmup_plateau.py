"""``scheduler: warmup_plateau``: linear warm-up that need not start at zero, decay on a plateau (P2, section 4)."""

from typing import Any

import torch
from espnet2.schedulers.warmup_reducelronplateau import WarmupReduceLROnPlateau

from espnet_ext.errors import InputError


class WarmupPlateau(WarmupReduceLROnPlateau):
    """Linear warm-up from ``start_lr`` to the optimizer's learning rate, then decay by ``factor`` on a plateau.

    ESPnet's ``warmupreducelronplateau`` with two additions from P2's reference [17] (Zeyer et al. 2018): the warm-up
    starts above zero at the first update, and it can continue the warm-up of an earlier training, such as a step of a
    layer-wise pre-training.

    Args:
        optimizer: its learning rate is that after the warm-up.
        warmup_steps: updates of the warm-up, including those before ``start_step``.
        start_lr: learning rate of update 0.
        start_step: updates done in earlier trainings.
        plateau: ``mode``, ``factor``, ``patience`` and others of ``torch.optim.lr_scheduler.ReduceLROnPlateau``.

    Raises:
        InputError: a negative number, or ``start_lr`` above the optimizer's learning rate.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        warmup_steps: int = 25000,
        start_lr: float = 0.0,
        start_step: int = 0,
        **plateau: Any,
    ):
        lowest = min(group["lr"] for group in optimizer.param_groups)
        if not 0.0 <= start_lr <= lowest:
            raise InputError(f"warmup_plateau: start_lr is {start_lr}, it must be between 0 and lr, {lowest}")
        if warmup_steps < 1 or start_step < 0:
            raise InputError(
                f"warmup_plateau: warmup_steps ({warmup_steps}) must be 1 or more, start_step ({start_step}) 0 or more"
            )
        super().__init__(optimizer, warmup_steps=warmup_steps, **plateau)
        self.start_lr = start_lr
        self.step_num = start_step
        self._warm_up()

    def step(self, metrics: float | None = None, epoch: int | None = None) -> None:
        """After an update without arguments; after an epoch with its score."""
        if metrics is not None:
            super().step(metrics, epoch)
        else:
            self.step_num += 1
            if self.step_num <= self.warmup_steps:
                self._warm_up()

    def _warm_up(self) -> None:
        done = min(1.0, self.step_num / self.warmup_steps)
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = self.start_lr + (lr - self.start_lr) * done
