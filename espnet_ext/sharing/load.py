"""Build a ready recogniser from a model's files."""

import inspect
import logging
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.packages import advise_on_installing
from espnet_ext.registry import find_missing_package
from espnet_ext.sharing.model_files import ModelFiles, find_model
from espnet_ext.work.yaml_files import read_yaml

# Options of the search that a model may bring. Others of ESPnet's recognisers build
# models of other tasks, read files or download: only who loads a model may give them.
SEARCH = (
    "beam_size",
    "ctc_weight",
    "lm_weight",
    "ngram_weight",
    "penalty",
    "nbest",
    "maxlenratio",
    "minlenratio",
    "normalize_length",
    "prior_weight",
    "fast_decoder",
    "ctc_window_margin",
    "batch_size",
)
OURS = ("prior_weight", "fast_decoder")


def load(name: str | Path, *, device: str = "cpu", **options: Any) -> Any:
    """Return a ready ``Speech2Text`` of ESPnet for a model.

    The plugins are registered, and the search has the model's own options. ``name`` is
    what :func:`espnet_ext.sharing.model_files.find_model` takes; ``options`` of
    ``Speech2Text`` go over the model's own, also ``prior_weight`` and ``fast_decoder``.
    A model that merges hypotheses (``task: mt``) gives ESPnet's ``Text2Text``. Raises
    InputError: there is no such model, it lacks a file, an option is unknown, or it
    needs another ESPnet.
    """
    files = find_model(name)
    if files.task == "long":
        raise InputError(f"{name}: is decoded in windows: use espnet-ext transcribe")
    return build(files, device=device, **options)


def build(files: ModelFiles, *, device: str = "cpu", **options: Any) -> Any:
    """Return the same for the files of a model."""
    import espnet_ext
    from espnet_ext.upstream.checkpoint import strict_loading

    espnet_ext.register()
    if files.espnet and files.espnet != version("espnet"):
        logging.warning(
            f"{files.name} was packed with ESPnet {files.espnet}, this is "
            f"{version('espnet')}: its output may differ"
        )
    package = find_missing_package(read_yaml(files.config))
    if package:
        raise InputError(f"{files.name}: {package}")
    with explain_faults(files), strict_loading():
        if files.task == "mt":
            return _build_text2text(files, device, options)
        from espnet2.bin.asr_inference import Speech2Text

        from espnet_ext.upstream.inference import build_speech2text

        chosen = choose_search_options(files, options, Speech2Text)
        recogniser = build_speech2text(device=device, **(files.options() | chosen))
        if recogniser.tokenizer is None:  # it would give no text
            raise InputError(
                f"{files.name}: its config does not say how tokens make text: it needs "
                "a token_type, and for bpe a bpemodel"
            )
        return recogniser


@contextmanager
def explain_faults(files: ModelFiles, options: Path | None = None) -> Iterator[None]:
    """Turn what libraries raise while a model is built into an InputError.

    Its config or files are bad, not the audio. It names ``options``, the file of the
    user's options. A missing package that an extra brings stays what it is.
    """
    source = f" (options are those of {options})" if options else ""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error}{source}") from error
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and advise_on_installing(
            error.name or ""
        ):
            raise
        packed = files.espnet
        this = version("espnet")
        advice = ""
        if packed not in ("", this):
            advice = (
                f": it was packed with ESPnet {packed}, this is {this}: install that "
                "release"
            )
        raise InputError(
            f"{files.name}: cannot be built: {_find_reason(error)}{advice}{source}"
        ) from error


def _build_text2text(files: ModelFiles, device: str, options: Mapping[str, Any]) -> Any:
    from espnet2.bin.mt_inference import Text2Text

    from espnet_ext.upstream.arguments import check_arguments
    from espnet_ext.upstream.beam import fit_beam

    chosen = choose_search_options(files, options, Text2Text)
    check_arguments(Namespace(**chosen))
    text2text = Text2Text(
        mt_train_config=files.config, mt_model_file=files.model, device=device, **chosen
    )
    fit_beam(text2text.beam_search)
    return text2text


def choose_search_options(
    files: ModelFiles,
    options: Mapping[str, Any],
    recogniser: type,
) -> dict[str, Any]:
    """Return the model's own search options, with those of the caller over them.

    Raises InputError: a name of the caller's is unknown, or the model brings one that
    is not of the search.
    """
    known = {*inspect.signature(recogniser).parameters, *OURS}
    for name in options:
        if name not in known:
            raise InputError(
                f"unknown option {name!r} of {recogniser.__name__}: "
                f"{', '.join(sorted(known))}"
            )
    for name in files.search:
        if name not in SEARCH:
            raise InputError(
                f"{files.name}: brings {name!r}, no option of a search: do not use it"
            )
    chosen = {**files.search, **options}
    # a model may bring options that its recogniser does not have
    return {name: value for name, value in chosen.items() if name in known}


def _find_reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    first = lines[0]
    return first if len(first) < 300 else f"{first[:140]} ... {first[-140:]}"
