"""Keys and values of the hypotheses of a beam, each token's once however many hypotheses begin with it.

Hypotheses of a beam search share most of their prefixes. Their tokens are the nodes of a tree, a hypothesis is the
path to its last token, and it attends to all nodes with those that are not on its path masked. Nothing is copied when
the beam is pruned and re-ordered: a hypothesis takes its path along. Nodes that no hypothesis needs any more go when
the tree is full. Nodes never change, so that a path once made stays good.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

# Nodes that a new tree has room for beyond those that are alive: so many steps' worth, and this part of the living.
STEPS = 8
PART = 4


@dataclass(frozen=True, eq=False)
class Path:
    """A hypothesis in a tree.

    Attributes:
        tree: the tree.
        group: the group that it belongs to.
        nodes: its tokens' nodes in this group, (t,).
    """

    tree: "PrefixTree"
    group: int
    nodes: torch.Tensor


class PrefixTree:
    """The nodes of several groups of hypotheses (a group an utterance), all with the same number of nodes.

    Args:
        slots: number of attentions whose keys and values a node holds.
        groups: number of groups, G.
        capacity: number of nodes a group that there is room for.
    """

    def __init__(self, slots: int, groups: int, capacity: int):
        self.slots = slots
        self.groups = groups
        self.capacity = capacity
        self.size = 0
        # of each slot, once it is known what they are like: (2, G, heads, capacity, d), keys and values
        self._buffers: dict[int, torch.Tensor] = {}

    def write(self, slot: int, first: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Set the keys and values of the nodes from ``first`` on, (G, heads, nodes, d) each."""
        if slot not in self._buffers:
            groups, heads, _, width = keys.shape
            self._buffers[slot] = keys.new_zeros(2, groups, heads, self.capacity, width)
        last = first + keys.size(2)
        self._buffers[slot][0, :, :, first:last] = keys
        self._buffers[slot][1, :, :, first:last] = values

    def read(self, slot: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of all nodes before ``end``, (G, heads, end, d) each."""
        return self._buffers[slot][0, :, :, :end], self._buffers[slot][1, :, :, :end]

    def extended(self, nodes: torch.Tensor, tokens: int) -> tuple["PrefixTree", torch.Tensor]:
        """Make room for more tokens of each hypothesis: the same number in every group.

        Args:
            nodes: nodes of n hypotheses, as many in each group, (n, t).
            tokens: how many follow in each hypothesis.

        Returns:
            This tree, or another one if this is full, and the nodes in it with the new ones, (n, t + tokens). The new
            ones are the last of their group, those of each hypothesis in a row.
        """
        tree, room = self, len(nodes) // self.groups * tokens
        if self.size + room > self.capacity:
            tree, nodes = self._living(nodes, room)
        new = torch.arange(tree.size, tree.size + room, device=nodes.device).view(-1, tokens).repeat(self.groups, 1)
        tree.size += room
        return tree, torch.cat((nodes, new), dim=1)

    def _living(self, nodes: torch.Tensor, room: int) -> tuple["PrefixTree", torch.Tensor]:
        """A larger tree of the nodes on these paths alone, and the paths in it."""
        paths = nodes.view(self.groups, -1)
        alive = torch.zeros(self.groups, self.size, dtype=torch.bool, device=nodes.device).scatter_(1, paths, True)
        count = int(alive.sum(1).max()) if self.size else 0
        kept = alive.int().argsort(dim=1, descending=True, stable=True)[:, :count]
        tree = PrefixTree(self.slots, self.groups, count + max(STEPS * room, count // PART))
        tree._take([(self, group, kept[group]) for group in range(self.groups)])
        return tree, (alive.cumsum(1) - 1).gather(1, paths).view_as(nodes)

    def _take(self, paths: Sequence[tuple["PrefixTree", int, torch.Tensor]]) -> None:
        """Copy nodes of other trees' groups, the same number of each, one's into each group."""
        self.size = len(paths[0][2])
        if not self.size:
            return
        for slot in range(self.slots):
            nodes = torch.stack([tree._buffers[slot][:, group, :, kept] for tree, group, kept in paths], dim=1)
            self.write(slot, 0, *nodes)


def join(paths: Sequence[Path]) -> tuple[PrefixTree, torch.Tensor]:
    """Bring hypotheses of equally many tokens together, to score them at once.

    Those that make up all groups of one tree, in their order and equally many of each, stay as they are. Others, which
    no beam search has, are copied to a tree in which each is a group.

    Returns:
        The tree, and the hypotheses' nodes in it, (n, t).
    """
    tree = paths[0].tree
    if all(path.tree is tree for path in paths) and len(paths) % tree.groups == 0:
        each = len(paths) // tree.groups
        if [path.group for path in paths] == [index // each for index in range(len(paths))]:
            return tree, torch.stack([path.nodes for path in paths])
    tokens = len(paths[0].nodes)
    own = PrefixTree(tree.slots, len(paths), tokens + max(STEPS, tokens // PART))
    own._take([(path.tree, path.group, path.nodes) for path in paths])
    return own, torch.arange(tokens, device=paths[0].nodes.device).repeat(len(paths), 1)
