"""``optim: continued_adam``: Adam that goes on with the moments of a training before."""

from pathlib import Path
from typing import Any

import torch

from espnet_ext.errors import InputError
from espnet_ext.upstream.checkpoint import load_checkpoint


class ContinuedAdam(torch.optim.Adam):
    """``torch.optim.Adam`` whose moments and number of updates may be those of an earlier training.

    Args:
        params: as of ``torch.optim.Adam``.
        moments: file with the ``state`` of that training's optimiser. None or no such file: the moments start at 0.
        options: as of ``torch.optim.Adam``.
    """

    def __init__(self, params: Any, moments: str | None = None, **options: Any):
        super().__init__(params, **options)
        if not moments or not Path(moments).exists():
            return
        state = load_checkpoint(moments)
        own = [parameter for group in self.param_groups for parameter in group["params"]]
        shapes = {number: value["exp_avg"].shape for number, value in state.items()}
        # a parameter that was never updated has no moments
        if any(number >= len(own) or shape != own[number].shape for number, shape in shapes.items()):
            raise InputError(f"{moments}: moments of other parameters: remove it, and the training it belongs to")
        self.load_state_dict({**self.state_dict(), "state": state})
