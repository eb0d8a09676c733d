"""Whose words a decoder's self-attention uses: norms of what tokens give each other.

Attention weights say little if values differ in size: shared and separate streams scale
the other language's embeddings down, so that a large weight may carry next to nothing.
Here each weight is taken together with its value and the output projection (Kobayashi
et al. 2020): what token j gives to token i is the sum over heads of a_ij v_j W_o. A row
of the map has the norms of these vectors, divided by their sum.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from espnet2.legacy.nets.pytorch_backend.transformer.attention import (
    MultiHeadedAttention,
)
from espnet2.tasks.asr import ASRTask
from espnet2.train.preprocessor import CommonPreprocessor

import espnet_ext
from espnet_ext.codeswitch.language_attention import (
    LanguageAttention,
    Stream,
    compute_scores,
)
from espnet_ext.codeswitch.token_languages import NEITHER, find_languages
from espnet_ext.errors import InputError


@dataclass(frozen=True)
class AttentionMap:
    """The self-attention of one decoder block.

    Attributes:
        weights: (L, L); row i is what token i takes from each token, as shares that sum
            to 1.
        tokens: the L input tokens of the decoder; the first is the start of the
            sentence.
        languages: the language of each token, ``-`` for neither.
    """

    weights: np.ndarray
    tokens: tuple[str, ...]
    languages: tuple[str, ...]

    def share_between_languages(self) -> float:
        """Return what a token takes from tokens of the other language, on average.

        Only tokens of a language count, and only those that follow one of the other
        language. NaN if there are none.
        """
        known = np.array([language != NEITHER for language in self.languages])
        names = np.array(self.languages)
        other = (names[:, None] != names[None, :]) & known[:, None] & known[None, :]
        # A decoder sees no later tokens: others have nothing to take.
        rows = np.tril(other).any(axis=1)
        if not rows.any():
            return float("nan")
        return float((self.weights * other).sum(axis=1)[rows].mean())


class TranscriptReader:
    """An ESPnet ASR model whose transformer decoder reads transcripts.

    Raises InputError: a checkpoint that does not fit its config, or a decoder without
    self-attention.
    """

    def __init__(self, config_file: Path, model_file: Path):
        espnet_ext.register()
        self.model, options = ASRTask.build_model_from_file(
            config_file, model_file, "cpu"
        )
        self.model.eval()
        if not hasattr(self.model.decoder, "decoders"):
            raise InputError(
                f"{config_file}: decoder '{options.decoder}' has no self-attention"
            )
        self._tokenise = CommonPreprocessor(
            train=False,
            token_type=options.token_type,
            token_list=options.token_list,
            bpemodel=options.bpemodel,
        )

    @torch.no_grad()
    def map_attention(
        self, utterance: str, speech: np.ndarray, text: str, block: int | None = None
    ) -> AttentionMap:
        """Read the transcript of samples or features, and return a self-attention.

        It is that of ``block``, from 1 (None: the last). Raises InputError: there is no
        such block, or the transcript has no tokens.
        """
        layers = self.model.decoder.decoders
        number = len(layers) if block is None else block
        if not 1 <= number <= len(layers):
            raise InputError(
                f"the decoder has no block {number}: give one from 1 to {len(layers)}"
            )
        ids = self._tokenise(utterance, {"text": text})["text"]
        if not len(ids):
            raise InputError(
                f"utterance {utterance}: its transcript has no tokens: choose another"
            )
        # A copy, since arks are read-only.
        batch = torch.tensor(speech)[None]
        encoded, lengths = self.model.encode(batch, torch.tensor([batch.size(1)]))
        fed = torch.tensor([[self.model.sos, *ids]])
        # What the block's attention is called with: its own output alone would not say
        # which token gave what.
        attention = layers[number - 1].self_attn
        given: list[Any] = []
        hook = attention.register_forward_pre_hook(
            lambda module, inputs: given.append(inputs)
        )
        try:
            self.model.decoder(encoded, lengths, fed, torch.tensor([fed.size(1)]))
        finally:
            hook.remove()
        norms = (
            compute_contributions(attention, *given[0]).norm(dim=-1)[0].double().numpy()
        )
        tokens = tuple(self.model.token_list[index] for index in fed[0].tolist())
        return AttentionMap(
            norms / norms.sum(1, keepdims=True), tokens, tuple(find_languages(tokens))
        )


@torch.no_grad()
def compute_contributions(
    attention: Any, x: torch.Tensor, *more: torch.Tensor
) -> torch.Tensor:
    """Return what each token gives to each other in a self-attention.

    Summed over the giving tokens, it is the output without its bias. ESPnet's attention
    is called with x, x, x and mask; one that knows languages with x, mask and codes.
    ``x`` are the embeddings after layer norm, (B, L, D); the result is (B, L, L, D).
    """
    if not isinstance(attention, LanguageAttention):
        return _compute_stream_part(Stream(attention), x, more[-1])
    mask, languages = more
    parts = []
    for stream in attention.make_streams(languages, languages, x.dtype):
        own = x if stream.factors is None else stream.factors * x
        part = _compute_stream_part(stream, own, mask)
        if stream.shares is not None:
            part = stream.shares.unsqueeze(2) * part
        parts.append(part)
    return sum(parts[1:], start=parts[0])


def _compute_stream_part(
    stream: Stream, x: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    attention: MultiHeadedAttention = stream.attention
    scores, values = compute_scores(stream, x)
    weights = scores.masked_fill(~mask.unsqueeze(1), float("-inf")).softmax(-1)
    # The part of the output projection that each head has, (D, heads, d): its product
    # with the values is linear, so that the sum over j may come after it.
    heads = (attention.h, attention.d_k)
    projection = attention.linear_out.weight.unflatten(1, heads)
    projected = torch.einsum("bhjd,ohd->bhjo", values, projection)
    return torch.einsum("bhij,bhjo->bijo", weights, projected)
