"""Causal models on prefix trees, for those that take a 4-d attention mask."""

import random
from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from espnet_ext.rescore.prefix_trees import Rows, Tree, grow, in_batches, stack
from espnet_ext.rescore.vocabulary import states

# A tree's results may differ from the padded batch's by this part of what a wrong mask makes them differ.
TOLERANCE = 0.02
# Names by which configs tell that a token sees only so many before it. Some models count them by a token's place in
# its row, which in a tree is not its position.
WINDOWS = ("sliding_window", "window_size", "attention_chunk_size", "local_attention")
PROBE_SEED, PROBE_TOKENS = 1, 12


def inputs_of(model: PreTrainedModel, rows: Rows) -> dict[str, torch.Tensor]:
    """Inputs of a model's ``forward``, on its device."""
    device = model.device
    inputs = {"input_ids": rows.ids.to(device)}
    if hasattr(model.config, "use_cache"):
        inputs["use_cache"] = False
    if rows.sees is None:
        return inputs | {"attention_mask": rows.real.to(device).long()}
    # to be added, as models that compute attention step by step want it
    mask = torch.zeros(rows.sees.shape, dtype=model.dtype, device=device)
    mask.masked_fill_(~rows.sees.to(device), torch.finfo(model.dtype).min)
    return inputs | {"attention_mask": mask.unsqueeze(1), "position_ids": rows.depths.to(device)}


def hidden_states(model: PreTrainedModel, rows: Rows) -> torch.Tensor:
    """Hidden states of the real positions, row by row, (n, width): what a vocabulary layer takes, if there is one."""
    real = rows.real.to(model.device)
    if model.get_output_embeddings() is None:
        return model(**inputs_of(model, rows)).last_hidden_state[real]
    return states(model, real, False, **inputs_of(model, rows))[0]


def tree_limit(model: PreTrainedModel) -> int:
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
            return limit if _scores_trees(model) else 0
    except Exception:  # each family that takes no such mask, or too few tokens, fails in its own way
        return 0
    finally:
        model.train(was_training)


def _scores_trees(model: PreTrainedModel) -> bool:
    source = random.Random(PROBE_SEED)
    size = model.get_input_embeddings().num_embeddings
    stem = [source.randrange(size) for _ in range(PROBE_TOKENS // 2)]
    texts = [stem + [source.randrange(size) for _ in range(PROBE_TOKENS - 2 * n)] for n in range(4)]
    texts += [texts[0][:-1], texts[1] + stem[:1]]
    alone = [tree for item in enumerate(texts) for tree in grow([item], PROBE_TOKENS)]
    tree = stack(grow(list(enumerate(texts)), PROBE_TOKENS * len(texts)), masked=True)
    wanted, found = _on_paths(model, stack(alone, masked=False)), _on_paths(model, tree)
    wrong = _on_paths(model, replace(tree, sees=torch.ones_like(tree.sees).tril()))
    return bool((found - wanted).abs().max() <= TOLERANCE * (wrong - wanted).abs().max())


def _on_paths(model: PreTrainedModel, rows: Rows) -> torch.Tensor:
    """Results of each hypothesis's tokens, one hypothesis after the other."""
    return hidden_states(model, rows)[rows.paths[rows.paths >= 0].to(model.device)].float()


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
