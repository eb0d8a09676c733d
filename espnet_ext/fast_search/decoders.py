"""``--fast_decoder``: fast decoders and language models in place of ESPnet's.

They have the same parameters and give the same scores.
"""

from collections.abc import Callable, Iterable
from copy import copy

import torch
from espnet2.asr.decoder.rnn_decoder import RNNDecoder
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.bin.asr_inference import Speech2Text
from espnet2.legacy.nets.beam_search import BeamSearch
from espnet2.lm.transformer_lm import TransformerLM
from espnet2.torch_utils.quantization import quantize_dynamic

from espnet_ext.errors import InputError
from espnet_ext.fast_search.batch_rnn import make_batched
from espnet_ext.fast_search.beam_search import make_fast
from espnet_ext.fast_search.cached_transformer import CachedTransformerDecoder
from espnet_ext.fast_search.language_model import FastTransformerLM
from espnet_ext.fast_search.rnn_attention import WholeUtteranceScorer
from espnet_ext.fast_search.whole_sets import WholeSets

# ESPnet's class -> function that makes a fast decoder with the same parameters.
# Subclasses may compute something else, so the exact class is looked up.
FAST: dict[type, Callable[[torch.nn.Module], torch.nn.Module]] = {
    TransformerDecoder: CachedTransformerDecoder.from_transformer,
    RNNDecoder: make_batched,
}
FAST_ALREADY = (CachedTransformerDecoder, WholeUtteranceScorer)  # with their subclasses


def use_fast_decoder(speech2text: Speech2Text, batch_size: int | str = 1) -> None:
    """Replace the decoder and the search that ESPnet has built by fast ones.

    The model keeps its own decoder. Hypotheses and scores are those of the search that
    ESPnet would use for single utterances, with exact CTC scores (``ctc_window_margin:
    0``). A search of another kind, as of streaming, stays, with the fast decoder.
    ``batch_size`` is the utterances of one search (:mod:`.whole_sets`). Raises
    InputError: no fast decoder of this kind, or no search of batches.
    """
    search = speech2text.beam_search
    decoder = speech2text.asr_model.decoder
    if type(decoder) not in FAST and not isinstance(decoder, FAST_ALREADY):
        name = "no decoder" if decoder is None else type(decoder).__name__
        known = ", ".join(kind.__name__ for kind in FAST)
        raise InputError(
            f"fast_decoder is set, but the model has {name}: it replaces only "
            f"{known}: set it to false"
        )
    if not isinstance(search, BeamSearch):
        raise InputError(
            "fast_decoder is set, but this model is not decoded by ESPnet's beam "
            "search: set it to false"
        )
    if "decoder" in search.full_scorers:  # otherwise its weight is 0
        _replace_scorer(search, "decoder", _make_fast_decoder(search))
    if type(search.full_scorers.get("lm")) is TransformerLM:
        fast = FastTransformerLM.from_transformer(search.full_scorers["lm"])
        _replace_scorer(search, "lm", fast)
    # Models that enhance or separate speech first have several streams per utterance.
    several_streams = speech2text.enh_s2t_task or speech2text.multi_asr
    if make_fast(search) and not several_streams:
        speech2text.__class__ = WholeSets
        speech2text.batch_size = batch_size
    elif batch_size != 1:
        raise InputError(
            f"batch_size {batch_size}: a scorer of this search takes no batches: "
            "set it to 1"
        )


def _make_fast_decoder(search: BeamSearch) -> torch.nn.Module:
    decoder = search.full_scorers["decoder"]
    if isinstance(decoder, FAST_ALREADY):
        return decoder
    try:
        return FAST[type(decoder)](decoder)
    except InputError as error:
        raise InputError(f"fast_decoder: {error}: set it to false") from None


def _replace_scorer(search: BeamSearch, name: str, scorer: torch.nn.Module) -> None:
    """Put a scorer wherever a search of ESPnet's looks for it."""
    search.scorers[name] = scorer
    search.full_scorers[name] = scorer
    search.nn_dict[name] = scorer


def quantise(
    speech2text: Speech2Text,
    modules: str | Iterable[str] | None,
    dtype: str | None,
) -> None:
    """Quantise ``modules`` of encoder and ``transformer`` decoder, as ESPnet's option.

    ``modules`` are classes of ``torch.nn``, by default Linear in ``qint8``. The rest of
    the search stays in float32. A search of many utterances says what this costs in
    hypotheses. Raises InputError: unknown modules, or the encoder has none of them.
    """
    names = [modules] if isinstance(modules, str) else list(modules or ["Linear"])
    for name in names:
        if not hasattr(torch.nn, name):
            raise InputError(f"quantize_modules: torch.nn has no {name}")
    if speech2text.enh_s2t_task:
        raise InputError(
            "quantize_asr_model and fast_decoder: not for models that enhance "
            "speech first: unset one"
        )
    classes = {getattr(torch.nn, name) for name in names}
    number_format = getattr(torch, dtype or "qint8")

    def quantise_module(module: torch.nn.Module) -> torch.nn.Module:
        return quantize_dynamic(module, classes, dtype=number_format)

    encoder = speech2text.asr_model.encoder
    fewer_bits = quantise_module(encoder)
    if _list_classes(fewer_bits) <= _list_classes(encoder):
        raise InputError(
            f"quantize_asr_model: of {', '.join(names)} nothing in this encoder "
            "can be quantised"
        )
    # What other programs of this process share is copied, each time only the object
    # that changes: the model in the cache keeps its encoder, as does ``exact``.
    exact = copy(speech2text)
    model = copy(speech2text.asr_model)
    model._modules = model._modules | {"encoder": fewer_bits}
    speech2text.asr_model = model
    decoder = speech2text.beam_search.full_scorers.get("decoder")
    if isinstance(decoder, CachedTransformerDecoder):
        speech2text.beam_search = _replace_decoder(
            speech2text.beam_search, quantise_module(decoder)
        )
    if isinstance(speech2text, WholeSets):
        speech2text.exact = exact


def _list_classes(module: torch.nn.Module) -> set[type]:
    return {type(each) for each in module.modules()}


def _replace_decoder(search: BeamSearch, decoder: torch.nn.Module) -> BeamSearch:
    """Return a copy of a search with another decoder; the search stays as it is."""
    search = copy(search)
    new = {"decoder": decoder}
    search.scorers = search.scorers | new
    search.full_scorers = search.full_scorers | new
    nn_dict = torch.nn.ModuleDict(dict(search.nn_dict) | new)
    search._modules = search._modules | {"nn_dict": nn_dict}
    return search
