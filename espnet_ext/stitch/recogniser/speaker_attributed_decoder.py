"""Decode what is said and who says it, each by the other (P4, eq. 2 to 10).

The profile of the speaker is added to the decoder's hidden state before the output
layer; the decoders come without theirs from
:mod:`espnet_ext.stitch.recogniser.decoder_readouts`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from espnet_ext.stitch.recogniser.speaker_inventory import (
    SpeakerQuery,
    attend_to_inventory,
)

# The state of a hypothesis: asr: the state of ESPnet's decoder; query: cells and
# outputs of the speaker query's LSTM, (2, layers, cells); tokens: its last ScoredToken,
# None before the first
State = dict[str, Any]


class Readout(Protocol):
    """A decoder without its output layer."""

    hidden_size: int

    def take_output(self) -> torch.nn.Linear:
        """Remove and return the output layer.

        Without it the decoder gives its hidden states.
        """

    def __call__(
        self,
        hs_pad: torch.Tensor,
        hlens: torch.Tensor,
        ys_in_pad: torch.Tensor,
        ys_in_lens: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return hidden states and attention weights of a padded batch.

        They are (B, L, hidden_size) and (B, L, T).
        """

    def init_state(self, x: torch.Tensor) -> Any:
        """Return the state before the first token.

        ``x``: encodings, (T, D) or (B, T, D).
        """

    def step(
        self, ys: torch.Tensor, states: Sequence[Any], xs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, list[Any]]:
        """Return hidden states, attention weights and states after each of n prefixes.

        They are (n, hidden_size), (n, T) and a list of n.
        """


class SpeakerAttributedDecoder(torch.nn.Module):
    """Add a token's speaker profile before a decoder's output layer (P4, eq. 4).

    The decoder gives attention weights (P4, eq. 2) and hidden states u (P4, eq. 3).
    With the same weights, speaker encodings become a speaker context (P4, eq. 7), the
    context a query (P4, eq. 8), and the query gives the speaker (P4, eq. 9) and the
    weighted profile (P4, eq. 10). A projection of that is added to u.

    Args:
        asr: the readout of a decoder, which is a module.
        query_conf: options of :class:`SpeakerQuery`.
        cosine_scale: factor of the cosines (P4, eq. 9); 1 as in the paper.
        learn_scale: train the factor.
    """

    def __init__(
        self,
        asr: Readout,
        vocab_size: int,
        context_size: int,
        profile_size: int,
        query_conf: dict[str, Any] | None = None,
        cosine_scale: float = 1.0,
        learn_scale: bool = False,
    ):
        super().__init__()
        self.asr = asr
        self.output = self.asr.take_output()
        self.query = SpeakerQuery(
            vocab_size, context_size, profile_size, **(query_conf or {})
        )
        self.profile = torch.nn.Linear(profile_size, self.asr.hidden_size, bias=False)
        # A parameter even if it is not trained, so that checkpoints hold it.
        self.cosine_scale = torch.nn.Parameter(
            torch.tensor(float(cosine_scale)), requires_grad=learn_scale
        )

    def forward(
        self,
        hs_pad: torch.Tensor,
        hlens: torch.Tensor,
        speaker_encodings: torch.Tensor,
        ys_in_pad: torch.Tensor,
        ys_in_lens: torch.Tensor,
        profiles: torch.Tensor,
        present: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Score all tokens of a padded batch, and their speakers.

        ``hs_pad``: encodings, (B, T, D); ``speaker_encodings``: (B, T, context_size);
        ``ys_in_pad``: tokens that begin with sos, (B, L); ``profiles``: (B, K,
        profile_size); ``present``: where a profile is no padding, (B, K). Returns
        scores before the softmax, (B, L, vocabulary), and logarithms of the speaker
        posteriors, (B, L, K).
        """
        # P4, eq. 2 and 3
        hidden, weights = self.asr(hs_pad, hlens, ys_in_pad, ys_in_lens)
        # eq. 7 and 8
        queries, _ = self.query(weights @ speaker_encodings, ys_in_pad)
        # eq. 9 and 10, and then eq. 4
        log_posteriors, weighted = attend_to_inventory(
            queries, profiles, present, self.cosine_scale
        )
        return self.output(hidden + self.profile(weighted)), log_posteriors

    def init_state(self, x: torch.Tensor) -> State:
        """Return the state before the first token.

        ``x``: encodings, (T, D) or (B, T, D).
        """
        lstm = self.query.lstm
        cells = x.new_zeros(2, lstm.num_layers, lstm.hidden_size)
        return {"asr": self.asr.init_state(x), "query": cells, "tokens": None}

    def step(
        self,
        ys: torch.Tensor,
        states: Sequence[State],
        xs: torch.Tensor,
        speaker_encodings: torch.Tensor,
        profiles: torch.Tensor,
        present: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, list[State]]:
        """Score the token after each of n prefixes of B utterances.

        Each utterance has n / B prefixes, which stand together. ``ys``: prefixes that
        begin with sos, (n, L); ``states``: :meth:`init_state`, or those that a call for
        all tokens but the last returned; ``xs``: encodings, (n, T, D); the others as in
        :meth:`forward`. Returns log-probabilities (P4, eq. 5), (n, vocabulary), and the
        states, with the posteriors of the token's speaker.
        """
        utterances = len(speaker_encodings)
        own_states = [state["asr"] for state in states]
        hidden, weights, asr_states = self.asr.step(ys, own_states, xs)
        # (B, n / B, ...): encodings and profiles are there once for each utterance.
        by_utterance = weights.unflatten(0, (utterances, -1))
        contexts = (by_utterance @ speaker_encodings).flatten(0, 1)
        # (2, layers, n, cells); cuDNN takes contiguous states only.
        h, c = torch.stack([state["query"] for state in states], dim=2)
        queries, cells = self.query(
            contexts.unsqueeze(1), ys[:, -1:], (h.contiguous(), c.contiguous())
        )
        cells = torch.stack(cells)
        queries = queries.squeeze(1).unflatten(0, (utterances, -1))
        log_posteriors, weighted = attend_to_inventory(
            queries, profiles, present, self.cosine_scale
        )
        said = hidden + self.profile(weighted.flatten(0, 1))
        scores = self.output(said).log_softmax(dim=-1)
        log_posteriors = log_posteriors.flatten(0, 1)
        frames = weights.argmax(dim=1)
        new_states = []
        for row, (own, state) in enumerate(zip(asr_states, states, strict=True)):
            token = ScoredToken(state["tokens"], row, log_posteriors, frames)
            new_states.append({"asr": own, "query": cells[:, :, row], "tokens": token})
        return scores, new_states


@dataclass(frozen=True, eq=False)
class ScoredToken:
    """Link the last token of a hypothesis to those before it: who says it, and where.

    The hypotheses of a step share its logarithms of speaker posteriors, (n, K), and the
    frames that each attends to most, (n,); ``row`` is this one's. So a step copies
    nothing.
    """

    before: "ScoredToken | None"
    row: int
    log_posteriors: torch.Tensor
    frames: torch.Tensor

    def collect_tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-posteriors, (tokens, K), and frames, (tokens,), to this token."""
        tokens: list[ScoredToken] = []
        token: ScoredToken | None = self
        while token is not None:
            tokens.append(token)
            token = token.before
        tokens.reverse()
        return (
            torch.stack([token.log_posteriors[token.row] for token in tokens]),
            torch.stack([token.frames[token.row] for token in tokens]),
        )
