"""Log-probabilities of tokens by a language model of ``transformers``, with its
vocabulary layer only where needed.

That layer is a third of GPT-2's work and most of its memory; sums and target logits in
blocks are twice as fast.
"""

import torch
from torch.nn.functional import linear
from transformers import PreTrainedModel

# Tokens of the vocabulary per block.
BLOCK = 1024


def compute_states(
    model: PreTrainedModel, chosen: torch.Tensor, whole: bool, **inputs: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run a causal or masked language model at n ``chosen`` positions, (rows,
    positions), bool, at least one.

    Returns the input of the vocabulary layer there, row by row, (n, width), and logits,
    (n, vocabulary), or, unless ``whole``, (1, vocabulary) of the first.
    """
    found = []

    def keep(_layer: torch.nn.Module, args: tuple[torch.Tensor]) -> torch.Tensor:
        """Keep the layer's input, and let it compute no logits that nobody needs."""
        found.append(args[0][chosen])
        needed = found[0] if whole else found[0][:1]
        return needed.unsqueeze(0)

    handle = model.get_output_embeddings().register_forward_pre_hook(keep)
    try:
        logits = model(**inputs).logits
    finally:
        handle.remove()
    return found[0], logits.squeeze(0)


def is_plain(model: PreTrainedModel) -> bool:
    """Tell whether the logits are the output of the vocabulary layer.

    Some models scale or bound them afterwards.
    """
    layer = model.get_output_embeddings()
    if not isinstance(layer, torch.nn.Linear):
        return False
    ids = torch.arange(4, device=model.device).unsqueeze(0)
    with torch.no_grad():
        hidden, logits = compute_states(
            model, torch.ones_like(ids, dtype=torch.bool), True, input_ids=ids
        )
        found = linear(hidden, layer.weight, layer.bias).to(logits)
        return torch.allclose(found, logits, rtol=1e-4, atol=1e-5)


def compute_log_probs(
    model: PreTrainedModel,
    chosen: torch.Tensor,
    indices: torch.Tensor,
    targets: torch.Tensor,
    plain: bool,
    **inputs: torch.Tensor,
) -> torch.Tensor:
    """Return log-probabilities of tokens, (n,), natural logarithms in float32 or a more
    exact type.

    None is above 0, in bfloat16 either: there a target's logit is rounded as it is in
    the sum. ``chosen``: positions that are needed, (rows, positions), bool;
    ``indices``: for each token the chosen position that predicts it, counted row by
    row, (n,); ``targets``: the tokens' ids, (n,); ``plain``: what ``is_plain`` returned
    for the model.
    """
    hidden, logits = compute_states(model, chosen, not plain, **inputs)
    exact = torch.promote_types(hidden.dtype, torch.float32)
    if not plain:
        logits = logits.to(exact)
        return logits[indices, targets] - logits.logsumexp(dim=1)[indices]
    layer = model.get_output_embeddings()
    found = (hidden[indices].to(exact) * layer.weight[targets].to(exact)).sum(dim=1)
    if layer.bias is not None:
        found = found + layer.bias[targets]
    sums = []
    for start in range(0, len(layer.weight), BLOCK):
        bias = None if layer.bias is None else layer.bias[start : start + BLOCK]
        logits = linear(hidden, layer.weight[start : start + BLOCK], bias)
        sums.append(logits.to(exact).logsumexp(dim=1))
        if logits.dtype != exact:
            # In half precision the sum holds a rounded logit of the target. The exact
            # one may be larger, and the log-probability above 0: take the rounded one.
            places = targets - start
            width = logits.shape[1]
            inside = (places >= 0) & (places < width)
            rounded = logits[indices, places.clamp(0, width - 1)].to(exact)
            found = torch.where(inside, rounded, found)
    return found - torch.stack(sums).logsumexp(dim=0)[indices]
