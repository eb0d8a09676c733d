"""``decoder: language_transformer``: ESPnet's transformer decoder, fast, with
language-related self-attention (P1).
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.legacy.nets.pytorch_backend.nets_utils import make_pad_mask
from espnet2.legacy.nets.pytorch_backend.transformer.attention import (
    MultiHeadedAttention,
)
from espnet2.legacy.nets.pytorch_backend.transformer.decoder_layer import DecoderLayer
from espnet2.legacy.nets.pytorch_backend.transformer.mask import subsequent_mask
from torch.utils.checkpoint import checkpoint

from espnet_ext.errors import InputError
from espnet_ext.layers.cached_attention import EncoderMemory, ScoredPrefixes
from espnet_ext.layers.language_attention import (
    LanguageAttention,
    ReweightedAttention,
    SeparateStreams,
    SharedStreams,
    Stream,
    attend_by_language,
)
from espnet_ext.layers.prefix_tree import Path as TreePath
from espnet_ext.layers.prefix_tree import PrefixTree, join, paths_of
from espnet_ext.text.token_languages import language_codes, read_languages

REWEIGHTING = ("reweight", "bias")
MODES = ("none", *REWEIGHTING, "shared", "separate")
UNKNOWN = 255  # in the buffer, before a languages file or a checkpoint is read


@dataclass(frozen=True)
class Scored:
    """The state of a hypothesis in a beam search: where the keys and values of its
    tokens and of the encoder are.

    Hypotheses share both; :mod:`espnet_ext.upstream.inference` drops the states of
    those that have ended.
    """

    path: TreePath
    memory: EncoderMemory


class LanguageTransformerDecoder(TransformerDecoder):
    """Run ESPnet's ``TransformerDecoder`` with self-attention that distinguishes
    languages (P1, section 3).

    ``mode: none`` has the parameters of ESPnet's decoder, with the same names;
    ``reweight``, ``bias`` and ``shared`` have one buffer more. ``separate`` has
    ``self_attn.0.``, ``self_attn.1.`` ... in the order of ``languages`` in place of
    ``self_attn.``. With the same seed all modes start from the same values: each stream
    of ``separate`` from those of the one attention that it replaces. In a beam search
    all modes keep the keys and values of the scored tokens and of the encoder's output;
    ESPnet's decoder computes them again at every step. The tokens' languages are saved
    in the checkpoint as the buffer ``token_languages``: decoding needs no file.

    Args:
        mode: ``none``; ``reweight``: scores are multiplied by a weight (P1, eq. 2);
            ``bias``: the weight's logarithm is added to them, which multiplies the
            attention weights before they are normalised (not in P1); ``shared``: one
            stream per language, one set of parameters; ``separate``: one set per
            language (P1, Fig. 1b and c).
        blocks: the blocks, from 1, that have this attention; the others have ESPnet's.
            None: all.
        languages_file: ``languages.txt`` of the token stage
            (:mod:`espnet_ext.text.token_languages`).
        same_language_weight: weight of scores within a language. P1 gives no number,
            only that it increases them ...
        other_language_weight: ... and that it reduces those between languages.
        other_language_factor: factor of the other languages' embeddings in a stream
            (P1, section 4.2).
    """

    mode = "none"  # also for a decoder from from_transformer
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
            **{
                mode: partial(
                    ReweightedAttention,
                    same_language_weight,
                    other_language_weight,
                    mode == "bias",
                )
                for mode in REWEIGHTING
            },
            "shared": partial(SharedStreams, len(languages), other_language_factor),
            "separate": partial(SeparateStreams, len(languages), other_language_factor),
        }
        numbers = list(range(1, len(self.decoders) + 1))
        if blocks is not None and not (
            isinstance(blocks, Sequence) and set(blocks) <= set(numbers)
        ):
            raise InputError(
                f"language_transformer: blocks {blocks} is not a list of numbers "
                f"from 1 to {len(numbers)}"
            )
        for number in numbers if blocks is None else sorted(set(blocks)):
            layer = self.decoders[number - 1]
            # ESPnet's fused attentions cannot change scores
            fused = (
                {"use_flash_attn": False, "use_sdpa": False}
                if mode in REWEIGHTING
                else {}
            )
            with torch.random.fork_rng(
                devices=[]
            ):  # what is built later starts as in mode none
                attention = kinds[mode](**_options(layer.self_attn) | fused)
            for stream in set(attention.attentions):
                stream.load_state_dict(layer.self_attn.state_dict())
            layer.self_attn = attention
        codes = _read_codes(languages_file, languages, vocab_size)
        self.languages_file = languages_file
        # uint8, since ESPnet's average over epochs adds up int64 tensors and divides
        # all others
        self.register_buffer("token_languages", torch.tensor(codes, dtype=torch.uint8))

    @classmethod
    def from_transformer(
        cls, decoder: TransformerDecoder
    ) -> "LanguageTransformerDecoder":
        """Return a fast decoder from an ESPnet decoder: ``mode: none`` with the same
        modules and parameters.
        """
        fast = copy(decoder)
        fast.__class__ = cls
        return fast

    def forward(
        self,
        hs_pad: torch.Tensor,
        hlens: torch.Tensor,
        ys_in_pad: torch.Tensor,
        ys_in_lens: torch.Tensor,
        return_hs: bool = False,
        return_all_hs: bool = False,
    ) -> tuple[Any, torch.Tensor]:
        """Score all tokens of a batch: scores before the softmax, (B, L, vocabulary),
        and numbers of tokens, (B,).

        ``hs_pad``: encodings, (B, T, D); ``ys_in_pad``: tokens that begin with sos, (B,
        L). With ``return_hs`` or ``return_all_hs``, a pair of scores and the input of
        the output layer, or the output of each block.
        """
        if self.mode == "none":
            return super().forward(
                hs_pad, hlens, ys_in_pad, ys_in_lens, return_hs, return_all_hs
            )
        languages = self._languages(ys_in_pad)
        length = ys_in_pad.size(1)
        valid = ~make_pad_mask(ys_in_lens, maxlen=length).to(hs_pad.device).unsqueeze(1)
        mask = valid & subsequent_mask(length, device=hs_pad.device)
        memory_mask = ~make_pad_mask(hlens, maxlen=hs_pad.size(1)).to(
            hs_pad.device
        ).unsqueeze(1)

        def block(layer: DecoderLayer, x: torch.Tensor) -> torch.Tensor:
            attention = layer.self_attn
            by_language = isinstance(attention, LanguageAttention)
            return _block(
                layer,
                x,
                lambda x: (
                    attention(x, mask, languages)
                    if by_language
                    else attention(x, x, x, mask)
                ),
                lambda x: layer.src_attn(x, hs_pad, hs_pad, memory_mask),
            )

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

    def score(
        self,
        ys: torch.Tensor,
        state: Scored | None,
        x: torch.Tensor,
        return_hs: bool = False,
    ) -> tuple:
        """Score the next token of one hypothesis: ``ys`` (L,), ``x`` (T, D); see
        :meth:`batch_score`.
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
        states: list[Scored | None],
        xs: torch.Tensor,
        return_hs: bool = False,
        xs_mask: torch.Tensor | None = None,
    ) -> tuple[Any, list[Scored]]:
        """Score the next token of n hypotheses: log-probabilities, (n, vocabulary), and
        the new states.

        ``ys``: tokens so far, (n, L); ``states``: those that an earlier call returned
        for all tokens but the last, or None; ``xs``: encodings, (n, T, D); ``xs_mask``:
        False on padded frames, (n, 1, T), or None. With ``return_hs``, a pair of
        log-probabilities and the input of the output layer, (n, D).
        """
        memory = self._memory(states, xs)
        tree, nodes = self._join(states, memory.groups, ys)
        known = nodes.size(1)
        tree, nodes = tree.extended(nodes, ys.size(1) - known)
        prefixes = ScoredPrefixes(tree, nodes, known)
        languages = None if self.mode == "none" else self._languages(ys)
        x = self.embed(ys)[:, known:]
        slot = 0
        for number, layer in enumerate(self.decoders):
            x = _block(
                layer,
                x,
                partial(_attend_to_prefix, layer.self_attn, prefixes, slot, languages),
                partial(memory.attend, number, layer.src_attn, visible=xs_mask),
            )
            slot += _streams(layer.self_attn)
        x = x[:, -1]
        hidden = self.after_norm(x) if self.normalize_before else x
        scores = (
            hidden
            if self.output_layer is None
            else self.output_layer(hidden).log_softmax(-1)
        )
        new_states = [Scored(path, memory) for path in paths_of(tree, nodes)]
        return ((scores, hidden) if return_hs else scores), new_states

    def of_utterances(
        self, states: list[Scored], utterances: torch.Tensor, xs: torch.Tensor
    ) -> list[Scored]:
        """Return the states of the hypotheses of some utterances, n of them with
        encodings ``xs``, (n, T, D).
        """
        tree, memory = (
            states[0].path.tree.of_groups(utterances),
            states[0].memory.of_groups(utterances, xs),
        )
        return [
            Scored(path, memory)
            for path in paths_of(tree, [state.path.nodes for state in states])
        ]

    def _memory(self, states: list[Scored | None], xs: torch.Tensor) -> EncoderMemory:
        """Return the encoder's keys and values: those of the states, unless these
        encodings differ.
        """
        memories = {getattr(state, "memory", None) for state in states}
        memory = memories.pop()
        if memory is not None and not memories and memory.is_of(xs):
            return memory
        return EncoderMemory(xs, [layer.src_attn for layer in self.decoders])

    def _join(
        self, states: list[Scored | None], groups: int, ys: torch.Tensor
    ) -> tuple[PrefixTree, torch.Tensor]:
        """Return the tree of all hypotheses and their nodes in it, (n, t), for t tokens
        before the last one.
        """
        paths = [state.path for state in states if state is not None]
        if len(paths) < len(states):
            slots = sum(_streams(layer.self_attn) for layer in self.decoders)
            return PrefixTree(slots, groups, 0), ys.new_zeros(len(ys), 0)
        tree, nodes = join(paths)
        return tree, nodes[:, : ys.size(1) - 1]

    def _languages(self, ys: torch.Tensor) -> torch.Tensor:
        """Return language codes of tokens."""
        codes = self.token_languages
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
        """Score one step by ESPnet's own attention; a beam search calls the scorers
        above.
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


def _options(attention: MultiHeadedAttention) -> dict[str, Any]:
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
    """Return language codes of all tokens; if the file is missing, the checkpoint must
    hold them.
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
        return language_codes(languages.values(), names)
    except InputError as error:
        raise InputError(f"{path}: {error}: set languages in decoder_conf") from None


def _streams(attention: torch.nn.Module) -> int:
    """Return the number of keys and values per token in an attention."""
    return len(attention.attentions) if isinstance(attention, LanguageAttention) else 1


def _attend_to_prefix(
    attention: torch.nn.Module,
    prefixes: ScoredPrefixes,
    slot: int,
    languages: torch.Tensor | None,
    x: torch.Tensor,
) -> torch.Tensor:
    """Compute self-attention of new tokens, (n, new, D), to all tokens of their
    hypotheses.
    """
    if isinstance(attention, LanguageAttention):
        assert languages is not None  # these kinds need them

        def attend(number: int, stream: Stream, x: torch.Tensor) -> torch.Tensor:
            return prefixes.attend(
                slot + number, stream.attention, x, stream.weights, stream.bias
            )

        return attend_by_language(
            attention, x, languages[:, -x.size(1) :], languages, attend
        )
    return prefixes.attend(slot, attention, x)


def _block(
    layer: DecoderLayer,
    x: torch.Tensor,
    self_attention: Callable[[torch.Tensor], torch.Tensor],
    cross_attention: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Return an ESPnet block (norms, residuals, dropout, feed-forward) with these
    attentions in place of its own.
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
