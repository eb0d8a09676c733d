"""Causal models on prefix trees: hidden states and logits of the nodes, for models that take a 4-d attention mask."""

import random
from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from espnet_ext.rescore.language_model import select
from espnet_ext.rescore.prefix_trees import Rows, Tree, grow, in_batches, stack

# A tree's results may differ from the padded batch's by this part of what a wrong mask makes them differ.
TOLERANCE = 0.02
# Names by which configs tell that a token sees only so many before it. Some models count them by a token's place in
# its row, which in a tree is not its position.
WINDOWS = ("sliding_window", "window_size", "attention_chunk_size", "local_attention")
PROBE_SEED, PROBE_TOKENS = 1, 12


def forward(model: PreTrainedModel, rows: Rows, hidden: bool = False) -> torch.Tensor:
    """Run a causal model on rows.

    Args:
        model: a causal language model, or with ``hidden`` one without output layers.
        rows: on any device.
        hidden: give hidden states, not logits.

    Returns:
        Those of the real positions, row by row, (n, vocabulary) or (n, hidden).
    """
    device = model.device
    real = rows.real.to(device)
    inputs = {"input_ids": rows.ids.to(device)}
    if hasattr(model.config, "use_cache"):
        inputs["use_cache"] = False
    if rows.sees is None:
        inputs["attention_mask"] = real.long()
    else:
        # to be added, as models that compute attention step by step want it
        mask = torch.zeros(rows.sees.shape, dtype=model.dtype, device=device)
        mask.masked_fill_(~rows.sees.to(device), torch.finfo(model.dtype).min)
        inputs |= {"attention_mask": mask.unsqueeze(1), "position_ids": rows.depths.to(device)}
    return model(**inputs).last_hidden_state[real] if hidden else select(model, real, **inputs)


def tree_limit(model: PreTrainedModel, hidden: bool = False) -> int:
    """How many nodes a tree may have for this model, 0 if it takes none.

    A model takes them if it gives a tree the results of its hypotheses, one a row. That is tried out, on a few random
    hypotheses; what counts as equal is measured by what the results are where the mask is wrong.
    """
    limits = [getattr(model.config, name, None) for name in WINDOWS]
    limit = min((size for size in limits if isinstance(size, int) and size > 0), default=2**31)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return limit if _scores_trees(model, hidden) else 0
    finally:
        model.train(was_training)


def _scores_trees(model: PreTrainedModel, hidden: bool) -> bool:
    source = random.Random(PROBE_SEED)
    size = model.get_input_embeddings().num_embeddings
    stem = [source.randrange(size) for _ in range(PROBE_TOKENS // 2)]
    texts = [stem + [source.randrange(size) for _ in range(PROBE_TOKENS - 2 * n)] for n in range(4)]
    texts += [texts[0][:-1], texts[1] + stem]
    alone = [tree for item in enumerate(texts) for tree in grow([item], size)]
    tree = stack(grow(list(enumerate(texts)), PROBE_TOKENS * len(texts)), masked=True)
    wrong = Rows(tree.ids, tree.real, tree.depths, None, tree.hyps, tree.paths)
    wanted = _on_paths(model, stack(alone, masked=False), hidden)
    try:
        found = _on_paths(model, tree, hidden)
    except Exception:  # each family that takes no such mask fails in its own way
        return False
    difference = (found - wanted).abs().max()
    return bool(difference <= TOLERANCE * (_on_paths(model, wrong, hidden) - wanted).abs().max())


def _on_paths(model: PreTrainedModel, rows: Rows, hidden: bool) -> torch.Tensor:
    """Results of each hypothesis's tokens, one hypothesis after the other."""
    return forward(model, rows, hidden)[rows.paths[rows.paths >= 0].to(model.device)].float()


def to_rows(lists: Sequence[Sequence[tuple[int, Sequence[int]]]], limit: int, budget: int) -> list[Rows]:
    """Lists of numbered hypotheses as batches of at most ``budget`` positions, for a model with this ``tree_limit``.

    A hypothesis of more tokens makes a batch of its own.
    """
    trees: list[Tree] = []
    for hypotheses in lists:
        if limit:
            trees += grow(hypotheses, min(limit, budget))
        else:
            trees += [tree for hypothesis in hypotheses for tree in grow([hypothesis], budget)]
    rows = []
    for branched in (True, False):  # the model's own mask does for the others, of any length
        kind = [tree for tree in trees if (len(tree.paths) > 1) == branched]
        batches = in_batches([len(tree) for tree in kind], budget)
        rows += [stack([kind[index] for index in batch], masked=branched) for batch in batches]
    return rows
