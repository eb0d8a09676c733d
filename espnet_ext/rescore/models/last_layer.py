"""The last layer of a masked language model, computed at one position of each row.

Of the last layer only the states at masked positions are used. Its keys and values need all positions; what comes after
its attention, four fifths of its work, does not, nor does the head before the vocabulary layer. BERT and its relatives
have one module there that takes the attention's output and the layer's input, and everything after it is computed
position by position. So it is enough to hand that module one position a row.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

PROBE_TOKENS, PROBE_IDS = 5, 4


@contextmanager
def only_at(model: PreTrainedModel, indices: torch.Tensor) -> Iterator[None]:
    """Compute the end of a model's last layer, and its logits, at one position a row in this block.

    Args:
        model: a model that :func:`takes_one_position` accepts.
        indices: the position of each row, (rows,); logits are (rows, 1, vocabulary) then.
    """
    rows = torch.arange(len(indices), device=indices.device)

    def keep(_module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(states[rows, indices].unsqueeze(1) for states in args)

    handle = _after_last_attention(model).register_forward_pre_hook(keep)
    try:
        yield
    finally:
        handle.remove()


def takes_one_position(model: PreTrainedModel) -> bool:
    """Tell whether :func:`only_at` fits a model: tried on two rows. It needs the structure of BERT."""
    try:
        _after_last_attention(model)
    except (AttributeError, LookupError, TypeError):
        return False
    ids = torch.arange(2 * PROBE_TOKENS, device=model.device).view(2, -1) % PROBE_IDS
    indices = torch.tensor([1, PROBE_TOKENS - 1], device=model.device)
    with torch.no_grad():
        whole = model(input_ids=ids).logits[torch.arange(2), indices]
        try:
            with only_at(model, indices):
                found = model(input_ids=ids).logits.squeeze(1)
        except (RuntimeError, ValueError, IndexError, TypeError):  # what comes after it needs all positions
            return False
    return found.shape == whole.shape and torch.allclose(found, whole, rtol=1e-3, atol=1e-4)


def computes_again(model: PreTrainedModel) -> bool:
    """Tell whether layers are computed again with their gradient, outside of the block of :func:`only_at`."""
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def _after_last_attention(model: PreTrainedModel) -> torch.nn.Module:
    """The module after the attention of the last layer."""
    base: Any = model.base_model
    module: torch.nn.Module = base.encoder.layer[-1].attention.output
    return module
