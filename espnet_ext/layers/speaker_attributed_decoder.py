"""The two interdependent decoders of speaker-attributed ASR: what is said, and who says it (P4, eq. 2 to 10).

The model adds the profile of the speaker to the decoder's hidden state before the output layer. So it needs ESPnet's
decoders without their output layer: hidden states and attention weights of each token, in training and in beam search.
The classes called readouts give these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from espnet2.asr.decoder.abs_decoder import AbsDecoder
from espnet2.asr.decoder.rnn_decoder import RNNDecoder
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder

from espnet_ext.decoder.batch_rnn import from_rnn
from espnet_ext.decoder.language_transformer import LanguageTransformerDecoder
from espnet_ext.errors import InputError
from espnet_ext.layers.speaker_inventory import SpeakerQuery, inventory_attention

# The state of a hypothesis: asr: the state of ESPnet's decoder; query: cells and outputs of the speaker query's LSTM,
# (2, layers, cells); tokens: its last ScoredToken, None before the first
State = dict[str, Any]


class SpeakerAttributedDecoder(torch.nn.Module):
    """An ESPnet decoder whose output layer also sees the profile of the speaker of the token (P4, eq. 4).

    The decoder gives attention weights (P4, eq. 2) and hidden states u (P4, eq. 3). With the same weights, speaker
    encodings become a speaker context (P4, eq. 7), the context becomes a query (P4, eq. 8), and the query gives the
    speaker (P4, eq. 9) and the weighted profile (P4, eq. 10). A projection of that is added to u before the output
    layer.

    Args:
        decoder: ``transformer``, ``language_transformer``, ``rnn`` or ``batch_rnn`` of ESPnet's registry.
        vocab_size: number of tokens.
        context_size: dimension of the speaker encodings.
        profile_size: dimension of the profiles.
        query_conf: options of :class:`SpeakerQuery`.
        cosine_scale: factor of the cosines (P4, eq. 9); 1 as in the paper.
        learn_scale: train the factor.
        attention_block: of a transformer, the block whose attention weights are used; see :class:`TransformerReadout`.
    """

    def __init__(
        self,
        decoder: AbsDecoder,
        vocab_size: int,
        context_size: int,
        profile_size: int,
        query_conf: dict[str, Any] | None = None,
        cosine_scale: float = 1.0,
        learn_scale: bool = False,
        attention_block: int = -1,
    ):
        super().__init__()
        self.asr = readout(decoder, attention_block)
        self.output = self.asr.take_output()
        self.query = SpeakerQuery(vocab_size, context_size, profile_size, **(query_conf or {}))
        self.profile = torch.nn.Linear(profile_size, self.asr.hidden_size, bias=False)
        self.cosine_scale = torch.nn.Parameter(torch.tensor(float(cosine_scale)), requires_grad=learn_scale)

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

        Args:
            hs_pad: encodings, (B, T, D).
            hlens: number of frames, (B,).
            speaker_encodings: (B, T, context_size).
            ys_in_pad: tokens that begin with sos, (B, L).
            ys_in_lens: number of tokens, (B,).
            profiles: (B, K, profile_size).
            present: where a profile is no padding, (B, K).

        Returns:
            Scores before the softmax, (B, L, vocabulary), and logarithms of the speaker posteriors, (B, L, K).
        """
        hidden, weights = self.asr(hs_pad, hlens, ys_in_pad, ys_in_lens)
        queries, _ = self.query(weights @ speaker_encodings, ys_in_pad)
        log_posteriors, weighted = inventory_attention(queries, profiles, present, self.cosine_scale)
        return self.output(hidden + self.profile(weighted)), log_posteriors

    def init_state(self, x: torch.Tensor) -> State:
        """State before the first token. ``x``: encodings of an utterance, (T, D), or of several, (B, T, D)."""
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
        """Score the token after each of n prefixes of B utterances, n / B of each, utterance after utterance.

        Args:
            ys: prefixes that begin with sos, (n, L).
            states: what an earlier call has returned for all tokens but the last ones, or :meth:`init_state`.
            xs: encodings of the utterance of each prefix, (n, T, D).
            speaker_encodings: (B, T, context_size).
            profiles: (B, K, profile_size).
            present: where a profile is no padding, (B, K); None: everywhere.

        Returns:
            Log-probabilities (P4, eq. 5), (n, vocabulary), and the states, with the posteriors of the token's speaker.
        """
        utterances = len(speaker_encodings)
        hidden, weights, asr_states = self.asr.step(ys, [state["asr"] for state in states], xs)
        cells = torch.stack([state["query"] for state in states], dim=2)
        contexts = (weights.unflatten(0, (utterances, -1)) @ speaker_encodings).flatten(0, 1)
        queries, cells = self.query(contexts.unsqueeze(1), ys[:, -1:], (cells[0].contiguous(), cells[1].contiguous()))
        cells = torch.stack(cells)
        queries = queries.squeeze(1).unflatten(0, (utterances, -1))
        log_posteriors, weighted = inventory_attention(queries, profiles, present, self.cosine_scale)
        scores = self.output(hidden + self.profile(weighted.flatten(0, 1))).log_softmax(dim=-1)
        log_posteriors, frames = log_posteriors.flatten(0, 1), weights.argmax(dim=1)
        return scores, [
            {"asr": own, "query": cells[:, :, row], "tokens": ScoredToken(state["tokens"], row, log_posteriors, frames)}
            for row, (own, state) in enumerate(zip(asr_states, states, strict=True))
        ]


