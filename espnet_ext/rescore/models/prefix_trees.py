"""Put hypotheses into rows of token ids, one per row or many as a prefix tree.

What a causal model computes at a token depends only on those before it, so a prefix
that hypotheses share is computed once. A hypothesis is the path to its last node, and a
node attends to its own path; without branches a row is one hypothesis.
(``espnet_ext.fast_search.prefix_tree`` keeps keys and values of a running search; here
all is known before.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.vocabulary import compute_states

# At most 1 / PADDING of a row may be padding, if the row has at least PADDING
# positions.
PADDING = 10
# Types of models of transformers that take the mask and the positions of a tree; others
# may ignore one of them without a word.
TREES = ("gpt2", "llama")
PROBE = (1, 2, 3, 4)  # tokens that every vocabulary has
TOLERANCE = 0.1  # of rounding, which in bfloat16 and float16 is of the order of 0.01


@dataclass(frozen=True, eq=False)
class Tree:
    """Some hypotheses, with each token of a shared prefix stored once.

    A node comes after its parent. ``tokens``, ``depths``: the nodes' token ids, and
    positions in their hypotheses from 0; ``paths``: the nodes of each hypothesis, in
    order; ``hyps``: its number.
    """

    tokens: list[int]
    depths: list[int]
    paths: list[list[int]]
    hyps: list[int]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, eq=False)
class Rows:
    """Hold the input of one forward pass."""

    ids: torch.Tensor  # token ids, padded at the end, (rows, positions)
    real: torch.Tensor  # True where a position is not padding, (rows, positions), bool
    depths: torch.Tensor  # positions in the hypotheses, (rows, positions)
    # which attends to which, (rows, positions, positions), bool; None: causal rows
    sees: torch.Tensor | None
    hyps: torch.Tensor  # numbers of the hypotheses, (n,)
    # tokens of each by real positions of all rows, padded with -1, (n, longest)
    paths: torch.Tensor


# (parent, token) -> node; the parent of the first token is -1
Children = dict[tuple[int, int], int]


def grow(hypotheses: Sequence[tuple[int, Sequence[int]]], most: int) -> list[Tree]:
    """Put hypotheses, as number and token ids, into trees of at most ``most`` nodes.

    A longer hypothesis is a tree of its own.
    """
    trees: list[Tree] = []
    children: Children = {}  # of the last tree
    for number, tokens in hypotheses:
        new = len(tokens) - _count_shared(children, tokens)
        if trees and len(trees[-1]) + new > most:
            children = {}
        # Also after hypotheses without tokens: their tree has no node.
        if not children:
            trees.append(Tree([], [], [], []))
        tree = trees[-1]
        path = _add_path(tree, children, tokens)
        tree.paths.append(path)
        tree.hyps.append(number)
    return trees


def _add_path(tree: Tree, children: Children, tokens: Sequence[int]) -> list[int]:
    """Add the tokens that a tree lacks after those it has; return the nodes of all."""
    node = -1
    path = []
    for depth, token in enumerate(tokens):
        # A number that is the tree's size is that of a node which is not there yet.
        child = children.setdefault((node, token), len(tree))
        if child == len(tree):
            tree.tokens.append(token)
            tree.depths.append(depth)
        path.append(child)
        node = child
    return path


def _count_shared(children: Children, tokens: Sequence[int]) -> int:
    """Return how many of the first tokens are nodes already."""
    node = -1
    count = 0
    for token in tokens:
        if (node, token) not in children:
            break
        node = children[node, token]
        count += 1
    return count


def group_by_size(sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Put rows of these sizes into batches, and return their indices.

    A batch has at most ``budget`` positions, padding included. At most one part in
    ``PADDING`` of a row is padding. A row larger than the budget is a batch of its own.

    >>> group_by_size([50, 10, 49, 48, 9, 50], 150)
    [[0, 5, 2], [3], [1, 4]]
    """
    batches: list[list[int]] = []
    width = 0
    longest_first = sorted(range(len(sizes)), key=lambda index: -sizes[index])
    # Neighbours in this order are of similar size, so that there is little padding.
    for index in longest_first:
        # The first row of a batch is its longest one, and sets the width of all.
        padding = width - sizes[index]
        fits = batches and (len(batches[-1]) + 1) * width <= budget
        if not fits or padding > width // PADDING:
            batches.append([])
            width = sizes[index]
        batches[-1].append(index)
    return batches


def stack_trees(trees: Sequence[Tree], masked: bool) -> Rows:
    """Make one batch of trees.

    ``masked`` adds ``sees``, which trees with branches need.
    """
    width = max(len(tree) for tree in trees)
    ids = np.zeros((len(trees), width), dtype=np.int64)
    depths = np.zeros_like(ids)
    real = np.zeros_like(ids, dtype=bool)
    count = 0  # nodes of the trees before, as `paths` counts through all rows
    paths: list[list[int]] = []
    hyps: list[int] = []
    for row, tree in enumerate(trees):
        size = len(tree)
        ids[row, :size] = tree.tokens
        depths[row, :size] = tree.depths
        real[row, :size] = True
        for path in tree.paths:
            paths.append([count + node for node in path])
        hyps += tree.hyps
        count += size
    sees = None
    if masked:
        visible = np.stack([_mark_visible(tree, width) for tree in trees])
        sees = torch.from_numpy(visible)
    return Rows(
        ids=torch.from_numpy(ids),
        real=torch.from_numpy(real),
        depths=torch.from_numpy(depths),
        sees=sees,
        hyps=torch.tensor(hyps),
        paths=torch.from_numpy(pad_rows(paths)),
    )


