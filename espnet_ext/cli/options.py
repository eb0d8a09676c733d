"""The options that several commands have. Each is declared here once, so that it means the same everywhere.

Each function makes a decorator for a command. ``what`` is the help text where it depends on the command.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click

from espnet_ext.errors import InputError
from espnet_ext.work.files import is_utf8, printable, refuse_input

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Utf8Path(click.Path):
    """A path whose name can be written into logs, tables and configs.

    What a command writes may not be what it reads or writes elsewhere: it would be replaced.
    """

    name = "path"

    def __init__(self, *, written: bool = False):
        super().__init__(path_type=Path)
        self.written = written

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not is_utf8(value):
            self.fail(f"{printable(value)} is not UTF-8: rename the file or the folder", param, ctx)
        path = cast(Path, super().convert(value, param, ctx))
        if ctx is not None:
            known = ctx.meta.setdefault("espnet_ext.paths", [])
            refuse_input(path, (other for other, written in known if self.written or written))
            known.append((path, self.written))
        return path


PATH = Utf8Path()
WRITTEN = Utf8Path(written=True)
COUNT = click.IntRange(min=1)
CHECKS = ("auto", "header", "full")
UNITS = ("word", "char", "mixed")
CASINGS = ("as-is", "lower", "upper", "sentence")
NBEST_FORMATS = ("auto", "espnet", "kaldi", "nemo", "icefall", "wenet", "whisper", "mlm", "srilm", "jsonl")


def path(
    name: str,
    what: str,
    *,
    metavar: str = "FILE",
    required: bool = False,
    several: bool = False,
    kind: Utf8Path = PATH,
) -> Decorator:
    """Return an option whose value is a file or a folder; with ``several`` it may be repeated."""
    return click.option(name, type=kind, required=required, multiple=several, metavar=metavar, help=what)


def data(what: str, *, several: bool = False) -> Decorator:
    return path("--data", what, metavar="DIR", required=True, several=several)


def output(what: str, *, metavar: str = "DIR", required: bool = True, several: bool = False) -> Decorator:
    return path("--output", what, metavar=metavar, required=required, several=several, kind=WRITTEN)


def config(what: str, *, required: bool = False) -> Decorator:
    return path("--config", what, metavar="YAML", required=required)


def nj(place: str = "nj") -> Decorator:
    return click.option(
        "--nj",
        place,
        type=COUNT,
        default=1,
        show_default=True,
        metavar="N",
        help="Number of processes or cluster jobs.",
    )


def parallel() -> Decorator:
    return path("--parallel", "Run on this cluster; examples are in conf/parallel/.", metavar="YAML")


def ngpu(several: bool = False) -> Decorator:
    kind = click.IntRange(0, None if several else 1)
    return click.option("--ngpu", type=kind, default=0, show_default=True, help="Number of GPUs.")


def processes() -> Decorator:
    """``--nj``, ``--parallel`` and ``--ngpu``: how a command's work is spread."""
    return lambda function: nj()(parallel()(ngpu()(function)))


def seed(default: int | None = 0) -> Decorator:
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=default,
        show_default=True,
        metavar="N",
        help="Seed of random choices.",
    )


def check_audio(default: str | None = "auto") -> Decorator:
    return click.option(
        "--check-audio",
        type=click.Choice(CHECKS),
        default=default,
        show_default=True,
        help="full: decode all audio. header: read headers only. auto: depends on the number of files.",
    )


def _skip_share(context: click.Context, parameter: click.Parameter, value: str) -> float:
    from espnet_ext.corpora.checks import skip_share  # only here: help needs no audio library

    return skip_share(value)


def skip_faulty() -> Decorator:
    """``--skip-faulty [PERCENT]``: a share of each part of a corpus."""
    return click.option(
        "--skip-faulty",
        is_flag=False,
        flag_value="true",
        default="false",
        metavar="[PERCENT]",
        callback=_skip_share,
        help="Leave faulty utterances out, at most this share of each part (2 % if no number is given).",
    )


def model() -> Decorator:
    """``--model-config`` and ``--model``: a model that ESPnet has trained."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = path("--model", "Checkpoint of the model, such as valid.acc.ave.pth.", required=True)(function)
        return path("--model-config", "The config.yaml of the model.", metavar="YAML", required=True)(function)

    return decorate


def references(
    what: str = "References: Kaldi text, trn, STM, SegLST, NeMo ... (detected).", *, required: bool = True
) -> Decorator:
    return path("--ref", what, required=required)


def nbest(what: str = "N-best lists of any decoder (see --format).", *, several: bool = False) -> Decorator:
    return path("--nbest", what, metavar="LISTS", required=True, several=several)


def nbest_format() -> Decorator:
    """``--format`` of N-best lists."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(NBEST_FORMATS),
        default="auto",
        show_default=True,
        help="Toolkit that wrote the lists; auto looks at the files.",
    )


def casing() -> Decorator:
    what = "How text is written for the model.  [default: as saved, or as-is]"
    return click.option("--casing", type=click.Choice(CASINGS), help=what)


def _share(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse a percentage, which is the commonest slip, with the share that it is; and what is no share."""
    if value is not None and 1 < value < 100:
        raise InputError(f"--window-overlap is a share of a window, not {value:g}: {value / 100:g} for {value:g} %")
    if value is not None and not 0 <= value < 1:  # with an overlap of 1, windows would not move
        raise InputError(f"--window-overlap must be a share of a window from 0 to below 1, such as 0.5, not {value:g}")
    return value


def window_overlap(default: float | None = 0.5, most: str = "0.5", says: str = "") -> Decorator:
    return click.option(
        "--window-overlap",
        type=float,
        callback=_share,
        default=default,
        show_default=True,
        metavar="SHARE",
        help=f"Overlap of windows, as a share of a window from 0 to {most}.{says}",
    )


def espnet_options(command: str) -> Decorator:
    """Return all arguments after ``--``, which go to an ESPnet command unchanged; see :func:`check_espnet_options`."""
    return click.argument(
        "options", nargs=-1, type=click.UNPROCESSED, metavar=f"[-- OPTIONS OF {command.upper()}]", required=False
    )


def check_espnet_options(options: Sequence[str]) -> tuple[str, ...]:
    """Refuse arguments that can be no options of ESPnet, such as a second value of an option.

    Raises:
        InputError: the first of them is no option.
    """
    if options and not options[0].startswith("-"):
        raise InputError(
            f"unexpected argument {options[0]}: repeat an option for each of its values; options of ESPnet follow "
            "after --"
        )
    return tuple(options)


def pairs(inputs: Sequence[Path], outputs: Sequence[Path], name: str = "--data") -> list[tuple[Path, Path]]:
    """Return each input with its output.

    Raises:
        InputError: there are more of one than of the other.
    """
    if len(inputs) != len(outputs):
        raise InputError(f"{len(inputs)} {name} and {len(outputs)} --output: give each {name} its own --output")
    return list(zip(inputs, outputs, strict=True))


def settings(config: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a YAML file sets, with the options that the command line has (those that are not None) over it.

    Raises:
        InputError: the file is missing or not YAML.
    """
    from espnet_ext.work.yaml_files import read_yaml

    return {
        **(read_yaml(config) if config else {}),
        **{name: value for name, value in given.items() if value is not None},
    }


def names(value: str) -> list[str]:
    """Return the names of a list that is written with commas.

    >>> names("dev, test,")
    ['dev', 'test']
    """
    return [name.strip() for name in value.split(",") if name.strip()]
