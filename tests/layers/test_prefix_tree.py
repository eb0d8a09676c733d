"""Keys and values in a tree of prefixes against those of each hypothesis kept in a list."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.layers.prefix_tree import Path, PrefixTree, join

HEADS, WIDTH = 2, 3
SLOTS = 2


class Beam:
    """Hypotheses of several utterances in a tree, and beside it a list of numbers for each: what they were given."""

    def __init__(self, groups: int, each: int):
        self.tree = PrefixTree(SLOTS, groups, 0)
        nothing = torch.zeros(0, dtype=torch.long)
        self.paths = [Path(self.tree, group, nothing) for group in range(groups) for _ in range(each)]
        self.told: list[list[float]] = [[] for _ in self.paths]

    def select(self, chosen: list[int]) -> None:
        self.paths = [self.paths[index] for index in chosen]
        self.told = [self.told[index] for index in chosen]

    def extend(self, tokens: int, source: random.Random) -> None:
        tree, nodes = join(self.paths)
        known = nodes.size(1)
        tree, nodes = tree.extended(nodes, tokens)
        new = [[source.random() for _ in range(tokens)] for _ in self.paths]
        x = torch.tensor(new).view(tree.groups, 1, -1, 1).expand(-1, HEADS, -1, WIDTH)
        for slot in range(SLOTS):
            tree.write(slot, tree.size - x.size(2), x + slot, -x - slot)
        each = len(self.paths) // tree.groups
        self.told = [old + list(more) for old, more in zip(self.told, new, strict=True)]
        self.paths = [Path(tree, index // each, path) for index, path in enumerate(nodes)]
        assert nodes.size(1) == known + tokens

    def check(self) -> None:
        for path, told in zip(self.paths, self.told, strict=True):
            assert path.nodes.max() < path.tree.size <= path.tree.capacity
            for slot in range(SLOTS):
                keys, values = path.tree.read(slot, path.tree.size)
                expected = torch.tensor(told).view(1, -1, 1).expand(HEADS, -1, WIDTH) + slot
                assert torch.equal(keys[path.group][:, path.nodes], expected)
                assert torch.equal(values[path.group][:, path.nodes], -expected)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), groups=st.integers(1, 3), each=st.integers(1, 4), steps=st.integers(1, 30))
def test_each_hypothesis_finds_what_it_was_given(seed, groups, each, steps):
    source = random.Random(seed)
    beam = Beam(groups, each)
    earlier = []
    for _ in range(steps):
        beam.extend(source.choice([1, 1, 1, 3]), source)
        beam.check()
        earlier.append((beam.paths, beam.told))
        # the best of a beam are often of few parents
        chosen = [group * each + source.randrange(each) for group in range(groups) for _ in range(each)]
        beam.select(chosen)
    for beam.paths, beam.told in earlier:  # paths stay good
        beam.check()


def test_a_single_group_may_shrink_and_grow():
    source = random.Random(0)
    beam = Beam(1, 1)
    for count in (1, 4, 3, 1, 2):
        beam.select([0] * count)
        beam.extend(1, source)
        beam.check()


def test_hypotheses_that_are_no_beam_are_copied_together():
    source = random.Random(0)
    one, other = Beam(1, 2), Beam(3, 2)
    for beam in (one, other):
        beam.extend(4, source)
    for paths, told in (
        (one.paths + other.paths, one.told + other.told),  # of two trees
        (other.paths[1:4], other.told[1:4]),  # not all groups alike
        (other.paths[::-1], other.told[::-1]),  # not in order
        (other.paths[:2], other.told[:2]),  # not all groups
    ):
        mixed = Beam(1, 1)
        mixed.paths, mixed.told = paths, told
        mixed.extend(1, source)
        mixed.check()
        assert mixed.paths[0].tree.groups == len(paths)
    one.check()
    other.check()


def test_nodes_that_no_hypothesis_needs_go():
    source = random.Random(0)
    beam = Beam(1, 10)
    sizes = []
    for _ in range(200):
        beam.extend(1, source)
        beam.select([0] * 10)  # one survives each step
        sizes.append(beam.paths[0].tree.capacity)
    assert max(sizes) <= 200 + 10 + 200 // 4 + 80
    beam.check()


@pytest.mark.parametrize("tokens", [1, 5])
def test_the_first_tokens_fit_into_a_tree_without_room(tokens):
    beam = Beam(2, 2)
    beam.extend(tokens, random.Random(0))
    beam.check()