def _mark_visible(tree: Tree, width: int) -> np.ndarray:
    """Return which position attends to which, (width, width) bool."""
    # Padding sees itself: a softmax over nothing is NaN.
    sees = np.eye(width, dtype=bool)
    for path in tree.paths:
        # On its path, a node sees itself and those before it.
        earlier = np.tri(len(path), dtype=bool)
        sees[np.ix_(path, path)] |= earlier
    return sees


def pad_rows(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Return rows of numbers, padded with -1 at the end, (rows, longest) int64."""
    longest = max((len(row) for row in rows), default=0)
    filled = np.full((len(rows), longest), -1, dtype=np.int64)
    for index, row in enumerate(rows):
        filled[index, : len(row)] = row
    return filled


def make_inputs(model: PreTrainedModel, rows: Rows) -> dict[str, Any]:
    """Return the inputs of a model's ``forward``, on its device."""
    device = model.device
    inputs: dict[str, Any] = {"input_ids": rows.ids.to(device)}
    if hasattr(model.config, "use_cache"):
        inputs["use_cache"] = False
    if rows.sees is None:
        return inputs | {"attention_mask": rows.real.to(device).long()}
    # An additive mask, which models with eager attention want. The lowest finite number
    # and not -inf: sums with other masks stay numbers.
    hidden = ~rows.sees.to(device)
    lowest = torch.finfo(model.dtype).min
    mask = torch.zeros(hidden.shape, dtype=model.dtype, device=device)
    mask.masked_fill_(hidden, lowest)
    return inputs | {
        "attention_mask": mask.unsqueeze(1),
        "position_ids": rows.depths.to(device),
    }


def compute_hidden_states(model: PreTrainedModel, rows: Rows) -> torch.Tensor:
    """Return the hidden states of real positions, row by row, (n, width).

    They are what a vocabulary layer would take.
    """
    real = rows.real.to(model.device)
    inputs = make_inputs(model, rows)
    if model.get_output_embeddings() is None:
        output = model(**inputs)
        return output.last_hidden_state[real]
    hidden, _ = compute_states(model, real, False, **inputs)
    return hidden


def takes_trees(model: PreTrainedModel) -> bool:
    """Tell whether a model scores trees; others get a row for each hypothesis.

    A model whose hidden states depend on later tokens, such as XLNet, has no likelihood
    of P3's eq. 2. It is refused: its states at the first tokens change when the last
    one does.
    """
    if model.config.model_type in TREES:
        return True
    was_training = model.training
    model.eval()  # dropout would change all states
    with torch.no_grad():
        found = []
        for last in (PROBE[-1], 0):
            trees = grow([(0, [*PROBE[:-1], last])], most=len(PROBE))
            rows = stack_trees(trees, masked=False)
            found.append(compute_hidden_states(model, rows))
    model.train(was_training)
    differences = (found[0] - found[1]).float().abs()
    changes = differences.amax(dim=1)  # of each position
    # In proportion to what the changed token itself does. NaN is not larger: a model
    # whose weights are broken is refused by its scores.
    if changes[:-1].max() > TOLERANCE * changes[-1]:
        raise InputError(
            f"{model.config.model_type}: its hidden states depend on later "
            "tokens, so that it gives no likelihood from "
            "left to right: give a causal model, or score it by pll"
        )
    return False


def to_rows(
    lists: Sequence[Sequence[tuple[int, Sequence[int]]]], as_trees: bool, budget: int
) -> list[Rows]:
    """Put lists of numbered hypotheses into batches of at most ``budget`` positions.

    A longer hypothesis is a batch of its own. ``as_trees`` puts those of a list into
    trees, for a model that takes them (:func:`takes_trees`).
    """
    trees: list[Tree] = []
    for hypotheses in lists:
        if as_trees:
            trees += grow(hypotheses, budget)
        else:
            for hypothesis in hypotheses:
                trees += grow([hypothesis], budget)
    # For those without branches the model's own mask is enough, at any length.
    branched = [tree for tree in trees if len(tree.paths) > 1]
    single = [tree for tree in trees if len(tree.paths) == 1]
    return [
        *_stack_batches(branched, budget, masked=True),
        *_stack_batches(single, budget, masked=False),
    ]


def _stack_batches(trees: Sequence[Tree], budget: int, masked: bool) -> list[Rows]:
    """Stack trees of similar sizes into batches."""
    sizes = [len(tree) for tree in trees]
    rows = []
    for batch in group_by_size(sizes, budget):
        own = [trees[index] for index in batch]
        rows.append(stack_trees(own, masked))
    return rows
