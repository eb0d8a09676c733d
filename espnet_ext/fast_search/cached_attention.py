"""ESPnet's attention with cached keys and values, those of the encoder's output and
those of scored tokens.

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
    return attention.q_norm(_heads(attention, attention.linear_q(x)))


def project_keys_values(
    attention: MultiHeadedAttention, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values of x, (B, L, D): (B, heads, L, d) each."""
    return attention.k_norm(_heads(attention, attention.linear_k(x))), _heads(
        attention, attention.linear_v(x)
    )


def _heads(attention: MultiHeadedAttention, x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (attention.h, attention.d_k)).transpose(1, 2)


def grouped(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Concatenate the hypotheses of each group, (n, heads, tokens, d): (groups, heads,
    n / groups * tokens, d).
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
    groups = len(keys)
    scores = grouped(queries, groups) @ keys.transpose(-2, -1) / width**0.5
    if weights is not None:
        scores = scores * weights.reshape(groups, 1, -1, keys.size(2))
    if bias is not None:
        scores = scores + bias.reshape(groups, 1, -1, keys.size(2))
    if visible is not None:
        visible = visible.expand(-1, tokens, -1).reshape(groups, 1, -1, keys.size(2))
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    shares = scores.softmax(dim=-1)
    if keep:
        attention.attn = shares.unflatten(2, (-1, tokens)).transpose(1, 2).flatten(0, 1)
    context = shares @ values
    return attention.linear_out(context.transpose(1, 2).reshape(count, tokens, -1))


class EncoderMemory:
    """Hold keys and values of the encoder's output for the cross-attention of each
    block, computed once per utterance.

    ``xs``: encodings of each hypothesis' utterance, (n, T, D), as the search passes
    them: copies or a stride of 0.
    """

    def __init__(self, xs: torch.Tensor, attentions: Sequence[MultiHeadedAttention]):
        self._source = xs  # kept, so that its address is not reused
        self._version = _version(xs)
        self.groups = count_groups(xs)
        utterances = xs[:: len(xs) // self.groups]
        # contiguous: otherwise each product copies them
        projected = (
            project_keys_values(attention, utterances) for attention in attentions
        )
        self._blocks = [
            (keys.contiguous(), values.contiguous()) for keys, values in projected
        ]

    def is_of(self, xs: torch.Tensor) -> bool:
        """Return whether ``xs`` are these encodings, unchanged; of one utterance there
        may be more or fewer copies.
        """
        source = self._source
        same = (
            xs.data_ptr() == source.data_ptr()
            and xs.device == source.device
            and xs.shape[1:] == source.shape[1:]
            and xs.stride()[1:] == source.stride()[1:]
            and _version(xs) == self._version
        )
        rows = (xs.size(0), xs.stride(0)) == (source.size(0), source.stride(0))
        return same and (rows or (_is_one(xs) and _is_one(source)))

    def of_groups(self, groups: torch.Tensor, xs: torch.Tensor) -> "EncoderMemory":
        """Return the memory of some of the groups, whose hypotheses have the encodings
        ``xs``.
        """
        memory = copy(self)
        memory._source = xs
        memory._version = _version(xs)
        memory.groups = len(groups)
        memory._blocks = [
            (keys[groups], values[groups]) for keys, values in self._blocks
        ]
        return memory

    def attend(
        self,
        block: int,
        attention: MultiHeadedAttention,
        x: torch.Tensor,
        visible: torch.Tensor | None,
    ) -> torch.Tensor:
        """Compute cross-attention for n hypotheses, (n, tokens, D), and store its
        weights; ``visible``: (n, 1, T).
        """
        return attend(
            attention,
            project_queries(attention, x),
            *self._blocks[block],
            visible,
            keep=True,
        )


def _is_one(xs: torch.Tensor) -> bool:
    return len(xs) == 1 or xs.stride(0) == 0


def _version(xs: torch.Tensor) -> int:
    return 0 if xs.is_inference() else xs._version


def count_groups(xs: torch.Tensor) -> int:
    """Return the number of utterances in encodings that are repeated for their
    hypotheses, (n, T, D).

    Consecutive equal rows are one utterance. If their number differs between
    utterances, each row counts as one.
    """
    if _is_one(xs):
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
    """Let n hypotheses with new tokens at their ends attend to a tree, which holds the
    earlier tokens.

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
        self._end = tree.size
        self._first = tree.size - count // tree.groups * new
        self._index = nodes.unsqueeze(1).expand(-1, new, -1)
        # A new token sees those before it and itself. By node, this also hides the
        # tokens of the group's other hypotheses: they are on no path of this one.
        earlier = torch.ones(new, length, dtype=torch.bool, device=nodes.device)
        visible = earlier.tril(known).expand(count, -1, -1)
        if shown is not None:
            visible = visible & shown.unsqueeze(1)
        self._visible = self._by_node(visible)

    def _by_node(self, x: torch.Tensor) -> torch.Tensor:
        """Rearrange values per token of each hypothesis, (n, new, L), to values per
        node, (n, new, all nodes).
        """
        return x.new_zeros(*x.shape[:2], self._end).scatter_(2, self._index, x)

    def attend(
        self,
        slot: int,
        attention: MultiHeadedAttention,
        x: torch.Tensor,
        weights: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute self-attention of new tokens, (n, new, D); write their keys and
        values to ``slot`` of their nodes.

        ``weights`` multiply the scores with all tokens, ``bias`` is added to them then,
        (n, new, L) each.
        """
        keys, values = project_keys_values(attention, x)
        self.tree.write(
            slot,
            self._first,
            grouped(keys, self.tree.groups),
            grouped(values, self.tree.groups),
        )
        if weights is not None:
            weights = self._by_node(weights)
        if bias is not None:
            bias = self._by_node(bias)
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
