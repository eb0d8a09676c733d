"""Self-attention that distinguishes the languages of its tokens (P1, section 3 and Fig. 1).

Languages come as codes, (B, L): 0 for a token of neither language (sos/eos, unk, space, noise), 1, 2 ... for the
languages. P1 does not mention tokens of neither language. Here they are in every language's stream, unscaled, and their
scores are not re-weighted.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from espnet2.legacy.nets.pytorch_backend.transformer.attention import MultiHeadedAttention

NEITHER = 0


def score_weights(
    queries: torch.Tensor, keys: torch.Tensor, same: float, other: float, dtype: torch.dtype
) -> torch.Tensor:
    """The re-weight matrix W of P1, eq. 2.

    Args:
        queries: language codes of the attending tokens, (B, Lq).
        keys: language codes of the tokens attended to, (B, Lk).
        same: weight between two tokens of one language.
        other: weight between tokens of two languages.
        dtype: type of the scores.

    Returns:
        W, (B, Lq, Lk), 1 where either token is of neither language.
    """
    queries, keys = queries.unsqueeze(2), keys.unsqueeze(1)
    equal = queries == keys
    weights = torch.full_like(equal, same, dtype=dtype).masked_fill(~equal, other)
    return weights.masked_fill((queries == NEITHER) | (keys == NEITHER), 1.0)


def stream_factors(languages: torch.Tensor, streams: int, other: float, dtype: torch.dtype) -> torch.Tensor:
    """The factor of a token's embedding in each language's stream: ``other`` if the token is of another language.

    "By weighting the embedding of one language, we obtain the embedding representation of another language. The
    weighting parameter is set to 0.1" (P1, section 4.2).

    Args:
        languages: codes, (B, L).
        streams: number of languages.
        other: the weighting parameter.
        dtype: type of the embeddings.

    Returns:
        (streams, B, L, 1).
    """
    scaled = ~_own(languages, streams) & (languages != NEITHER)
    return torch.ones_like(scaled, dtype=dtype).masked_fill(scaled, other).unsqueeze(-1)


def stream_shares(languages: torch.Tensor, streams: int, dtype: torch.dtype) -> torch.Tensor:
    """The share of each stream in a token's output: 1 for its own language; equal shares for a token of neither.

    Args:
        languages: codes, (B, L).
        streams: number of languages.
        dtype: type of the embeddings.

    Returns:
        (streams, B, L, 1), with sum 1 over the streams.
    """
    own = _own(languages, streams).to(dtype)
    return own.masked_fill(languages == NEITHER, 1.0 / streams).unsqueeze(-1)


def _own(languages: torch.Tensor, streams: int) -> torch.Tensor:
    codes = torch.arange(1, streams + 1, device=languages.device)
    return languages == codes.view(-1, *[1] * languages.dim())


# Attention of new tokens to all tokens so far. Takes the number of the stream, its attention, the embeddings of the new
# tokens, (B, new, D), and optionally weights for the scores, (B, new, L); returns (B, new, D).
Attend = Callable[..., torch.Tensor]


class ReweightedAttention(MultiHeadedAttention):
    """Self-attention whose scores are multiplied by W before the softmax (P1, eq. 2); ESPnet's parameters."""

    def __init__(self, same_language_weight: float, other_language_weight: float, **options: Any):
        super().__init__(**options)
        self.same_language_weight = same_language_weight
        self.other_language_weight = other_language_weight

    def streams(self) -> Sequence[MultiHeadedAttention]:
        """The attention of its one stream."""
        return [self]

    def weights(self, queries: torch.Tensor, keys: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """:func:`score_weights` of this module's two weights."""
        return score_weights(queries, keys, self.same_language_weight, self.other_language_weight, dtype)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, languages: torch.Tensor) -> torch.Tensor:
        """Attend.

        Args:
            x: embeddings after layer norm, (B, L, D).
            mask: True where a token may be attended to, (B, L, L).
            languages: codes, (B, L).

        Returns:
            (B, L, D).
        """
        queries, keys, values = self.forward_qkv(x, x, x)
        scores = queries @ keys.transpose(-2, -1) / self.d_k**0.5
        weights = self.weights(languages, languages, scores.dtype)
        return self.forward_attention(values, scores * weights.unsqueeze(1), mask)

    def step(self, x: torch.Tensor, languages: torch.Tensor, attend: Attend) -> torch.Tensor:
        """Attend from new tokens.

        Args:
            x: embeddings of the new tokens after layer norm, (B, new, D).
            languages: codes of all tokens so far, (B, L).
            attend: the attention to all tokens so far.

        Returns:
            (B, new, D).
        """
        return attend(0, self, x, self.weights(languages[:, -x.size(1) :], languages, x.dtype))


