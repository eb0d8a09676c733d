"""Keys and values of the hypotheses of a beam, stored once for all hypotheses that
share a prefix.

Tokens are nodes of a tree, and a hypothesis is the path to its last token: pruning and
re-ordering copy nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

# Spare room of a new tree: nodes for STEPS steps, or 1 / PART of its nodes if that is
# more.
STEPS = 8
PART = 4


@dataclass(frozen=True, eq=False)
class Path:
    """Name a hypothesis in a tree: its group, and the nodes of its tokens in this
    group, (t,).
    """

    tree: "PrefixTree"
    group: int
    nodes: torch.Tensor


class PrefixTree:
    """Hold the nodes of groups of hypotheses, one group per utterance, all with the
    same number of nodes.

    A node holds keys and values of each of the ``slots`` attentions; ``capacity``:
    nodes of a group that there is room for.
    """

    def __init__(self, slots: int, groups: int, capacity: int):
        self.slots = slots
        self.groups = groups
        self.capacity = capacity
        self.size = 0
        # slot -> keys and values, (2, G, heads, capacity, d), from the first write on
        self._buffers: dict[int, torch.Tensor] = {}

    def write(
        self, slot: int, first: int, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Set the keys and values of the nodes from ``first`` on, (G, heads, nodes, d)
        each.
        """
        if slot not in self._buffers:
            groups, heads, _, width = keys.shape
            self._buffers[slot] = keys.new_zeros(2, groups, heads, self.capacity, width)
        last = first + keys.size(2)
        self._buffers[slot][0, :, :, first:last] = keys
        self._buffers[slot][1, :, :, first:last] = values

    def read(self, slot: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of all nodes before ``end``, (G, heads, end, d) each."""
        return self._buffers[slot][0, :, :, :end], self._buffers[slot][1, :, :, :end]

    def extended(
        self, nodes: torch.Tensor, tokens: int
    ) -> tuple["PrefixTree", torch.Tensor]:
        """Make room for more tokens of each of n hypotheses with these nodes, (n, t),
        equally many in each group.

        Returns this tree, or a new one if this is full, and the nodes in it with the
        new ones, (n, t + tokens). The new nodes are the last of their group; those of a
        hypothesis are consecutive.
        """
        tree = self
        room = len(nodes) // self.groups * tokens
        if self.size + room > self.capacity:
            tree, nodes = self._copy_living(nodes, room)
        # Nodes are numbered within a group, and all groups grow alike, so the numbers
        # of the new ones are the same in each.
        new = torch.arange(tree.size, tree.size + room, device=nodes.device)
        new = new.view(-1, tokens).repeat(self.groups, 1)
        tree.size += room
        return tree, torch.cat((nodes, new), dim=1)

    def _copy_living(
        self, nodes: torch.Tensor, room: int
    ) -> tuple["PrefixTree", torch.Tensor]:
        """Return a larger tree with only the nodes on these paths, and the paths there.

        Here what the search has pruned is dropped at last.
        """
        paths = nodes.view(self.groups, -1)
        shape = (self.groups, self.size)
        alive = torch.zeros(shape, dtype=torch.bool, device=nodes.device)
        alive.scatter_(1, paths, True)
        # All groups must have as many nodes as the one with most; the others keep some
        # dead ones. A stable sort leaves the living ones first and in their order.
        count = int(alive.sum(1).max()) if self.size else 0
        kept = alive.int().argsort(dim=1, descending=True, stable=True)[:, :count]
        spare = max(STEPS * room, count // PART)
        tree = PrefixTree(self.slots, self.groups, count + spare)
        tree._take([(self, group, kept[group]) for group in range(self.groups)])
        # A node's new number is how many living ones come before it.
        renumbered = alive.cumsum(1) - 1
        return tree, renumbered.gather(1, paths).view_as(nodes)

    def of_groups(self, groups: torch.Tensor) -> "PrefixTree":
        """Return a tree of some of the groups, with the same nodes."""
        tree = PrefixTree(self.slots, len(groups), self.capacity)
        tree.size = self.size
        tree._buffers = {
            slot: buffer[:, groups] for slot, buffer in self._buffers.items()
        }
        return tree

    def _take(self, paths: Sequence[tuple["PrefixTree", int, torch.Tensor]]) -> None:
        """Copy nodes from groups of other trees, one source per group, equally many
        nodes each.
        """
        self.size = len(paths[0][2])
        if not self.size:
            return
        for slot in range(self.slots):
            nodes = torch.stack(
                [tree._buffers[slot][:, group, :, kept] for tree, group, kept in paths],
                dim=1,
            )
            self.write(slot, 0, *nodes)


def paths_of(
    tree: PrefixTree, nodes: torch.Tensor | Sequence[torch.Tensor]
) -> list[Path]:
    """Return hypotheses by their nodes in a tree, (t,) each, equally many of each
    group.
    """
    each = len(nodes) // tree.groups
    return [Path(tree, index // each, own) for index, own in enumerate(nodes)]


def join(paths: Sequence[Path]) -> tuple[PrefixTree, torch.Tensor]:
    """Bring hypotheses with the same number of tokens together: the tree, and their
    nodes in it, (n, t).

    If they come from all groups of one tree, in order and equally many from each,
    nothing is copied. Otherwise, which no beam search needs, they are copied to a tree
    in which each is a group.
    """
    tree = paths[0].tree
    if _fill_one_tree(paths):
        return tree, torch.stack([path.nodes for path in paths])
    tokens = len(paths[0].nodes)
    own = PrefixTree(tree.slots, len(paths), tokens + max(STEPS, tokens // PART))
    own._take([(path.tree, path.group, path.nodes) for path in paths])
    nodes = torch.arange(tokens, device=paths[0].nodes.device)
    return own, nodes.repeat(len(paths), 1)


def _fill_one_tree(paths: Sequence[Path]) -> bool:
    """Return whether hypotheses are of all groups of one tree, in order, equally many
    of each.
    """
    tree = paths[0].tree
    if any(path.tree is not tree for path in paths) or len(paths) % tree.groups:
        return False
    each = len(paths) // tree.groups
    return all(path.group == index // each for index, path in enumerate(paths))
