"""Build a ready recogniser from a model's files."""

import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.packages import how_to_install
from espnet_ext.sharing.files import ModelFiles
from espnet_ext.sharing.find import find_model

OURS = ("prior_weight", "fast_decoder")
UNKNOWN_CHOICE = "must be one of"  # in what ESPnet says of an encoder and the like that it does not know


def load(name: str | Path, *, device: str = "cpu", **options: Any) -> Any:
    """A ready ``Speech2Text`` of ESPnet for a model, with the plugins registered and its own search options.

    A model that merges hypotheses (``task: mt``) gives ESPnet's ``Text2Text``.

    Args:
        name: what :func:`espnet_ext.sharing.find.find_model` takes.
        device: ``cpu`` or ``cuda``.
        options: of ``Speech2Text``, over the model's own; also ``prior_weight`` and ``fast_decoder``.

    Raises:
        InputError: there is no such model, it lacks a file, an option is unknown, or it needs another ESPnet.
    """
    files = find_model(name)
    if files.task in ("long", "s2t_ctc"):
        raise InputError(f"{name}: is decoded in windows: use espnet-ext transcribe")
    return build(files, device=device, **options)


def build(files: ModelFiles, *, device: str = "cpu", **options: Any) -> Any:
    """The same for the files of a model.

    Raises:
        InputError: a file or an option that does not fit, or a model that needs another ESPnet.
    """
    import espnet_ext

    espnet_ext.register()
    with_other_release(files)
    with building(files):
        return _text2text(files, device, options) if files.task == "mt" else _speech2text(files, device, options)


@contextmanager
def building(files: ModelFiles, options: Path | None = None) -> Iterator[None]:
    """Makes what libraries raise while a model is built one line: its config or files are bad, not the audio.

    Args:
        files: the model.
        options: the file of the user's options, if there is one, which may be what is bad.

    Raises:
        InputError: another error than this one; ``options`` are named, too.
        ModuleNotFoundError: a package is missing that an extra of this package brings.
    """
    source = f" (options are those of {options})" if options else ""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error}{source}") from error
    except ModuleNotFoundError as error:
        if how_to_install(error.name or ""):
            raise
        raise InputError(f"{files.name}: cannot be built: {_reason(error)}{_advice(files, error)}{source}") from error
    except Exception as error:
        raise InputError(f"{files.name}: cannot be built: {_reason(error)}{_advice(files, error)}{source}") from error


def _speech2text(files: ModelFiles, device: str, options: Mapping[str, Any]) -> Any:
    from espnet2.bin.asr_inference import Speech2Text

    from espnet_ext.upstream.inference import build_speech2text

    chosen = search_options(files, options, Speech2Text)
    paths: dict[str, Any] = {"asr_train_config": files.config, "asr_model_file": files.model}
    if files.lm_config is not None and chosen.get("lm_weight", 1.0):
        paths |= {"lm_train_config": files.lm_config, "lm_file": files.lm_file}
    return build_speech2text(prior_file=str(files.prior_file or "") or None, device=device, **paths, **chosen)


def _text2text(files: ModelFiles, device: str, options: Mapping[str, Any]) -> Any:
    from espnet2.bin.mt_inference import Text2Text

    from espnet_ext.upstream.beam import fit_beam

    chosen = search_options(files, options, Text2Text)
    text2text = Text2Text(mt_train_config=files.config, mt_model_file=files.model, device=device, **chosen)
    fit_beam(text2text.beam_search)
    return text2text


def search_options(files: ModelFiles, options: Mapping[str, Any], recogniser: type) -> dict[str, Any]:
    """The model's own search options, with those of the caller over them.

    Options of ``asr_inference`` that its ``Speech2Text`` does not have, such as ``num_workers``, are left out.

    Raises:
        InputError: the caller's options have an unknown name.
    """
    known = {*inspect.signature(recogniser).parameters, *OURS}
    for name in options:
        if name not in known:
            raise InputError(f"unknown option {name!r} of {recogniser.__name__}: {', '.join(sorted(known))}")
    return {name: value for name, value in {**files.search, **options}.items() if name in known}


def with_other_release(files: ModelFiles) -> None:
    """Say in the log if another release of ESPnet has packed the model than is installed."""
    if files.espnet and files.espnet != version("espnet"):
        logging.warning(
            "%s was packed with ESPnet %s, this is %s: its output may differ",
            files.name,
            files.espnet,
            version("espnet"),
        )


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0] if len(lines[0]) < 300 else f"{lines[0][:140]} ... {lines[0][-140:]}"


def _advice(files: ModelFiles, error: Exception) -> str:
    if files.espnet and files.espnet != version("espnet"):
        return f": it was packed with ESPnet {files.espnet}, this is {version('espnet')}: install that release"
    if isinstance(error, ImportError | AttributeError) or UNKNOWN_CHOICE in str(error):
        return ": does it need a plugin package that is not installed here?"
    return ""