@dataclass(frozen=True, eq=False)
class ScoredToken:
    """The last token of a hypothesis, and those before it: who says it, and where.

    Hypotheses share what was computed in a step, of which each has a row. So a step copies nothing.

    Attributes:
        before: the token before this one; None: it is the first.
        row: of the hypothesis in the step.
        log_posteriors: logarithms of the speaker posteriors of the step's hypotheses, (n, K).
        frames: the frame that each of them attends to most, (n,).
    """

    before: "ScoredToken | None"
    row: int
    log_posteriors: torch.Tensor
    frames: torch.Tensor

    def all_tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logarithms of the posteriors, (tokens, K), and frames, (tokens,), from the first token to this one."""
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


class RNNReadout(torch.nn.Module):
    """ESPnet's LSTM or GRU decoder: with ``context_residual`` its hidden states end with the context vector."""

    def __init__(self, decoder: RNNDecoder):
        super().__init__()
        self.decoder = from_rnn(decoder)
        self.hidden_size = self.decoder.output.in_features

    def take_output(self) -> torch.nn.Linear:
        """Remove and return the output layer; without it the decoder gives its hidden states."""
        output, self.decoder.output = self.decoder.output, torch.nn.Identity()
        return output

    def forward(
        self, hs_pad: torch.Tensor, hlens: torch.Tensor, ys_in_pad: torch.Tensor, ys_in_lens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states, (B, L, hidden_size), and attention weights, (B, L, T), of all tokens of a padded batch."""
        weights: list[torch.Tensor] = []
        hook = self.decoder.att_list[0].register_forward_hook(lambda _, __, output: weights.append(output[1]))
        try:
            hidden, _ = self.decoder(hs_pad, hlens, ys_in_pad, ys_in_lens)
        finally:
            hook.remove()
        return hidden, torch.stack(weights, dim=1)

    def init_state(self, x: torch.Tensor) -> Any:
        """State before the first token. ``x``: encodings of one utterance, (T, D), or of several, (B, T, D)."""
        return self.decoder.batch_init_state(x)

    def step(
        self, ys: torch.Tensor, states: Sequence[Any], xs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, list[Any]]:
        """Hidden states, (n, hidden_size), and attention weights, (n, T), for the token after each of n prefixes."""
        hidden, states = self.decoder.batch_hidden(ys, self.decoder.own_states(states, xs))
        return hidden, torch.stack([state["a_prev"] for state in states]), states


class TransformerReadout(torch.nn.Module):
    """ESPnet's transformer decoder: the attention weights are the mean over the heads of one block.

    Args:
        decoder: the decoder.
        block: the block, counted from 1; negative: from the last, -1.
    """

    def __init__(self, decoder: TransformerDecoder, block: int = -1):
        super().__init__()
        if not isinstance(decoder, LanguageTransformerDecoder):
            decoder = LanguageTransformerDecoder.from_transformer(decoder)
        count = len(decoder.decoders)
        if not (1 <= block <= count or -count <= block <= -1):
            raise InputError(f"sa_asr: attention_block is {block}, but the decoder has {count} blocks")
        self.block = block - 1 if block > 0 else block
        self.decoder = decoder
        attention = self._attention()
        if attention.use_flash_attn or attention.use_sdpa:
            # fused kernels compute the same, but keep no weights; ESPnet gives one of them no dropout module
            attention.use_flash_attn = attention.use_sdpa = False
            attention.dropout = torch.nn.Dropout(attention.dropout_rate)
        if decoder.output_layer is None:
            raise InputError("sa_asr: the decoder has no output layer: set use_output_layer to true in decoder_conf")
        self.hidden_size = decoder.output_layer.in_features

    def _attention(self) -> Any:
        return self.decoder.decoders[self.block].src_attn

    def take_output(self) -> torch.nn.Linear:
        """Remove and return the output layer; without it the decoder gives its hidden states."""
        output, self.decoder.output_layer = self.decoder.output_layer, None
        return output

    def forward(
        self, hs_pad: torch.Tensor, hlens: torch.Tensor, ys_in_pad: torch.Tensor, ys_in_lens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states, (B, L, hidden_size), and attention weights, (B, L, T), of all tokens of a padded batch."""
        hidden, _ = self.decoder(hs_pad, hlens, ys_in_pad, ys_in_lens)
        return hidden, self._attention().attn.mean(dim=1)

    def init_state(self, x: torch.Tensor) -> None:
        """State before the first token."""
        return None

    def step(
        self, ys: torch.Tensor, states: Sequence[Any], xs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, list[Any]]:
        """Hidden states, (n, hidden_size), and attention weights, (n, T), for the token after each of n prefixes."""
        hidden, after = self.decoder.batch_score(ys, list(states), xs)
        return hidden, self._attention().attn[:, :, -1].mean(dim=1), after


def readout(decoder: AbsDecoder, block: int = -1) -> RNNReadout | TransformerReadout:
    """Return the readout of a decoder that ESPnet has built; ``block``: see :class:`TransformerReadout`."""
    if isinstance(decoder, RNNDecoder):
        return RNNReadout(decoder)
    if type(decoder) in (TransformerDecoder, LanguageTransformerDecoder):
        return TransformerReadout(decoder, block)
    raise InputError(
        f"sa_asr: decoder {type(decoder).__name__} is not supported: take transformer, language_transformer, "
        "rnn or batch_rnn"
    )
