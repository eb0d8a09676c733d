"""``decoder: language_transformer``: ESPnet's, with attention by language (P1).

It is fast in a beam search.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from espnet2.legacy.nets.pytorch_backend.nets_utils import make_pad_mask
from espnet2.legacy.nets.pytorch_backend.transformer.attention import (
    MultiHeadedAttention,
)
from espnet2.legacy.nets.pytorch_backend.transformer.decoder_layer import DecoderLayer
from espnet2.legacy.nets.pytorch_backend.transformer.mask import subsequent_mask
from torch.utils.checkpoint import checkpoint

from espnet_ext.codeswitch.language_attention import (
    LanguageAttention,
    ReweightedAttention,
    SeparateStreams,
    SharedStreams,
    Stream,
    attend_by_language,
)
from espnet_ext.codeswitch.token_languages import number_languages, read_languages
from espnet_ext.errors import InputError
from espnet_ext.fast_search.cached_attention import ScoredPrefixes
from espnet_ext.fast_search.cached_transformer import (
    CachedTransformerDecoder,
    run_block,
)

REWEIGHTING = ("reweight", "bias")
MODES = ("none", *REWEIGHTING, "shared", "separate")
UNKNOWN = 255  # in the buffer, before a languages file or a checkpoint is read


class LanguageTransformerDecoder(CachedTransformerDecoder):
    """Run ESPnet's ``TransformerDecoder`` with self-attention by language.

    See P1, section 3. ``mode: none`` has the parameters of ESPnet's decoder, with the
    same names; ``reweight``, ``bias`` and ``shared`` have one buffer more. ``separate``
    has ``self_attn.0.``, ``self_attn.1.`` ... in the order of ``languages`` in place of
    ``self_attn.``. With the same seed all modes start from the same values: each stream
    of ``separate`` from those of the one attention that it replaces. The tokens'
    languages are saved in the checkpoint as the buffer ``token_languages``: decoding
    needs no file.

    Args:
        mode: ``none``; ``reweight``: scores are multiplied by a weight (P1, eq. 2);
            ``bias``: the weight's logarithm is added to them, which multiplies the
            attention weights before they are normalised (not in P1); ``shared``: one
            stream per language, one set of parameters; ``separate``: one set per
            language (P1, Fig. 1b and c).
        blocks: the blocks, from 1, that have this attention; the others have ESPnet's.
            None: all.
        languages_file: ``languages.txt`` of the token stage
            (:mod:`espnet_ext.codeswitch.token_languages`).
        same_language_weight: weight of scores within a language. P1 gives no number,
            only that it increases them ...
        other_language_weight: ... and that it reduces those between languages.
        other_language_factor: factor of the other languages' embeddings in a stream
            (P1, section 4.2).
    """

    _known = False  # whether the languages were checked

    def __init__(
        self,
        vocab_size: int,
        encoder_output_size: int,
        mode: str = "none",
        blocks: Sequence[int] | None = None,
        languages: Sequence[str] = ("en", "zh"),
        languages_file: str | None = None,
        same_language_weight: float = 1.5,
        other_language_weight: float = 0.5,
        other_language_factor: float = 0.1,
        **transformer: Any,
    ):
        super().__init__(vocab_size, encoder_output_size, **transformer)
        if mode not in MODES:
            raise InputError(
                f"language_transformer: mode '{mode}' is not one of {', '.join(MODES)}"
            )
        self.mode = mode
        if mode == "none":
            return
        if len(set(languages)) < max(2, len(languages)):
            raise InputError(
                f"language_transformer: languages {list(languages)}: name two or "
                "more, each once"
            )
        kinds: dict[str, Callable[..., LanguageAttention]] = {
            "shared": partial(SharedStreams, len(languages), other_language_factor),
            "separate": partial(SeparateStreams, len(languages), other_language_factor),
        }
        for name in REWEIGHTING:
            kinds[name] = partial(
                ReweightedAttention,
                same_language_weight,
                other_language_weight,
                additive=name == "bias",
            )
        for number in self._choose_blocks(blocks):
            layer = self.decoders[number - 1]
            layer.self_attn = self._replace_attention(layer.self_attn, kinds[mode])
        codes = _read_codes(languages_file, languages, vocab_size)
        self.languages_file = languages_file
        # uint8, since ESPnet's average over epochs adds up int64 tensors and divides
        # all others
        self.register_buffer("token_languages", torch.tensor(codes, dtype=torch.uint8))

    def _choose_blocks(self, blocks: Sequence[int] | None) -> list[int]:
        """Return the numbers, from 1, of the blocks that distinguish languages."""
        numbers = list(range(1, len(self.decoders) + 1))
        if blocks is None:
            return numbers
        if not (isinstance(blocks, Sequence) and set(blocks) <= set(numbers)):
            raise InputError(
                f"language_transformer: blocks {blocks} is not a list of numbers "
                f"from 1 to {len(numbers)}"
            )
        return sorted(set(blocks))

    def _replace_attention(
        self,
        attention: MultiHeadedAttention,
        build: Callable[..., LanguageAttention],
    ) -> LanguageAttention:
        """Return an attention by language whose streams have these parameters."""
        options = _list_options(attention)
        if self.mode in REWEIGHTING:
            # ESPnet's fused attentions cannot change scores
            options |= {"use_flash_attn": False, "use_sdpa": False}
        # The numbers drawn here must not move those of the modules built later, so that
        # all modes start from the same values.
        with torch.random.fork_rng(devices=[]):
            by_language = build(**options)
        # Shared streams list one attention several times.
        for stream in set(by_language.attentions):
            stream.load_state_dict(attention.state_dict())
        return by_language

    def forward(
        self,
        hs_pad: torch.Tensor,
        hlens: torch.Tensor,
        ys_in_pad: torch.Tensor,
        ys_in_lens: torch.Tensor,
        return_hs: bool = False,
        return_all_hs: bool = False,
    ) -> tuple[Any, torch.Tensor]:
        """Score all tokens of a batch, before the softmax, (B, L, vocabulary).

        Returns numbers of tokens, (B,), too. ``hs_pad``: encodings, (B, T, D);
        ``ys_in_pad``: tokens that begin with sos, (B, L). With ``return_hs`` or
        ``return_all_hs``, a pair of scores and the input of the output layer, or the
        output of each block.
        """
        if self.mode == "none":
            return super().forward(
                hs_pad, hlens, ys_in_pad, ys_in_lens, return_hs, return_all_hs
            )
        languages = self._look_up_languages(ys_in_pad)
        length = ys_in_pad.size(1)
        valid = ~make_pad_mask(ys_in_lens, maxlen=length).to(hs_pad.device).unsqueeze(1)
        mask = valid & subsequent_mask(length, device=hs_pad.device)
        memory_padding = make_pad_mask(hlens, maxlen=hs_pad.size(1)).to(hs_pad.device)
        memory_mask = ~memory_padding.unsqueeze(1)

        def block(layer: DecoderLayer, x: torch.Tensor) -> torch.Tensor:
            def attend_to_tokens(x: torch.Tensor) -> torch.Tensor:
                # ``blocks`` may leave some to ESPnet's attention
                if isinstance(layer.self_attn, LanguageAttention):
                    return layer.self_attn(x, mask, languages)
                return layer.self_attn(x, x, x, mask)

            def attend_to_encodings(x: torch.Tensor) -> torch.Tensor:
                return layer.src_attn(x, hs_pad, hs_pad, memory_mask)

            return run_block(layer, x, attend_to_tokens, attend_to_encodings)

        x = self.embed(ys_in_pad)
        outputs = []
        for number, layer in enumerate(self.decoders, start=1):
            if number in self.gradient_checkpoint_layers:
                x = checkpoint(block, layer, x, use_reentrant=False)
            else:
                x = block(layer, x)
            outputs.append(x)
        hidden = self.after_norm(x) if self.normalize_before else x
        scores = hidden if self.output_layer is None else self.output_layer(hidden)
        lengths = valid.sum(2).squeeze(1)
        if return_hs:
            return (scores, hidden), lengths
        return ((scores, outputs) if return_all_hs else scores), lengths

    def count_streams(self, layer: DecoderLayer) -> int:
        """Return how many keys and values a layer keeps of a token: one per stream."""
        attention = layer.self_attn
        if isinstance(attention, LanguageAttention):
            return len(attention.attentions)
        return super().count_streams(layer)

    def attend_to_prefixes(
        self,
        layer: DecoderLayer,
        prefixes: ScoredPrefixes,
        slot: int,
        ys: torch.Tensor,
        x: torch.Tensor,
    ) -> torch.Tensor:
        """Attend from new tokens, (n, new, D), to all tokens of their hypotheses.

        Languages are those of ``ys``, (n, L).
        """
        attention = layer.self_attn
        if not isinstance(attention, LanguageAttention):
            return super().attend_to_prefixes(layer, prefixes, slot, ys, x)

        # Each stream keeps keys and values of its own (count_streams), beginning at the
        # slot of the layer.
        def attend(number: int, stream: Stream, x: torch.Tensor) -> torch.Tensor:
            return prefixes.attend(
                slot + number, stream.attention, x, stream.weights, stream.bias
            )

        languages = self._look_up_languages(ys)
        new = languages[:, -x.size(1) :]
        return attend_by_language(attention, x, new, languages, attend)

    def _look_up_languages(self, ys: torch.Tensor) -> torch.Tensor:
        """Return language codes of tokens."""
        codes = self.token_languages
        # Once, since looking into a buffer on a GPU waits for it. Not in __init__: the
        # checkpoint, which is loaded later, may have them.
        if not self._known:
            if (codes == UNKNOWN).any():
                given = (
                    f"{self.languages_file} is not there"
                    if self.languages_file
                    else "languages_file is not set"
                )
                raise InputError(
                    "language_transformer: the tokens' languages are not known, "
                    f"{given}: "
                    "set languages_file in decoder_conf to languages.txt of the "
                    "token stage"
                )
            self._known = True
        return codes[ys].long()

    def forward_one_step(self, *args: Any, **options: Any) -> Any:
        """Score one step by ESPnet's own attention.

        A beam search calls the scorers above.
        """
        self._require_none("forward_one_step")
        return super().forward_one_step(*args, **options)

    def forward_partially_AR(self, *args: Any, **options: Any) -> Any:  # noqa: N802 - ESPnet's name
        """Decode partially autoregressively by ESPnet's own attention."""
        self._require_none("partial_ar")
        return super().forward_partially_AR(*args, **options)

    def _require_none(self, what: str) -> None:
        if self.mode != "none":
            raise InputError(
                f"language_transformer: {what} works with mode 'none' only, not "
                f"'{self.mode}'"
            )


def _list_options(attention: MultiHeadedAttention) -> dict[str, Any]:
    """Return the options with which an attention was built."""
    return {
        "n_head": attention.h,
        "n_feat": attention.linear_q.in_features,
        "dropout_rate": attention.dropout_rate,
        "qk_norm": not isinstance(attention.q_norm, torch.nn.Identity),
        "use_flash_attn": attention.use_flash_attn,
        "causal": attention.causal,
        "cross_attn": attention.cross_attn,
        "use_sdpa": attention.use_sdpa,
    }


def _read_codes(path: str | None, names: Sequence[str], vocab_size: int) -> list[int]:
    """Return language codes of all tokens.

    If the file is missing, the checkpoint must hold them.
    """
    if path is None or not Path(path).exists():
        return [UNKNOWN] * vocab_size
    languages = read_languages(path)
    if len(languages) != vocab_size:
        raise InputError(
            f"{path}: {len(languages)} tokens, and the vocabulary has "
            f"{vocab_size}: write it again"
        )
    try:
        return number_languages(languages.values(), names)
    except InputError as error:
        raise InputError(f"{path}: {error}: set languages in decoder_conf") from None
