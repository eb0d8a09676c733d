"""ESPnet's ``asr_inference`` with more options."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import torch
from espnet2.bin import asr_inference
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.beam_search import BeamSearch
from espnet2.tasks.abs_task import AbsTask
from espnet2.utils.types import str2bool, str_or_none

from espnet_ext.errors import InputError
from espnet_ext.fast_search.decoders import quantise, use_fast_decoder
from espnet_ext.fast_search.whole_sets import AUTO, read_windows
from espnet_ext.upstream.arguments import check_arguments
from espnet_ext.upstream.beam import fit_beam
from espnet_ext.upstream.checkpoint import make_strict, strict_loading
from espnet_ext.upstream.logs import suppress_message
from espnet_ext.upstream.prior import add_prior
from espnet_ext.work.model_cache import keep_last

NOT_BATCHED = "fall back to non-batch implementation"  # in a warning of ESPnet's
PERCENT = re.compile(r"%%|%(?!\()")  # a sign, not the beginning of %(default)s
Builder = Callable[..., asr_inference.Speech2Text]


def get_parser() -> argparse.ArgumentParser:
    """Return the parser of ESPnet's options and ours."""
    parser = asr_inference.get_parser()
    group = parser.add_argument_group("Modified shallow fusion (espnet_ext)")
    group.add_argument(
        "--prior_weight",
        type=float,
        default=0.0,
        help="weight of the token prior, which is subtracted",
    )
    group.add_argument(
        "--prior_file", type=str_or_none, help="prior.txt of the token stage"
    )
    group = parser.add_argument_group("Speed (espnet_ext)")
    group.add_argument(
        "--fast_decoder",
        type=str2bool,
        default=False,
        help="replace decoder and search by fast ones",
    )
    for action in parser._actions:
        # a percent sign in a text of ESPnet's ends --help with a traceback (202611)
        action.help = PERCENT.sub("%%", action.help or "")
    action = next(action for action in parser._actions if action.dest == "batch_size")
    action.type = parse_batch_size
    action.help = (
        f"utterances in one search; {AUTO}, with fast_decoder: as many as memory has "
        "room for"
    )
    return parser


def build_speech2text(
    prior_weight: float = 0.0,
    prior_file: str | None = None,
    fast_decoder: bool = False,
    **options: Any,
) -> Any:
    """Build ESPnet's ``Speech2Text`` with our scorers in its beam search.

    ``options`` are those of ``from_pretrained``, with ``model_tag`` too. Raises
    InputError: options cannot be used together.
    """
    check_arguments(argparse.Namespace(**options))
    _refuse_auto(fast_decoder, options)
    # The fast decoder takes 8 bits itself: what ESPnet quantises, it would replace.
    quantised = fast_decoder and options.pop("quantize_asr_model", False)
    modules = options.pop("quantize_modules", None) if quantised else None
    dtype = options.pop("quantize_dtype", None) if quantised else None
    if quantised and torch.device(options.get("device") or "cpu").type != "cpu":
        raise InputError(
            "quantize_asr_model: PyTorch computes with 8 bits on CPUs only: set "
            "it to false"
        )
    # ESPnet refuses batches where its own decoder has none; the fast one has
    utterances = options.pop("batch_size", 1) if fast_decoder else 1
    # what ESPnet says of its own search is not so of the fast one, which replaces it
    quiet = suppress_message(NOT_BATCHED, asr_inference.__name__)
    with quiet if fast_decoder else nullcontext(), strict_loading():
        speech2text = asr_inference.Speech2Text.from_pretrained(**options)
    fit_beam(speech2text.beam_search)
    if fast_decoder:
        use_fast_decoder(speech2text, utterances)
    forget_ended(speech2text.beam_search)
    add_prior(
        speech2text.beam_search,
        speech2text.asr_train_args.token_list,
        prior_file,
        prior_weight,
    )
    # last, when the modules are those that will compute
    if quantised:
        quantise(speech2text, modules, dtype)
    return speech2text


def forget_ended(search: BeamSearch) -> None:
    """Make a batched search drop the states of a hypothesis when it ends.

    Nothing scores it again. ESPnet copies the tensors in them, so that memory shared
    with other hypotheses can be freed. A state that refers to shared memory in another
    way, as those of ``language_transformer``, would keep all of it until the search
    ends.
    """
    if not isinstance(search, BatchBeamSearch):
        return
    release = search._release

    def release_without_states(ended: Any) -> Any:
        return release(ended._replace(states=dict.fromkeys(ended.states)))

    search._release = release_without_states


def parse_batch_size(text: str) -> int | str:
    """Parse ``--batch_size``."""
    return text if text == AUTO else int(text)


def _refuse_auto(fast_decoder: bool, options: Mapping[str, Any]) -> None:
    if not fast_decoder and options.get("batch_size") == AUTO:
        raise InputError(
            f"batch_size {AUTO} is for fast_decoder: set that to true, or give a number"
        )


@keep_last
def reuse_speech2text(**options: Any) -> Any:
    """Build as :func:`build_speech2text`, with the last one's models where possible.

    Models are the last one's where they have the same files. So a grid of search
    settings loads each model once.
    """
    load = make_strict(vars(AbsTask)["build_model_from_file"].__func__)

    def load_or_reuse(
        task: type,
        config_file: Any = None,
        model_file: Any = None,
        device: str = "cpu",
    ) -> Any:
        return _make_loader(task, load)(config_file, model_file, device)

    load_or_reuse.strict = True  # type: ignore[attr-defined] # not checked twice
    # ESPnet builds the ASR model and the language model of a search by this method
    reused: Any = classmethod(load_or_reuse)
    with patch.object(AbsTask, "build_model_from_file", reused):
        return build_speech2text(**options)


# Cached by the task, so that an ASR model and a language model stay side by side.
@cache
def _make_loader(task: type, build: Callable) -> Callable:
    """Return a task's ``build_model_from_file`` that keeps its last model."""
    return keep_last(partial(build, task))


def inference(options: argparse.Namespace, build: Builder = build_speech2text) -> None:
    """Run ESPnet's ``inference()`` with a ``Speech2Text`` made by ``build``.

    ``options`` are those of :func:`get_parser`.
    """
    kwargs = dict(vars(options))
    kwargs.pop("config", None)
    ours = {}
    for name in ("prior_weight", "prior_file", "fast_decoder"):
        ours[name] = kwargs.pop(name)
    original: Any = asr_inference.Speech2Text
    _refuse_auto(ours["fast_decoder"], kwargs)
    load = asr_inference.ASRTask.build_streaming_iterator
    batched = ours["fast_decoder"] and kwargs["batch_size"] != 1
    if batched:
        ours["batch_size"] = kwargs["batch_size"]
        kwargs["batch_size"] = 2  # any number above 1 makes ESPnet call batch_decode

    # utterances are read one by one: as many as memory has room for are searched at
    # once
    def load_windows(*data: Any, **arguments: Any) -> Iterator:
        return read_windows(load(*data, **arguments | {"batch_size": 1}))

    class OurSpeech2Text(original):
        """Stand in for the class of which ``inference()`` calls ``from_pretrained``."""

        @staticmethod
        def from_pretrained(**arguments: Any) -> Any:
            # ESPnet's own, which ``build`` calls, finds its class by this name
            asr_inference.Speech2Text = original
            return build(**arguments | ours)

    asr_inference.Speech2Text = OurSpeech2Text
    try:
        with patch.object(
            asr_inference.ASRTask,
            "build_streaming_iterator",
            load_windows if batched else load,
        ):
            asr_inference.inference(**kwargs)
    finally:
        asr_inference.Speech2Text = original
