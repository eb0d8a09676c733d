"""ESPnet's attention with cached keys and values.

They are those of the encoder's output and those of tokens that were scored before.
Hypotheses come in groups of equal size, one per utterance; a group shares its keys, so
that one product serves it.
"""

from collections.abc import Sequence
from copy import copy

import torch
from espnet2.legacy.nets.pytorch_backend.transformer.attention import (
    MultiHeadedAttention,
)

from espnet_ext.fast_search.prefix_tree import PrefixTree


def project_queries(attention: MultiHeadedAttention, x: torch.Tensor) -> torch.Tensor:
    """Return queries (B, heads, L, d) of x, (B, L, D)."""
    return attention.q_norm(_split_heads(attention, attention.linear_q(x)))


def project_keys_values(
    attention: MultiHeadedAttention,
    x: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values of x, (B, L, D): (B, heads, L, d) each."""
    keys = _split_heads(attention, attention.linear_k(x))
    values = _split_heads(attention, attention.linear_v(x))
    return attention.k_norm(keys), values


def _split_heads(attention: MultiHeadedAttention, x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (attention.h, attention.d_k)).transpose(1, 2)


def join_groups(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Concatenate the tokens of each group's hypotheses, (n, heads, tokens, d).

    Returns (groups, heads, n / groups * tokens, d).
    """
    return x.unflatten(0, (groups, -1)).transpose(1, 2).flatten(2, 3)


def attend(
    attention: MultiHeadedAttention,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    visible: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    keep: bool = False,
) -> torch.Tensor:
    """Attend to given keys and values; return (n, tokens, D).

    ``queries``: of n hypotheses, (n, heads, tokens, d); ``keys``, ``values``: of their
    groups, (groups, heads, positions, d); ``visible``: True where a token may attend,
    (n, tokens or 1, positions), None: everywhere; ``weights`` multiply the scores
    before the softmax, ``bias`` is then added, (n, tokens, positions) each; ``keep``
    stores the attention weights in ``attention.attn`` as ESPnet does, (n, heads,
    tokens, positions).
    """
    count, _, tokens, width = queries.shape
    groups, _, positions, _ = keys.shape
    # All tokens of a group meet its keys in one product, (groups, heads, n / groups *
    # tokens, positions); what is given per hypothesis takes that shape.
    by_group = (groups, 1, -1, positions)
    scores = join_groups(queries, groups) @ keys.transpose(-2, -1) / width**0.5
    if weights is not None:
        scores = scores * weights.reshape(by_group)
    if bias is not None:
        scores = scores + bias.reshape(by_group)
    if visible is not None:
        visible = visible.expand(-1, tokens, -1).reshape(by_group)
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    shares = scores.softmax(dim=-1)
    if keep:
        by_hypothesis = shares.unflatten(2, (-1, tokens)).transpose(1, 2)
        attention.attn = by_hypothesis.flatten(0, 1)
    context = shares @ values
    return attention.linear_out(context.transpose(1, 2).reshape(count, tokens, -1))


class EncoderMemory:
    """Hold keys and values of the encoder's output, computed once per utterance.

    Each block has its own, for its cross-attention.
    ``xs``: encodings of each hypothesis' utterance, (n, T, D), as the search passes
    them: copies or a stride of 0.
    """

    def __init__(self, xs: torch.Tensor, attentions: Sequence[MultiHeadedAttention]):
        self._source = xs  # kept, so that its address is not reused
        self._version = _count_changes(xs)
        self.groups = count_groups(xs)
        each = len(xs) // self.groups
        utterances = xs[::each]
        self._blocks = []
        for attention in attentions:
            keys, values = project_keys_values(attention, utterances)
            # contiguous: otherwise each product copies them
            self._blocks.append((keys.contiguous(), values.contiguous()))

    def has_encodings(self, xs: torch.Tensor) -> bool:
        """Say whether ``xs`` are these encodings, unchanged.

        Of one utterance there may be more or fewer copies.
        """
        source = self._source
        # Same memory, read in the same way, and not written since: to compare values
        # would make a GPU's queue wait at each step.
        same = (
            xs.data_ptr() == source.data_ptr()
            and xs.device == source.device
            and xs.shape[1:] == source.shape[1:]
            and xs.stride()[1:] == source.stride()[1:]
            and _count_changes(xs) == self._version
        )
        if not same:
            return False
        same_rows = len(xs) == len(source) and xs.stride(0) == source.stride(0)
        return same_rows or (_is_one_utterance(xs) and _is_one_utterance(source))

    def select_groups(self, groups: torch.Tensor, xs: torch.Tensor) -> "EncoderMemory":
        """Return the memory of some groups, whose hypotheses have encodings ``xs``."""
        memory = copy(self)
        memory._source = xs
        memory._version = _count_changes(xs)
        memory.groups = len(groups)
        memory._blocks = []
        for keys, values in self._blocks:
            memory._blocks.append((keys[groups], values[groups]))
        return memory

    def attend(
        self,
        block: int,
        attention: MultiHeadedAttention,
        x: torch.Tensor,
        visible: torch.Tensor | None,
    ) -> torch.Tensor:
        """Compute cross-attention for n hypotheses, (n, tokens, D).

        Its weights are stored in ``attention.attn``. ``visible``: (n, 1, T).
        """
        keys, values = self._blocks[block]
        queries = project_queries(attention, x)
        return attend(attention, queries, keys, values, visible, keep=True)


def _is_one_utterance(xs: torch.Tensor) -> bool:
    return len(xs) == 1 or xs.stride(0) == 0


def _count_changes(xs: torch.Tensor) -> int:
    # PyTorch counts in-place changes, but not of tensors made in inference mode.
    return 0 if xs.is_inference() else xs._version


def count_groups(xs: torch.Tensor) -> int:
    """Count the utterances in encodings, (n, T, D), repeated for their hypotheses.

    Consecutive equal rows are one utterance. If their number differs between
    utterances, each row counts as one.
    """
    if _is_one_utterance(xs):
        return 1
    differs = (xs[1:] != xs[:-1]).flatten(1).any(1)
    changes = differs.nonzero().flatten().tolist()
    groups = len(changes) + 1
    if len(xs) % groups:
        return len(xs)
    each = len(xs) // groups
    regular = [each * index - 1 for index in range(1, groups)]
    return groups if changes == regular else len(xs)


class ScoredPrefixes:
    """Let n hypotheses attend to a tree, which holds all tokens but their new ones.

    ``nodes``: the hypotheses' nodes, (n, L), of which ``known`` are in the tree; its
    last ones are for the new tokens; ``shown``: False for tokens to which none attends,
    (n, L), None: all are.
    """

    def __init__(
        self,
        tree: PrefixTree,
        nodes: torch.Tensor,
        known: int,
        shown: torch.Tensor | None = None,
    ):
        self.tree = tree
        self.nodes = nodes
        count, length = nodes.shape
        new = length - known
        # The new tokens are the group's last nodes, as PrefixTree.add_nodes makes them.
        self._end = tree.size
        self._first = tree.size - count // tree.groups * new
        self._index = nodes.unsqueeze(1).expand(-1, new, -1)
        # A new token sees those before it and itself. By node, this also hides the
        # tokens of the group's other hypotheses: they are on no path of this one.
        earlier = torch.ones(new, length, dtype=torch.bool, device=nodes.device)
        visible = earlier.tril(known).expand(count, -1, -1)
        if shown is not None:
            visible = visible & shown.unsqueeze(1)
        self._visible = self._arrange_by_node(visible)

    def _arrange_by_node(self, x: torch.Tensor) -> torch.Tensor:
        """Rearrange values per token, (n, new, L), to values per node.

        Returns (n, new, all nodes of the group), 0 at nodes that are not on the path.
        """
        hypotheses, new, _ = x.shape
        by_node = x.new_zeros(hypotheses, new, self._end)
        return by_node.scatter_(2, self._index, x)

    def attend(
        self,
        slot: int,
        attention: MultiHeadedAttention,
        x: torch.Tensor,
        weights: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute self-attention of new tokens, (n, new, D).

        Their keys and values are written to ``slot`` of their nodes. ``weights``
        multiply the scores with all tokens, ``bias`` is added to them then, (n, new, L)
        each.
        """
        keys, values = project_keys_values(attention, x)
        keys = join_groups(keys, self.tree.groups)
        values = join_groups(values, self.tree.groups)
        self.tree.write(slot, self._first, keys, values)
        if weights is not None:
            weights = self._arrange_by_node(weights)
        if bias is not None:
            bias = self._arrange_by_node(bias)
        keys, values = self.tree.read(slot, self._end)
        return attend(
            attention,
            project_queries(attention, x),
            keys,
            values,
            self._visible,
            weights,
            bias,
        )
