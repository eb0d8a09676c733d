"""Hypotheses as rows of token ids, one a row or many as a prefix tree, for one forward pass of a language model.

The hypotheses of an N-best list share prefixes. What a causal model computes at a token depends on the tokens before
it alone, so that the tokens of a prefix need computing once: they are the nodes of a tree, a hypothesis is the path to
its last token, and a node attends to the nodes on its own path. A row is a tree, its nodes in an order in which each
comes after its parent. A hypothesis alone is a tree without branches, so that what reads the results need not know.

Differs from ``espnet_ext.search.prefix_tree``, which keeps keys and values of a search that goes on; here all
hypotheses are known, and nothing is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

# Of a row, one part in so many may be padding, if it has as many positions.
PADDING = 10


@dataclass(frozen=True, eq=False)
class Tree:
    """Some hypotheses, each token of a shared prefix once.

    Attributes:
        tokens: the nodes' token ids.
        depths: the nodes' positions in their hypotheses, from 0.
        paths: the nodes of each hypothesis, in order.
        hyps: the number of each hypothesis.
    """

    tokens: list[int]
    depths: list[int]
    paths: list[list[int]]
    hyps: list[int]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, eq=False)
class Rows:
    """Input of one forward pass.

    Attributes:
        ids: token ids, padded at the end, (rows, positions).
        real: which of them are not padding, (rows, positions), bool.
        depths: positions in the hypotheses, (rows, positions).
        sees: which position attends to which, (rows, positions, positions), bool; None where each row is one
            hypothesis, so that a model's own causal mask will do.
        hyps: numbers of the hypotheses, (n,).
        paths: each one's tokens, counted through the real positions of all rows, padded with -1, (n, longest).
    """

    ids: torch.Tensor
    real: torch.Tensor
    depths: torch.Tensor
    sees: torch.Tensor | None
    hyps: torch.Tensor
    paths: torch.Tensor


def grow(hypotheses: Sequence[tuple[int, Sequence[int]]], most: int) -> list[Tree]:
    """Trees of hypotheses, given as number and token ids: one tree, or more where one would have over ``most`` nodes.

    A single hypothesis may be longer.
    """
    trees: list[Tree] = []
    children: dict[tuple[int, int], int] = {}
    for number, tokens in hypotheses:
        if trees and len(trees[-1]) + len(tokens) - _shared(children, tokens) > most:
            children = {}
        if not children:
            trees.append(Tree([], [], [], []))
        tree, node, path = trees[-1], -1, []
        for depth, token in enumerate(tokens):
            child = children.setdefault((node, token), len(tree))
            if child == len(tree):
                tree.tokens.append(token)
                tree.depths.append(depth)
            path.append(child)
            node = child
        tree.paths.append(path)
        tree.hyps.append(number)
    return trees


def _shared(children: dict[tuple[int, int], int], tokens: Sequence[int]) -> int:
    """How many of the first tokens are nodes already."""
    node = -1
    for count, token in enumerate(tokens):
        node = children.get((node, token))
        if node is None:
            return count
    return len(tokens)


def in_batches(sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of rows of these sizes, those of like size together, at most ``budget`` positions with padding a batch.

    No more than one part in ``PADDING`` of a row is padding. A row larger than the budget is a batch of its own.

    >>> in_batches([50, 10, 49, 48, 9, 50], 150)
    [[0, 5, 2], [3], [1, 4]]
    """
    batches: list[list[int]] = []
    width = 0
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        full = batches and (len(batches[-1]) + 1) * width > budget
        if not batches or full or width - sizes[index] > width // PADDING:
            batches.append([])
            width = sizes[index]
        batches[-1].append(index)
    return batches


def stack(trees: Sequence[Tree], masked: bool) -> Rows:
    """Make one batch of trees. ``masked``: with ``sees``, which trees that branch cannot do without."""
    width = max(map(len, trees))
    ids = np.zeros((len(trees), width), dtype=np.int64)
    depths = np.zeros_like(ids)
    sees = np.zeros((len(trees), width, width), dtype=bool) if masked else None
    count, paths = 0, []
    for row, tree in enumerate(trees):
        ids[row, : len(tree)] = tree.tokens
        depths[row, : len(tree)] = tree.depths
        paths += [np.array(path) + count for path in tree.paths]
        count += len(tree)
        if masked:
            np.fill_diagonal(sees[row], True)  # padding sees itself: a softmax over nothing is no number
            for path in tree.paths:
                sees[row][np.ix_(path, path)] |= np.tri(len(path), dtype=bool)
    return Rows(
        ids=torch.from_numpy(ids),
        real=torch.arange(width) < torch.tensor([[len(tree)] for tree in trees]),
        depths=torch.from_numpy(depths),
        sees=None if sees is None else torch.from_numpy(sees),
        hyps=torch.tensor([hyp for tree in trees for hyp in tree.hyps]),
        paths=torch.from_numpy(padded(paths)),
    )


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Rows of numbers, filled up with -1 at the end, (rows, longest) int64."""
    filled = np.full((len(rows), max(map(len, rows), default=0)), -1, dtype=np.int64)
    for index, row in enumerate(rows):
        filled[index, : len(row)] = row
    return filled
