"""ESPnet's transformer decoder in a beam search, each key and value computed once.

ESPnet's decoder keeps the outputs of its layers and computes the keys and values of all
tokens, and of the whole encoder output, again at every step.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.legacy.nets.pytorch_backend.transformer.decoder_layer import DecoderLayer

from espnet_ext.fast_search.cached_attention import EncoderMemory, ScoredPrefixes
from espnet_ext.fast_search.prefix_tree import Path, PrefixTree, join_paths, list_paths


@dataclass(frozen=True)
class ScoredHypothesis:
    """The state of a hypothesis: where keys and values of tokens and encoder are.

    Hypotheses share both; :mod:`espnet_ext.upstream.inference` drops the states of
    those that have ended.
    """

    path: Path
    memory: EncoderMemory


class CachedTransformerDecoder(TransformerDecoder):
    """Search with ESPnet's ``TransformerDecoder`` and its parameters.

    It trains as that does. A subclass with other self-attention overrides
    :meth:`count_streams` and :meth:`attend_to_prefixes`.
    """

    @classmethod
    def from_transformer(cls, decoder: TransformerDecoder) -> Self:
        """Return a fast decoder with the same modules and parameters."""
        # A shallow copy: the model keeps ESPnet's decoder, and both share parameters.
        fast = copy(decoder)
        fast.__class__ = cls
        return fast

    def count_streams(self, layer: DecoderLayer) -> int:
        """Return how many keys and values a layer's self-attention keeps of a token."""
        return 1

    def attend_to_prefixes(
        self,
        layer: DecoderLayer,
        prefixes: ScoredPrefixes,
        slot: int,
        ys: torch.Tensor,
        x: torch.Tensor,
    ) -> torch.Tensor:
        """Attend from new tokens, (n, new, D), to all tokens of their hypotheses.

        ``slot``: where the layer's first keys and values are in the tree; ``ys``: all
        tokens, (n, L).
        """
        return prefixes.attend(slot, layer.self_attn, x)

    def score(
        self,
        ys: torch.Tensor,
        state: ScoredHypothesis | None,
        x: torch.Tensor,
        return_hs: bool = False,
    ) -> tuple:
        """Score the next token of one hypothesis, as :meth:`batch_score` does.

        ``ys``: (L,); ``x``: (T, D).
        """
        scores, states = self.batch_score(
            ys.unsqueeze(0), [state], x.unsqueeze(0), return_hs
        )
        if return_hs:
            return scores[0].squeeze(0), scores[1], states[0]
        return scores.squeeze(0), states[0]

    @torch.no_grad()
    def batch_score(
        self,
        ys: torch.Tensor,
        states: list[ScoredHypothesis | None],
        xs: torch.Tensor,
        return_hs: bool = False,
        xs_mask: torch.Tensor | None = None,
    ) -> tuple[Any, list[ScoredHypothesis]]:
        """Return n hypotheses' log-probabilities, (n, vocabulary), and new states.

        ``ys``: tokens so far, (n, L); ``states``: those that an earlier call returned
        for all tokens but the last, or None; ``xs``: encodings, (n, T, D); ``xs_mask``:
        False on padded frames, (n, 1, T), or None. With ``return_hs``, a pair of
        log-probabilities and the input of the output layer, (n, D).
        """
        memory = self._reuse_memory(states, xs)
        tree, nodes = self._join_prefixes(states, memory.groups, ys)
        known = nodes.size(1)
        tree, nodes = tree.add_nodes(nodes, ys.size(1) - known)
        prefixes = ScoredPrefixes(tree, nodes, known)
        # Usually one token is new. Positions are those in the whole prefix, so all of
        # it is embedded.
        x = self.embed(ys)[:, known:]
        slot = 0
        for number, layer in enumerate(self.decoders):
            x = run_block(
                layer,
                x,
                partial(self.attend_to_prefixes, layer, prefixes, slot, ys),
                partial(memory.attend, number, layer.src_attn, visible=xs_mask),
            )
            slot += self.count_streams(layer)
        last = x[:, -1]
        hidden = self.after_norm(last) if self.normalize_before else last
        scores = hidden
        if self.output_layer is not None:
            scores = self.output_layer(hidden).log_softmax(-1)
        new_states = [
            ScoredHypothesis(path, memory) for path in list_paths(tree, nodes)
        ]
        return ((scores, hidden) if return_hs else scores), new_states

    def select_utterances(
        self,
        states: list[ScoredHypothesis],
        utterances: torch.Tensor,
        xs: torch.Tensor,
    ) -> list[ScoredHypothesis]:
        """Return the states of the n hypotheses of some utterances.

        ``utterances``: their places among those of now; ``xs``: their hypotheses'
        encodings, (n, T, D).
        """
        tree = states[0].path.tree.select_groups(utterances)
        memory = states[0].memory.select_groups(utterances, xs)
        paths = list_paths(tree, [state.path.nodes for state in states])
        return [ScoredHypothesis(path, memory) for path in paths]

    def _reuse_memory(
        self,
        states: list[ScoredHypothesis | None],
        xs: torch.Tensor,
    ) -> EncoderMemory:
        """Return the states' keys and values of the encoder, or new ones for ``xs``.

        New ones are made before the first token and where the encodings have changed.
        """
        # All hypotheses of a search share one memory.
        memories = {state.memory if state is not None else None for state in states}
        memory = memories.pop()
        if memory is not None and not memories and memory.has_encodings(xs):
            return memory
        return EncoderMemory(xs, [layer.src_attn for layer in self.decoders])

    def _join_prefixes(
        self,
        states: list[ScoredHypothesis | None],
        groups: int,
        ys: torch.Tensor,
    ) -> tuple[PrefixTree, torch.Tensor]:
        """Return the tree of all hypotheses and their nodes in it, (n, t).

        t: tokens before the last one; 0 if a hypothesis has no state.
        """
        paths = [state.path for state in states if state is not None]
        # Without states all tokens are new, and an empty tree takes them in one go.
        if len(paths) < len(states):
            slots = sum(self.count_streams(layer) for layer in self.decoders)
            return PrefixTree(slots, groups, 0), ys.new_zeros(len(ys), 0)
        tree, nodes = join_paths(paths)
        return tree, nodes[:, : ys.size(1) - 1]


def run_block(
    layer: DecoderLayer,
    x: torch.Tensor,
    self_attention: Callable[[torch.Tensor], torch.Tensor],
    cross_attention: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Run an ESPnet block with these attentions in place of its own.

    Norms, residuals, dropout and feed-forward are the block's.
    """
    parts = (
        (layer.norm1, self_attention, "concat_linear1"),
        (layer.norm2, cross_attention, "concat_linear2"),
        (layer.norm3, layer.feed_forward, None),
    )
    for norm, function, linear in parts:
        residual = x
        if layer.normalize_before:
            x = norm(x)
        if layer.concat_after and linear is not None:
            x = residual + getattr(layer, linear)(torch.cat((x, function(x)), dim=-1))
        else:
            x = residual + layer.dropout(function(x))
        if not layer.normalize_before:
            x = norm(x)
    return x
