"""Compute log-probabilities of tokens, with the vocabulary layer only where needed.

The models are those of ``transformers``. That layer is a third of GPT-2's work and most
of its memory; sums and target logits in blocks are twice as fast.
"""

from collections.abc import Iterator, Sequence

import torch
from torch.nn.functional import linear
from transformers import PreTrainedModel

BLOCK = 1024  # tokens of the vocabulary whose logits are in memory at once


def compute_states(
    model: PreTrainedModel, chosen: torch.Tensor, whole: bool, **inputs: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run a causal or masked language model at n ``chosen`` positions.

    ``chosen`` is (rows, positions), bool, with at least one True. Returned are the
    input of the vocabulary layer there, row by row, (n, width), and logits, (n,
    vocabulary), or, unless ``whole``, (1, vocabulary) of the first.
    """
    found = []

    # Models of transformers compute the logits of all positions; what the layer takes
    # is replaced, since not all of them have an argument that says which.
    def keep(_layer: torch.nn.Module, args: tuple[torch.Tensor]) -> torch.Tensor:
        """Keep the layer's input, and let it compute no logits that nobody needs."""
        found.append(args[0][chosen])
        needed = found[0] if whole else found[0][:1]
        return needed.unsqueeze(0)

    layer = model.get_output_embeddings()
    handle = layer.register_forward_pre_hook(keep)
    try:
        logits = model(**inputs).logits
    finally:
        handle.remove()  # the model is the user's, too
    return found[0], logits.squeeze(0)


def is_plain(model: PreTrainedModel) -> bool:
    """Tell whether the logits are the output of the vocabulary layer.

    Some models scale or bound them afterwards.
    """
    layer = model.get_output_embeddings()
    if not isinstance(layer, torch.nn.Linear):
        return False
    ids = torch.arange(4, device=model.device).unsqueeze(0)
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    with torch.no_grad():
        hidden, logits = compute_states(model, everywhere, True, input_ids=ids)
        found = linear(hidden, layer.weight, layer.bias)
        return torch.allclose(found.to(logits), logits, rtol=1e-4, atol=1e-5)


def compute_log_probs(
    model: PreTrainedModel,
    chosen: torch.Tensor,
    indices: torch.Tensor,
    targets: torch.Tensor,
    plain: bool,
    **inputs: torch.Tensor,
) -> torch.Tensor:
    """Return natural log-probabilities of tokens, (n,), in float32 or more exact.

    None is above 0, in bfloat16 either: there a target's logit is rounded as it is in
    the sum. ``chosen``: positions that are needed, (rows, positions), bool;
    ``indices``: for each token the chosen position that predicts it, counted row by
    row, (n,); ``targets``: the tokens' ids, (n,); ``plain``: what ``is_plain`` returned
    for the model.
    """
    hidden, logits = compute_states(model, chosen, not plain, **inputs)
    exact = torch.promote_types(hidden.dtype, torch.float32)
    if plain:
        layer = model.get_output_embeddings()
        return _compute_in_blocks(layer, hidden, indices, targets, exact)
    logits = logits.to(exact)
    sums = logits.logsumexp(dim=1)
    return logits[indices, targets] - sums[indices]


def _compute_in_blocks(
    layer: torch.nn.Linear,
    hidden: torch.Tensor,
    indices: torch.Tensor,
    targets: torch.Tensor,
    exact: torch.dtype,
) -> torch.Tensor:
    """Return what ``compute_log_probs`` does, from the input of the vocabulary layer.

    log softmax = a target's logit - log of the sum of all. The first needs one row of
    the layer for each target, the second is summed block by block.
    """
    found = _compute_target_logits(layer, hidden[indices].to(exact), targets)
    sums_of_blocks = []
    for number, (weight, bias) in enumerate(_split_layer(layer)):
        logits = linear(hidden, weight, bias)
        sums_of_blocks.append(logits.to(exact).logsumexp(dim=1))
        # In half precision the sum holds a rounded logit of the target. The exact one
        # may be larger, and the log-probability above 0: take the rounded one.
        if logits.dtype != exact:
            places = targets - number * BLOCK
            width = logits.shape[1]
            inside = (places >= 0) & (places < width)
            nearest = places.clamp(0, width - 1)  # some index for those of other blocks
            rounded = logits[indices, nearest].to(exact)
            found = torch.where(inside, rounded, found)
    sums = torch.stack(sums_of_blocks).logsumexp(dim=0)
    return found - sums[indices]


def _compute_target_logits(
    layer: torch.nn.Linear, states: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Compute the logit of one token for each state: (n, width), (n,) -> (n,)."""
    logits = (states * layer.weight[targets].to(states.dtype)).sum(dim=1)
    if layer.bias is not None:
        logits = logits + layer.bias[targets]
    return logits


def _split_layer(
    layer: torch.nn.Linear,
) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
    """Yield the layer's weight and bias for ``BLOCK`` tokens at a time."""
    # Split once: the gradient of each slice would be as large as the whole layer.
    weights = layer.weight.split(BLOCK)
    biases: Sequence[torch.Tensor | None] = [None] * len(weights)
    if layer.bias is not None:
        biases = layer.bias.split(BLOCK)
    return zip(weights, biases, strict=True)
