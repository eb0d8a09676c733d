"""``decoder: batch_rnn``: ESPnet's LSTM or GRU decoder with attention, scoring all
hypotheses of a beam at once.

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

# The state of a hypothesis. It is a dict, since the search copies tensors in dicts when
# a hypothesis ends. z_prev, c_prev: states of all layers, (layers, cells); a_prev:
# attention weights, (T,); memory: the utterance's Memory


class BatchRNNDecoder(WholeUtteranceScorer, RNNDecoder):
    """Search with ESPnet's ``RNNDecoder``, whose code trains it and whose parameters it
    has, as a batched scorer.

    A step of the search reads the weights once for all hypotheses. Attention and
    products with the previous states do not depend on the last token, so they are
    computed once for all hypotheses that continue the same one. Options are ESPnet's,
    with one encoder, and ``atype`` one of ``noatt``, ``dot``, ``add`` and ``location``.
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
        att_conf: dict = get_default_kwargs(build_attention_list),  # noqa: B008 -- ESPnet reads the defaults from here
    ):
        if rnn_type not in ("lstm", "gru"):
            raise InputError(
                f"batch_rnn: rnn_type is '{rnn_type}', it must be lstm or gru"
            )
        _check(num_encs, att_conf.get("atype", "location"))
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

    def first_states(
        self, x: torch.Tensor, lengths: torch.Tensor | None
    ) -> list[State]:
        zeros = x.new_zeros(self.dlayers, self.dunits)
        memories = memorise(self.att_list[0], x, lengths)
        return [
            {"z_prev": zeros, "c_prev": zeros, "a_prev": m.uniform(), "memory": m}
            for m in memories
        ]

    def batch_logits(
        self, ys: torch.Tensor, states: Sequence[State]
    ) -> tuple[torch.Tensor, list[State]]:
        hidden, states = self.batch_hidden(ys, states)
        return blocked_linear(hidden, self.output.weight, self.output.bias), states

    def batch_hidden(
        self, ys: torch.Tensor, states: Sequence[State]
    ) -> tuple[torch.Tensor, list[State]]:
        """Return the input of the output layer, (n, cells), with ``context_residual``
        (n, cells + D), and states.
        """
        groups, child_of = _parents(states)
        parents = list(chain.from_iterable(groups))
        z, c = (
            torch.stack([parent[name] for parent in parents])
            for name in ("z_prev", "c_prev")
        )
        context, weights = self._attend(groups, self.dropout_dec[0](z[:, 0]))

        child = torch.tensor(child_of).to(z.device, non_blocking=True)
        first = self._first_layer(ys[:, -1], context, z[:, 0], c[:, 0], child)
        z, c = self._other_layers(*first, z[child], c[child])
        out = self.dropout_dec[-1](z[:, -1])
        if self.context_residual:
            out = torch.cat((out, context[child]), dim=-1)
        return out, [
            {
                "z_prev": z_row,
                "c_prev": c_row,
                "a_prev": weights[parent],
                "memory": parents[parent]["memory"],
            }
            for z_row, c_row, parent in zip(
                z.unbind(), c.unbind(), child_of, strict=True
            )
        ]

    def _attend(
        self, groups: list[list[State]], z: torch.Tensor
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return context vectors of the parents, (u, D), and their attention weights, u
        of (T of its utterance,).
        """
        contexts: list[torch.Tensor] = []
        weights: list[torch.Tensor] = []
        for group, z_group in zip(
            groups, z.split([len(group) for group in groups]), strict=True
        ):
            previous = torch.stack([parent["a_prev"] for parent in group])
            context, w = attend(self.att_list[0], group[0]["memory"], z_group, previous)
            contexts.append(context)
            weights.extend(w.unbind())
        return torch.cat(contexts), weights

    def _first_layer(
        self,
        tokens: torch.Tensor,
        context: torch.Tensor,
        z: torch.Tensor,
        c: torch.Tensor,
        child: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return new states and cells of the first layer, (n, cells) each, for n
        hypotheses with u parents.

        ``tokens``: (n,); ``context``: (u, D); ``z``, ``c``: (u, cells) each, of which a
        GRU does not change the cells; ``child``: the parent of each hypothesis, (n,).
        """
        cell = self.decoder[0]
        embedding = self.dropout_emb(self.embed(tokens))
        of_token, of_context = cell.weight_ih.split(
            [embedding.size(1), context.size(1)], dim=1
        )
        from_input = blocked_linear(context, of_context, cell.bias_ih)[
            child
        ] + blocked_linear(embedding, of_token)
        from_state = blocked_linear(z, cell.weight_hh, cell.bias_hh)[child]
        if self.dtype == "lstm":
            i, f, g, o = (from_input + from_state).chunk(4, dim=1)
            c = f.sigmoid() * c[child] + i.sigmoid() * g.tanh()
            return o.sigmoid() * c.tanh(), c
        (r, u, n), (r_state, u_state, n_state) = (
            from_input.chunk(3, dim=1),
            from_state.chunk(3, dim=1),
        )
        n = (n + (r + r_state).sigmoid() * n_state).tanh()
        return n + (u + u_state).sigmoid() * (z[child] - n), c[child]

    def _other_layers(
        self,
        z_first: torch.Tensor,
        c_first: torch.Tensor,
        z: torch.Tensor,
        c: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states and cells of all layers, (n, layers, cells) each, from the
        first layer's and the old ones.
        """
        zs, cs = [z_first], [c_first]
        for layer in range(1, self.dlayers):
            below = self.dropout_dec[layer - 1](zs[-1])
            if self.dtype == "lstm":
                new = self.decoder[layer](below, (z[:, layer], c[:, layer]))
            else:
                new = self.decoder[layer](below, z[:, layer]), c[:, layer]
            zs.append(new[0])
            cs.append(new[1])
        return torch.stack(zs, dim=1), torch.stack(cs, dim=1)


def from_rnn(decoder: RNNDecoder) -> BatchRNNDecoder:
    """Return a batched scorer from a decoder that ESPnet has built; they share
    parameters and submodules.
    """
    if isinstance(decoder, BatchRNNDecoder):
        return decoder
    if type(decoder) is not RNNDecoder:
        raise InputError(
            f"batch_rnn: {type(decoder).__name__} is not ESPnet's RNNDecoder"
        )
    attention = type(decoder.att_list[0])
    _check(
        decoder.num_encs,
        next(
            (name for name, a in ATTENTIONS.items() if a is attention),
            attention.__name__,
        ),
    )
    batched = copy(decoder)
    batched.__class__ = BatchRNNDecoder
    return batched


def _check(num_encs: int, atype: Any) -> None:
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


def _parents(states: Sequence[State]) -> tuple[list[list[State]], list[int]]:
    """Return the distinct states of n hypotheses, one list per utterance, and where in
    them joined each hypothesis' is.

    The search passes the same object to all continuations of a hypothesis.
    """
    utterances: dict[int, dict[int, State]] = {}
    for state in states:
        utterances.setdefault(id(state["memory"]), {})[id(state)] = state
    groups = [list(parents.values()) for parents in utterances.values()]
    place = {
        id(parent): number for number, parent in enumerate(chain.from_iterable(groups))
    }
    return groups, [place[id(state)] for state in states]
