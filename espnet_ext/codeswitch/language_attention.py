"""Self-attention by the languages of its tokens (P1, section 3 and Fig. 1).

Languages are codes, (B, L): 0 for a token of neither language (sos/eos, unk, space,
noise), 1, 2 ... for the languages. P1 does not mention such tokens; here they are in
every language's stream, unscaled, and their scores are not re-weighted. A kind of
attention says what it is by its streams (:class:`Stream`), in training and in a beam
search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from espnet2.legacy.nets.pytorch_backend.transformer.attention import (
    MultiHeadedAttention,
)

NEITHER = 0


def compute_score_weights(
    queries: torch.Tensor,
    keys: torch.Tensor,
    same: float,
    other: float,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the re-weight matrix W of P1, eq. 2, (B, Lq, Lk).

    ``queries`` and ``keys``: language codes, (B, Lq) and (B, Lk). W is ``same`` within
    a language, ``other`` between languages, and 1 where either token is of neither
    language.
    """
    queries = queries.unsqueeze(2)
    keys = keys.unsqueeze(1)
    equal = queries == keys
    weights = torch.full_like(equal, same, dtype=dtype).masked_fill(~equal, other)
    return weights.masked_fill((queries == NEITHER) | (keys == NEITHER), 1.0)


def compute_factors(
    languages: torch.Tensor,
    streams: int,
    other: float,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the factor of each embedding in each stream, (streams, B, L, 1).

    The factor is ``other`` where the token is of another language than the stream,
    otherwise 1. "By weighting the embedding of one language, we obtain the embedding
    representation of another language. The weighting parameter is set to 0.1" (P1,
    section 4.2).
    """
    scaled = ~_mark_own_tokens(languages, streams) & (languages != NEITHER)
    return torch.ones_like(scaled, dtype=dtype).masked_fill(scaled, other).unsqueeze(-1)


def compute_shares(
    languages: torch.Tensor,
    streams: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return each stream's share in a token's output, (streams, B, L, 1).

    The stream of the token's language has all of it; a token of neither language takes
    equal shares.
    """
    own = _mark_own_tokens(languages, streams).to(dtype)
    return own.masked_fill(languages == NEITHER, 1.0 / streams).unsqueeze(-1)


def _mark_own_tokens(languages: torch.Tensor, streams: int) -> torch.Tensor:
    codes = torch.arange(1, streams + 1, device=languages.device)
    return languages == codes.view(-1, *[1] * languages.dim())


@dataclass(frozen=True)
class Stream:
    """Describe one of the attentions whose outputs are added up.

    ``attention``: its parameters; ``factors``: what the embeddings of its input are
    multiplied by, (B, Lq, 1); ``shares``: its share in the output of each token, (B,
    Lq, 1); ``weights``: multiply the scores before the softmax, ``bias`` is added to
    them, (B, Lq, Lk) each. None: 1, and no bias.
    """

    attention: MultiHeadedAttention
    factors: torch.Tensor | None = None
    shares: torch.Tensor | None = None
    weights: torch.Tensor | None = None
    bias: torch.Tensor | None = None


# The attention of one stream: its number, the stream, and the embeddings of its
# queries, (B, Lq, D), to (B, Lq, D).
Attend = Callable[[int, Stream, torch.Tensor], torch.Tensor]


def attend_by_language(
    kind: "LanguageAttention",
    x: torch.Tensor,
    queries: torch.Tensor,
    keys: torch.Tensor,
    attend: Attend,
) -> torch.Tensor:
    """Compute self-attention that distinguishes languages, (B, Lq, D).

    ``x``: after layer norm, (B, Lq, D). ``queries`` and ``keys``: language codes of the
    attending tokens, (B, Lq), and of those attended to, (B, Lk).
    """
    outputs = []
    for number, stream in enumerate(kind.make_streams(queries, keys, x.dtype)):
        own = x if stream.factors is None else stream.factors * x
        output = attend(number, stream, own)
        outputs.append(output if stream.shares is None else stream.shares * output)
    # sum() would begin with the number 0, and add that to the first.
    return sum(outputs[1:], start=outputs[0])


