"""ESPnet's transformer language model, each key and value computed once."""

from copy import copy
from typing import Self

import torch
from espnet2.lm.transformer_lm import TransformerLM

from espnet_ext.fast_search.cached_attention import ScoredPrefixes, count_groups
from espnet_ext.fast_search.prefix_tree import Path, PrefixTree, join_paths, list_paths


class FastTransformerLM(TransformerLM):
    """Score tokens as ESPnet's ``TransformerLM`` does.

    That computes the keys and values of all tokens at each step. Hypotheses of an
    utterance share those of common prefixes. A state is a :class:`~.prefix_tree.Path`.
    """

    @classmethod
    def from_transformer(cls, lm: TransformerLM) -> Self:
        """Return a fast language model with the same modules and parameters."""
        # A shallow copy: both share modules and parameters.
        fast = copy(lm)
        fast.__class__ = cls
        return fast

    @torch.no_grad()
    def batch_score(
        self,
        ys: torch.Tensor,
        states: list[Path | None],
        xs: torch.Tensor,
    ) -> tuple[torch.Tensor, list[Path]]:
        """Return n hypotheses' log-probabilities, (n, vocabulary), and new states.

        ``ys``: tokens so far, (n, L); ``states``: what the last step returned, or None;
        ``xs``: encodings of each hypothesis' utterance, (n, T, D).
        """
        paths = [state for state in states if state is not None]
        if paths:
            tree, nodes = join_paths(paths)
        else:
            tree = PrefixTree(len(self.encoder.encoders), count_groups(xs), capacity=0)
            nodes = ys.new_zeros(len(ys), 0)
        known = nodes.size(1)
        tree, nodes = tree.add_nodes(nodes, ys.size(1) - known)
        # ESPnet takes 0, CTC's blank, for padding.
        prefixes = ScoredPrefixes(tree, nodes, known, shown=ys != 0)
        x = self.encoder.embed(self.embed(ys))[:, known:]
        # ESPnet's encoder layer, with norms before (its language models have no other),
        # and without dropout.
        for slot, layer in enumerate(self.encoder.encoders):
            x = x + prefixes.attend(slot, layer.self_attn, layer.norm1(x))
            x = x + layer.feed_forward(layer.norm2(x))
        scores = self.decoder(self.encoder.after_norm(x[:, -1])).log_softmax(-1)
        return scores, list_paths(tree, nodes)

    def select_utterances(
        self,
        states: list[Path],
        utterances: torch.Tensor,
        xs: torch.Tensor,
    ) -> list[Path]:
        """Return the states of the hypotheses of some utterances, n of them."""
        tree = states[0].tree.select_groups(utterances)
        return list_paths(tree, [state.nodes for state in states])
