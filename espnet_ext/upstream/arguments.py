"""Arguments of ESPnet's commands that are refused.

With them it would end in a traceback, or decode with random parameters.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from espnet2.utils import config_argparse

from espnet_ext.errors import InputError
from espnet_ext.registry import find_missing_package
from espnet_ext.upstream.checkpoint import (
    list_misfits,
    load_parameters,
    read_shapes,
    split_init_param,
)
from espnet_ext.upstream.config_values import check_config_file, check_ranges
from espnet_ext.work.files import atomic_write
from espnet_ext.work.settings import POWER

# A config and the checkpoint without which the model of the config has random
# parameters.
HALVES = {
    "asr_train_config": "asr_model_file",
    "mt_train_config": "mt_model_file",
    "lm_train_config": "lm_file",
}
SHOWN = 8


@contextmanager
def checked_arguments() -> Iterator[None]:
    """In this block, let ESPnet's parsers refuse bad arguments in one line.

    A training that cannot resume leaves ``config.yaml`` as it was: ESPnet writes it
    before it reads the checkpoint.
    """
    kept: list[Callable[[], None]] = []
    parse = config_argparse.ArgumentParser.parse_args

    def parse_and_check(
        parser: ArgumentParser,
        *args: Any,
        **options: Any,
    ) -> Namespace:
        words = args[0] if args else options.get("args")
        check_config_file(parser, sys.argv[1:] if words is None else words)
        with patch.object(ArgumentParser, "error", partial(_refuse, parser)):
            found = parse(parser, *args, **options)
        check_arguments(found)
        if getattr(found, "resume", False) and found.output_dir:
            kept.append(_make_restorer(Path(found.output_dir)))
        return found

    with patch.object(config_argparse.ArgumentParser, "parse_args", parse_and_check):
        try:
            yield
        except BaseException:
            for restore in kept:
                restore()
            raise


def _refuse(parser: ArgumentParser, message: str) -> NoReturn:
    """Raise what argparse would print below the usage, which is 130 lines long.

    An unknown option is named with the one that may be meant.
    """
    _, unknown, rest = message.partition("unrecognized arguments: ")
    if unknown:
        option = rest.split()[0].lstrip("-")
        known = [action.dest for action in parser._actions]
        near = get_close_matches(option, known, n=1)
        if near:
            message += f": is {near[0]} meant?"
    raise InputError(message)


def _make_restorer(folder: Path) -> Callable[[], None]:
    """Return a function that writes a training's config back as it is now.

    It does so only if no epoch has ended since: then the new config is that of a model.
    """
    config = folder / "config.yaml"
    checkpoint = folder / "checkpoint.pth"
    content = config.read_bytes() if config.is_file() else None

    def read_time() -> int:
        return checkpoint.stat().st_mtime_ns if checkpoint.is_file() else 0

    before = read_time()

    def restore() -> None:
        if content is None or read_time() != before:
            return
        if config.read_bytes() != content:
            with atomic_write(config, "wb") as file:
                file.write(content)

    return restore


def check_arguments(args: Namespace) -> None:
    """Refuse arguments that are out of range, half a model, or need a missing package.

    Those of a command that collects statistics are changed: it goes without
    normalisation, which needs them.
    """
    given = vars(args)
    check_ranges(given)
    for name, options in given.items():
        if name.endswith("_conf"):
            _refuse_texts(options, name)
    for config, file in HALVES.items():
        if given.get(config) and not given.get(file):
            raise InputError(
                f"{config} without {file}: the model would have random "
                "parameters: give both"
            )
    if given.get("lm_file") and not given.get("lm_train_config"):
        raise InputError(
            "lm_file without lm_train_config: the language model would not be "
            "used: give both"
        )
    package = find_missing_package(given)
    if package:
        raise InputError(package)
    for init_param in given.get("init_param") or ():
        path = split_init_param(init_param)[0]
        if not Path(path).is_file():
            raise InputError(
                f"init_param: {path}: no such file: train the model first, or check "
                "the path"
            )
    if given.get("collect_stats") and "normalize" in given:
        args.normalize = None
        args.normalize_conf = {}


def _refuse_texts(value: Any, place: str) -> None:
    """Refuse text that is meant as a number."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            _refuse_texts(each, f"{place}: {name}")
    elif isinstance(value, str) and POWER.fullmatch(value):
        raise InputError(
            f"{place} is {value!r}, which YAML reads as text: write it with a "
            "point, such as 1.0e-3"
        )


def check_init_param(init_param: str, model: Any, ignore_mismatch: bool) -> None:
    """Refuse ``--init_param FILE[:FROM[:TO[:EXCLUDED]]]`` if it would load nothing.

    ESPnet would say nothing. Refused are a file or module that is not there, nothing to
    load, and parameters that do not fit.
    """
    path, source, target, excluded = split_init_param(init_param)
    every = read_shapes(load_parameters(path, "meta"))
    try:
        module = model.get_submodule(target)
    except AttributeError:
        names = ", ".join(name for name, _ in model.named_children())
        raise InputError(
            f"--init_param {init_param}: the model has no module {target!r}: it "
            f"has {names}"
        ) from None
    wanted = read_shapes(module.state_dict())
    # As in ESPnet's load_pretrained_model, EXCLUDED are beginnings of names in FILE,
    # and what is left loses the name of FROM.
    start = f"{source}." if source else ""
    left_out = tuple(excluded.split(",")) if excluded else ()
    found = {}
    for name, shape in every.items():
        if name.startswith(start) and not name.startswith(left_out):
            found[name.removeprefix(start)] = shape
    if not found:
        modules = list(dict.fromkeys(name.partition(".")[0] for name in every))
        raise InputError(
            f"--init_param {init_param}: {path} has no parameters of {source!r}: "
            f"it has {', '.join(modules[:SHOWN])}"
        )
    fitting = {name for name, shape in found.items() if wanted.get(name) == shape}
    if not fitting or (not ignore_mismatch and len(fitting) < len(found)):
        # A part of the module may keep its own values: what FILE lacks is no fault.
        reached = {name: wanted[name] for name in found if name in wanted}
        faults = list_misfits(found, reached)
        raise InputError(f"--init_param {init_param}: does not fit the model: {faults}")


def check_initial_parameters() -> None:
    """Make ESPnet's trainings check ``--init_param``.

    Calling it again changes nothing.
    """
    from espnet2.tasks import abs_task
    from espnet2.torch_utils.load_pretrained_model import load_pretrained_model

    def load(
        init_param: str,
        model: Any,
        ignore_init_mismatch: bool,
        map_location: str = "cpu",
    ) -> None:
        check_init_param(init_param, model, ignore_init_mismatch)
        load_pretrained_model(init_param, model, ignore_init_mismatch, map_location)

    abs_task.load_pretrained_model = load
