"""Keys and values of a beam's hypotheses, stored once for all that share a prefix.

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
    """A hypothesis in a tree: its group, and the nodes of its tokens there, (t,)."""

    tree: "PrefixTree"
    group: int
    nodes: torch.Tensor


class PrefixTree:
    """Hold the nodes of groups of hypotheses, one group per utterance.

    All groups have the same number of nodes. A node holds keys and values of each of
    the ``slots`` attentions; ``capacity``: nodes of a group that there is room for.
    """

    def __init__(self, slots: int, groups: int, capacity: int):
        self.slots = slots
        self.groups = groups
        self.capacity = capacity
        self.size = 0
        # slot -> keys and values, (2, G, heads, capacity, d), from the first write on
        self._buffers: dict[int, torch.Tensor] = {}

    def write(
        self,
        slot: int,
        first: int,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        """Set keys and values of the nodes from ``first`` on.

        Both are (G, heads, nodes, d).
        """
        if slot not in self._buffers:
            groups, heads, _, width = keys.shape
            shape = (2, groups, heads, self.capacity, width)
            self._buffers[slot] = keys.new_zeros(shape)
        stored_keys, stored_values = self._buffers[slot]
        count = keys.size(2)
        stored_keys.narrow(2, first, count).copy_(keys)
        stored_values.narrow(2, first, count).copy_(values)

    def read(self, slot: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of nodes before ``end``, (G, heads, end, d) each."""
        keys, values = self._buffers[slot].narrow(3, 0, end)
        return keys, values

    def add_nodes(
        self,
        nodes: torch.Tensor,
        tokens: int,
    ) -> tuple["PrefixTree", torch.Tensor]:
        """Make room for more tokens of n hypotheses with these nodes, (n, t).

        Each group has equally many of the hypotheses. Returns this tree, or a new one
        if this is full, and the nodes in it with the new ones, (n, t + tokens). The new
        nodes are the last of their group; those of a hypothesis are consecutive.
        """
        tree = self
        hypotheses = len(nodes) // self.groups
        room = hypotheses * tokens
        if self.size + room > self.capacity:
            tree, nodes = self._copy_living(nodes, room)
        # Nodes are numbered within a group, and all groups grow alike, so the numbers
        # of the new ones are the same in each.
        first = tree.size
        tree.size += room
        new = torch.arange(first, tree.size, device=nodes.device)
        new = new.view(hypotheses, tokens).repeat(self.groups, 1)
        return tree, torch.cat((nodes, new), dim=1)

    def _copy_living(
        self,
        nodes: torch.Tensor,
        room: int,
    ) -> tuple["PrefixTree", torch.Tensor]:
        """Copy the nodes on these paths alone; return their tree, and the paths in it.

        Here what the search has pruned is dropped at last.
        """
        paths = nodes.view(self.groups, -1)
        alive = torch.zeros(
            (self.groups, self.size),
            dtype=torch.bool,
            device=nodes.device,
        )
        alive.scatter_(1, paths, True)
        # All groups must have as many nodes as the one with most; the others keep some
        # dead ones. A stable sort leaves the living ones first and in their order.
        count = int(alive.sum(dim=1).max()) if self.size else 0
        order = alive.int().argsort(dim=1, descending=True, stable=True)
        kept = order[:, :count]
        spare = max(STEPS * room, count // PART)
        tree = PrefixTree(self.slots, self.groups, count + spare)
        sources = list_paths(self, kept)
        tree._copy_paths(sources)
        # A node's new number is how many living ones come before it.
        renumbered = alive.cumsum(dim=1) - 1
        return tree, renumbered.gather(1, paths).view_as(nodes)

    def select_groups(self, groups: torch.Tensor) -> "PrefixTree":
        """Return a tree of some of the groups, with the same nodes."""
        tree = PrefixTree(self.slots, len(groups), self.capacity)
        tree.size = self.size
        for slot, buffer in self._buffers.items():
            tree._buffers[slot] = buffer[:, groups]
        return tree

    def _copy_paths(self, paths: Sequence[Path]) -> None:
        """Fill this empty tree: a path of another tree per group, all equally long."""
        self.size = len(paths[0].nodes)
        # Before the first token, the other trees have no buffers yet.
        if not self.size:
            return
        for slot in range(self.slots):
            copies = []
            for path in paths:
                buffer = path.tree._buffers[slot]
                copies.append(buffer[:, path.group, :, path.nodes])
            keys, values = torch.stack(copies, dim=1)
            self.write(slot, 0, keys, values)


def list_paths(
    tree: PrefixTree,
    nodes: torch.Tensor | Sequence[torch.Tensor],
) -> list[Path]:
    """Return hypotheses by their nodes in a tree, (t,) each, equally many a group."""
    each = len(nodes) // tree.groups
    paths = []
    for index, own in enumerate(nodes):
        paths.append(Path(tree, group=index // each, nodes=own))
    return paths


def join_paths(paths: Sequence[Path]) -> tuple[PrefixTree, torch.Tensor]:
    """Bring n hypotheses of equal length t into one tree; return it, and nodes, (n, t).

    If they come from all groups of one tree, in order and equally many from each,
    nothing is copied. Otherwise, which no beam search needs, they are copied to a tree
    in which each is a group.
    """
    first = paths[0]
    if _fill_one_tree(paths):
        return first.tree, torch.stack([path.nodes for path in paths])
    tokens = len(first.nodes)
    spare = max(STEPS, tokens // PART)
    own = PrefixTree(first.tree.slots, len(paths), tokens + spare)
    own._copy_paths(paths)
    nodes = torch.arange(tokens, device=first.nodes.device)
    return own, nodes.repeat(len(paths), 1)


def _fill_one_tree(paths: Sequence[Path]) -> bool:
    """Say whether these are all groups of one tree, in order, equally many of each."""
    tree = paths[0].tree
    if any(path.tree is not tree for path in paths):
        return False
    each, rest = divmod(len(paths), tree.groups)
    if rest:
        return False
    return all(path.group == index // each for index, path in enumerate(paths))