class SharedStreams(MultiHeadedAttention):
    """One stream per language, all with the same parameters, ESPnet's (P1, Fig. 1b).

    Each stream has ordinary attention (P1, eq. 1), but queries, keys and values come from embeddings in which those of
    other languages are scaled down: the streams "are treated as monolingual cases for attention calculation" (P1,
    section 3). A token's output is that of its own language's stream, where its own factor is 1.
    """

    attn: torch.Tensor | None

    def __init__(self, languages: int, other_language_factor: float, **options: Any):
        super().__init__(**options)
        self.languages = languages
        self.other_language_factor = other_language_factor

    def streams(self) -> Sequence[MultiHeadedAttention]:
        """The attention of each stream."""
        return [self] * self.languages

    def forward(self, x: torch.Tensor, mask: torch.Tensor, languages: torch.Tensor) -> torch.Tensor:
        """Attend; arguments and result as in :class:`ReweightedAttention`."""
        inputs = (stream_factors(languages, self.languages, self.other_language_factor, x.dtype) * x).flatten(0, 1)
        outputs = super().forward(inputs, inputs, inputs, mask.repeat(self.languages, 1, 1))
        shares = stream_shares(languages, self.languages, x.dtype)
        if self.attn is not None:  # what ESPnet plots
            self.attn = (shares.unsqueeze(2) * self.attn.unflatten(0, (self.languages, -1))).sum(0)
        return (shares * outputs.unflatten(0, (self.languages, -1))).sum(0)

    def step(self, x: torch.Tensor, languages: torch.Tensor, attend: Attend) -> torch.Tensor:
        """Attend from new tokens; arguments and result as in :class:`ReweightedAttention`."""
        return _step(self.streams(), self.other_language_factor, x, languages, attend)


class SeparateStreams(torch.nn.ModuleList):
    """One stream and one set of parameters per language, ``self_attn.0.linear_q.weight`` ... (P1, Fig. 1c)."""

    def __init__(self, languages: int, other_language_factor: float, **options: Any):
        super().__init__(MultiHeadedAttention(**options) for _ in range(languages))
        self.other_language_factor = other_language_factor
        self.attn: torch.Tensor | None = None  # as in ESPnet's attention, (B, heads, L, L)

    def streams(self) -> Sequence[MultiHeadedAttention]:
        """The attention of each stream."""
        return list(self)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, languages: torch.Tensor) -> torch.Tensor:
        """Attend; arguments and result as in :class:`ReweightedAttention`."""
        inputs = stream_factors(languages, len(self), self.other_language_factor, x.dtype) * x
        shares = stream_shares(languages, len(self), x.dtype)
        outputs = [
            attention(stream, stream, stream, mask) for attention, stream in zip(self.streams(), inputs, strict=True)
        ]
        kept = [attention.attn for attention in self.streams()]
        self.attn = None
        if None not in kept:
            self.attn = _weighted(shares.unsqueeze(2), kept)
        return _weighted(shares, outputs)

    def step(self, x: torch.Tensor, languages: torch.Tensor, attend: Attend) -> torch.Tensor:
        """Attend from new tokens; arguments and result as in :class:`ReweightedAttention`."""
        return _step(self.streams(), self.other_language_factor, x, languages, attend)


def _step(
    streams: Sequence[MultiHeadedAttention], factor: float, x: torch.Tensor, languages: torch.Tensor, attend: Attend
) -> torch.Tensor:
    new = languages[:, -x.size(1) :]
    inputs = stream_factors(new, len(streams), factor, x.dtype) * x
    shares = stream_shares(new, len(streams), x.dtype)
    return _weighted(shares, [attend(index, stream, inputs[index]) for index, stream in enumerate(streams)])


def _weighted(shares: torch.Tensor, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum of the streams' outputs, each times its share."""
    total = shares[0] * outputs[0]
    for share, output in zip(shares[1:], outputs[1:], strict=True):
        total = total + share * output
    return total


KINDS = (ReweightedAttention, SharedStreams, SeparateStreams)