def compute_scores(
    stream: Stream, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a stream's scores, (B, heads, L, L), and values, (B, heads, L, d)."""
    queries, keys, values = stream.attention.forward_qkv(x, x, x)
    scores = queries @ keys.transpose(-2, -1) / stream.attention.d_k**0.5
    if stream.weights is not None:
        scores = scores * stream.weights.unsqueeze(1)
    if stream.bias is not None:
        scores = scores + stream.bias.unsqueeze(1)
    return scores, values


def _attend_to_all(
    mask: torch.Tensor,
    shown: list[torch.Tensor | None],
    number: int,
    stream: Stream,
    x: torch.Tensor,
) -> torch.Tensor:
    """Attend in a stream among all tokens of a sentence, in ESPnet's way.

    The attention weights are appended to ``shown``.
    """
    attention = stream.attention
    if stream.weights is None and stream.bias is None:
        # By the name of its class: in SharedStreams the attention is the module itself,
        # whose own forward distinguishes languages.
        output = MultiHeadedAttention.forward(attention, x, x, x, mask)
    else:
        scores, values = compute_scores(stream, x)
        output = attention.forward_attention(values, scores, mask)
    # Read before the next stream attends, which may have the same attention. None if a
    # fused kernel has computed them.
    weights = attention.attn
    if weights is not None and stream.shares is not None:
        # What a token does not get from this stream is not shown as its attention.
        weights = stream.shares.unsqueeze(1) * weights
    shown.append(weights)
    return output


class LanguageAttention(torch.nn.Module):
    """Compute attention by streams: the base of all kinds.

    ``attentions`` are those of the streams, of which several may share one. ``attn``
    holds the attention weights of the last sentences, (B, heads, L, L), of each token's
    own stream; None if a fused kernel has not stored them.
    """

    attentions: Sequence[MultiHeadedAttention]
    attn: torch.Tensor | None

    def make_streams(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        dtype: torch.dtype,
    ) -> list[Stream]:
        """Return the streams for tokens of these languages.

        ``queries`` and ``keys``: codes, (B, Lq) and (B, Lk); ``dtype``: that of the
        embeddings.
        """
        raise NotImplementedError

    def forward(
        self,
        x: torch.Tensor,
        mask: torch.Tensor,
        languages: torch.Tensor,
    ) -> torch.Tensor:
        """Attend among tokens, (B, L, D).

        ``x``: after layer norm, (B, L, D); ``mask``: True where one may, (B, L, L);
        ``languages``: codes, (B, L).
        """
        shown: list[torch.Tensor | None] = []
        output = attend_by_language(
            self, x, languages, languages, partial(_attend_to_all, mask, shown)
        )
        stored = [weights for weights in shown if weights is not None]
        self.attn = None
        if len(stored) == len(shown):
            self.attn = sum(stored[1:], start=stored[0])
        return output


class ReweightedAttention(LanguageAttention, MultiHeadedAttention):
    """Change the scores of self-attention by W before the softmax.

    The parameters are ESPnet's. Scores are multiplied by W (P1, eq. 2, read
    elementwise). W lowers a positive score between two languages, but raises a negative
    one. With ``additive``, which is not in P1, log W is added: the attention weights
    are multiplied by W and normalised again.
    """

    def __init__(
        self,
        same_language_weight: float,
        other_language_weight: float,
        additive: bool = False,
        **options: Any,
    ):
        MultiHeadedAttention.__init__(self, **options)
        self.same_language_weight = same_language_weight
        self.other_language_weight = other_language_weight
        self.additive = additive

    @property
    def attentions(self) -> Sequence[MultiHeadedAttention]:  # type: ignore[override]
        return [self]

    def make_streams(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        dtype: torch.dtype,
    ) -> list[Stream]:
        """Return one stream with all tokens."""
        weights = compute_score_weights(
            queries, keys, self.same_language_weight, self.other_language_weight, dtype
        )
        if self.additive:
            # exp(s + log W) = W exp(s): W multiplies what the softmax normalises.
            return [Stream(self, bias=weights.log())]
        return [Stream(self, weights=weights)]


class SharedStreams(LanguageAttention, MultiHeadedAttention):
    """Attend in one stream per language, all with the same parameters.

    The parameters are those of ESPnet's attention (P1, Fig. 1b). Each stream has
    ordinary attention (P1, eq. 1), but queries, keys and values come from embeddings in
    which those of other languages are scaled down: the streams "are treated as
    monolingual cases for attention calculation" (P1, section 3). A token's output is
    that of its own language's stream, where its own factor is 1.
    """

    def __init__(self, languages: int, other_language_factor: float, **options: Any):
        MultiHeadedAttention.__init__(self, **options)
        self.languages = languages
        self.other_language_factor = other_language_factor

    @property
    def attentions(self) -> Sequence[MultiHeadedAttention]:  # type: ignore[override]
        return [self] * self.languages

    def make_streams(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        dtype: torch.dtype,
    ) -> list[Stream]:
        """Return one stream per language."""
        return _split_by_language(
            self.attentions, self.other_language_factor, queries, dtype
        )


class SeparateStreams(LanguageAttention, torch.nn.ModuleList):
    """Attend in one stream per language, each with its own parameters (P1, Fig. 1c).

    They are ``self_attn.0.linear_q.weight`` ...
    """

    def __init__(self, languages: int, other_language_factor: float, **options: Any):
        torch.nn.ModuleList.__init__(
            self, (MultiHeadedAttention(**options) for _ in range(languages))
        )
        self.other_language_factor = other_language_factor
        self.attn = None

    @property
    def attentions(self) -> Sequence[MultiHeadedAttention]:  # type: ignore[override]
        return list(self)

    def make_streams(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        dtype: torch.dtype,
    ) -> list[Stream]:
        """Return one stream per language."""
        return _split_by_language(
            self.attentions, self.other_language_factor, queries, dtype
        )


def _split_by_language(
    attentions: Sequence[MultiHeadedAttention],
    factor: float,
    queries: torch.Tensor,
    dtype: torch.dtype,
) -> list[Stream]:
    count = len(attentions)
    factors = compute_factors(queries, count, factor, dtype)
    shares = compute_shares(queries, count, dtype)
    return [Stream(*each) for each in zip(attentions, factors, shares, strict=True)]
