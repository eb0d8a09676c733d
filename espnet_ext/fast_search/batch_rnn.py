"""``decoder: batch_rnn``: ESPnet's LSTM or GRU decoder on a whole beam at once.

P2 (section 4) has "a single layer of uni-directional LSTM" with 1024 cells, whose
attention sees the encoder's output, the decoder's state and the previous weights:
ESPnet's ``decoder: rnn`` with ``atype: location``.
"""

from collections.abc import Sequence
from copy import copy
from itertools import chain
from typing import Any

import torch
from espnet2.asr.decoder.rnn_decoder import RNNDecoder, build_attention_list
from espnet2.utils.get_default_kwargs import get_default_kwargs

from espnet_ext.errors import InputError
from espnet_ext.fast_search.blocked_linear import blocked_linear
from espnet_ext.fast_search.rnn_attention import (
    ATTENTIONS,
    State,
    WholeUtteranceScorer,
    attend,
    memorise,
)


class BatchRNNDecoder(WholeUtteranceScorer, RNNDecoder):
    """Search with ESPnet's ``RNNDecoder`` as a batched scorer.

    It has that decoder's parameters and trains by its code. A step of the search reads
    the weights once for all hypotheses. Attention and products with the previous states
    do not depend on the last token, so they are computed once for all hypotheses that
    continue the same one. Options are ESPnet's, with one encoder, and ``atype`` one of
    ``noatt``, ``dot``, ``add`` and ``location``.

    The state of a hypothesis is a dict, since the search copies tensors in dicts when a
    hypothesis ends. ``z_prev``, ``c_prev``: states of all layers, (layers, cells);
    ``a_prev``: attention weights, (T,); ``memory``: the utterance's ``Memory``.
    """

    name = "batch_rnn"

    def __init__(
        self,
        vocab_size: int,
        encoder_output_size: int,
        rnn_type: str = "lstm",
        num_layers: int = 1,
        hidden_size: int = 320,
        sampling_probability: float = 0.0,
        dropout: float = 0.0,
        context_residual: bool = False,
        replace_sos: bool = False,
        num_encs: int = 1,
        # ESPnet reads the defaults from here
        att_conf: dict = get_default_kwargs(build_attention_list),  # noqa: B008
    ):
        if rnn_type not in ("lstm", "gru"):
            raise InputError(
                f"batch_rnn: rnn_type is '{rnn_type}', it must be lstm or gru"
            )
        _check_options(num_encs, att_conf.get("atype", "location"))
        super().__init__(
            vocab_size=vocab_size,
            encoder_output_size=encoder_output_size,
            rnn_type=rnn_type,
            num_layers=num_layers,
            hidden_size=hidden_size,
            sampling_probability=sampling_probability,
            dropout=dropout,
            context_residual=context_residual,
            replace_sos=replace_sos,
            num_encs=num_encs,
            att_conf=att_conf,
        )

    def make_first_states(
        self,
        x: torch.Tensor,
        lengths: torch.Tensor | None,
    ) -> list[State]:
        zeros = x.new_zeros(self.dlayers, self.dunits)
        memories = memorise(self.att_list[0], x, lengths)
        return [
            {
                "z_prev": zeros,
                "c_prev": zeros,
                "a_prev": memory.make_uniform_weights(),
                "memory": memory,
            }
            for memory in memories
        ]

    def batch_logits(
        self,
        ys: torch.Tensor,
        states: Sequence[State],
    ) -> tuple[torch.Tensor, list[State]]:
        hidden, states = self.batch_hidden(ys, states)
        return blocked_linear(hidden, self.output.weight, self.output.bias), states

    def batch_hidden(
        self,
        ys: torch.Tensor,
        states: Sequence[State],
    ) -> tuple[torch.Tensor, list[State]]:
        """Return the input of the output layer, (n, cells), and the new states.

        With ``context_residual`` the context is in it: (n, cells + D).
        """
        groups, child_of = _find_parents(states)
        parents = list(chain.from_iterable(groups))
        z = torch.stack([parent["z_prev"] for parent in parents])
        c = torch.stack([parent["c_prev"] for parent in parents])
        context, weights = self._attend(groups, self.dropout_dec[0](z[:, 0]))

        # Until here one row per parent, from here one per hypothesis: z[child].
        child = torch.tensor(child_of).to(z.device, non_blocking=True)
        z_first, c_first = self._compute_first_layer(
            ys[:, -1], context, z[:, 0], c[:, 0], child
        )
        z, c = self._compute_layers(z_first, c_first, z[child], c[child])
        out = self.dropout_dec[-1](z[:, -1])
        if self.context_residual:
            out = torch.cat((out, context[child]), dim=-1)
        new_states = []
        for parent, z_row, c_row in zip(child_of, z.unbind(), c.unbind(), strict=True):
            new_states.append(
                {
                    "z_prev": z_row,
                    "c_prev": c_row,
                    "a_prev": weights[parent],
                    "memory": parents[parent]["memory"],
                }
            )
        return out, new_states

    def _attend(
        self,
        groups: list[list[State]],
        z: torch.Tensor,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return context vectors of u parents, (u, D), and their attention weights.

        Weights are u tensors, (T,), each as long as its utterance.
        """
        contexts: list[torch.Tensor] = []
        weights: list[torch.Tensor] = []
        sizes = [len(group) for group in groups]
        for group, z_group in zip(groups, z.split(sizes), strict=True):
            previous = torch.stack([parent["a_prev"] for parent in group])
            context, own_weights = attend(
                self.att_list[0], group[0]["memory"], z_group, previous
            )
            contexts.append(context)
            weights.extend(own_weights.unbind())
        return torch.cat(contexts), weights

    def _compute_first_layer(
        self,
        tokens: torch.Tensor,
        context: torch.Tensor,
        z: torch.Tensor,
        c: torch.Tensor,
        child: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return n hypotheses' states and cells of the first layer, (n, cells) each.

        The hypotheses have u parents. ``tokens``: (n,); ``context``: (u, D); ``z``,
        ``c``: (u, cells) each, of which a GRU does not change the cells; ``child``: the
        parent of each hypothesis, (n,).
        """
        cell = self.decoder[0]
        embedding = self.dropout_emb(self.embed(tokens))
        # W [embedding, context] in two products: that with the context is the parent's,
        # and so is that with the state.
        of_token, of_context = cell.weight_ih.split(
            [embedding.size(1), context.size(1)], dim=1
        )
        from_context = blocked_linear(context, of_context, cell.bias_ih)[child]
        from_input = from_context + blocked_linear(embedding, of_token)
        from_state = blocked_linear(z, cell.weight_hh, cell.bias_hh)[child]
        if self.dtype == "lstm":
            # PyTorch's order of gates: input, forget, cell, output
            i, f, g, o = (from_input + from_state).chunk(4, dim=1)
            c = f.sigmoid() * c[child] + i.sigmoid() * g.tanh()
            return o.sigmoid() * c.tanh(), c
        # A GRU resets what comes from the state before it adds the input.
        r, u, n = from_input.chunk(3, dim=1)
        r_state, u_state, n_state = from_state.chunk(3, dim=1)
        n = (n + (r + r_state).sigmoid() * n_state).tanh()
        return n + (u + u_state).sigmoid() * (z[child] - n), c[child]

    def _compute_layers(
        self,
        z_first: torch.Tensor,
        c_first: torch.Tensor,
        z: torch.Tensor,
        c: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states and cells of all layers, (n, layers, cells) each.

        ``z_first``, ``c_first``: the new ones of the first layer, (n, cells) each;
        ``z``, ``c``: the old ones of all layers.
        """
        zs = [z_first]
        cs = [c_first]
        for layer in range(1, self.dlayers):
            below = self.dropout_dec[layer - 1](zs[-1])
            cell = self.decoder[layer]
            if self.dtype == "lstm":
                new_z, new_c = cell(below, (z[:, layer], c[:, layer]))
            else:
                new_z = cell(below, z[:, layer])
                new_c = c[:, layer]
            zs.append(new_z)
            cs.append(new_c)
        return torch.stack(zs, dim=1), torch.stack(cs, dim=1)


def make_batched(decoder: RNNDecoder) -> BatchRNNDecoder:
    """Make a batched scorer of a decoder that ESPnet has built.

    They share parameters and submodules. Raises InputError: it is no plain
    ``RNNDecoder``, or has several encoders or another attention.
    """
    if isinstance(decoder, BatchRNNDecoder):
        return decoder
    if type(decoder) is not RNNDecoder:
        raise InputError(
            f"batch_rnn: {type(decoder).__name__} is not ESPnet's RNNDecoder"
        )
    attention = type(decoder.att_list[0])
    names = {kind: name for name, kind in ATTENTIONS.items()}
    _check_options(decoder.num_encs, names.get(attention, attention.__name__))
    batched = copy(decoder)
    batched.__class__ = BatchRNNDecoder
    return batched


def _check_options(num_encs: int, atype: Any) -> None:
    if num_encs != 1:
        raise InputError(
            f"batch_rnn: num_encs is {num_encs}, but it takes one encoder; use "
            "decoder: rnn for several"
        )
    if atype not in list(ATTENTIONS):
        raise InputError(
            f"batch_rnn: atype {atype} is not supported, only "
            f"{', '.join(ATTENTIONS)}; use decoder: rnn"
        )


def _find_parents(states: Sequence[State]) -> tuple[list[list[State]], list[int]]:
    """Return the distinct states of n hypotheses, one list per utterance.

    With them where each hypothesis' state is, n numbers, if the lists are joined.
    """
    # The search passes the same object to all continuations of a hypothesis, so equal
    # addresses are equal states; all are alive, so no address is used twice.
    utterances: dict[int, dict[int, State]] = {}
    for state in states:
        own = utterances.setdefault(id(state["memory"]), {})
        own[id(state)] = state
    groups = [list(parents.values()) for parents in utterances.values()]
    places: dict[int, int] = {}
    for parent in chain.from_iterable(groups):
        places[id(parent)] = len(places)
    return groups, [places[id(state)] for state in states]
