"""Declare the options that several commands have, so that each means the same in all.

Each function makes a decorator for a command. ``what`` is the help text where it
depends on the command.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click

from espnet_ext.errors import InputError, escape_controls
from espnet_ext.work.files import expand_home, is_utf8, refuse_input

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class OrderedGroup(click.Group):
    """A group that lists its commands in the order in which they are defined."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class Utf8Path(click.Path):
    """A path that can be written into logs and configs.

    What a command writes may not be another path of it. What it reads may be a pipe, or
    ``-`` for standard input.
    """

    name = "path"

    def __init__(self, *, written: bool = False):
        super().__init__(path_type=Path)
        self.written = written

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        if not is_utf8(value):
            self.fail(
                f"{escape_controls(str(value))} is not UTF-8: rename the file or "
                "the folder",
                param,
                ctx,
            )
        path = expand_home(cast(Path, super().convert(value, param, ctx)))
        # Outside of a command line there are no other paths.
        if ctx is None:
            return path
        if not self.written:
            path = spool_pipe(path, ctx)
        # Two paths to read may be the same, but none that is written may be any other.
        known = ctx.meta.setdefault("espnet_ext.paths", [])
        others = [other for other, written in known if self.written or written]
        refuse_input(path, others)
        known.append((path, self.written))
        return path


def spool_pipe(path: Path, context: click.Context) -> Path:
    """Copy a pipe into a file, and return that; other paths are returned as they are.

    ``-`` is standard input. The file lives as long as the command. Raises InputError:
    more than ``MOST_SPOOLED`` bytes, which may have no end.
    """
    # A pipe can be read once, but formats are detected before they are read.
    if str(path) == "-":
        path = Path("/dev/stdin")
    if not (path.is_fifo() or path.is_char_device() or path.is_socket()):
        return path
    folder = context.with_resource(tempfile.TemporaryDirectory(prefix="espnet_ext."))
    copy = Path(folder) / path.name
    with open(path, "rb") as pipe, open(copy, "wb") as file:
        while data := pipe.read(1 << 20):
            file.write(data)
            if file.tell() > MOST_SPOOLED:
                raise InputError(
                    f"{path}: more than {MOST_SPOOLED >> 30} GB from a pipe: write "
                    "it to a file"
                )
    return copy


PATH = Utf8Path()
WRITTEN = Utf8Path(written=True)
MOST_SPOOLED = 4 << 30  # bytes of a pipe
COUNT = click.IntRange(min=1)
CASINGS = ("as-is", "lower", "upper", "sentence")


def path(
    name: str,
    what: str,
    *,
    several: bool = False,
    kind: Utf8Path = PATH,
    **options: Any,
) -> Decorator:
    """Return an option whose value is a file or a folder.

    With ``several`` it may be repeated.
    """
    options.setdefault("metavar", "FILE")
    return click.option(name, type=kind, multiple=several, help=what, **options)


def data(what: str, *, several: bool = False) -> Decorator:
    return path("--data", what, metavar="DIR", required=True, several=several)


def output(
    what: str, *, metavar: str = "DIR", required: bool = True, several: bool = False
) -> Decorator:
    return path(
        "--output",
        what,
        metavar=metavar,
        required=required,
        several=several,
        kind=WRITTEN,
    )


def config(what: str, *, required: bool = False) -> Decorator:
    return path("--config", what, metavar="YAML", required=required)


def choice(
    name: str, values: Sequence[str], what: str, *declared: str, default: Any = 0
) -> Decorator:
    """Return an option with some values, of which the first is the default.

    ``default`` may be another one, or None for an option that may be left out.
    """
    # 0 stands for no argument, since None is a default, too.
    default = values[0] if default == 0 else default
    return click.option(
        name,
        *declared,
        type=click.Choice(values),
        default=default,
        show_default=True,
        help=what,
    )


def nj(place: str = "nj") -> Decorator:
    what = "Number of processes or cluster jobs."
    return click.option(
        "--nj", place, type=COUNT, default=1, show_default=True, metavar="N", help=what
    )


def ngpu(several: bool = False) -> Decorator:
    kind = click.IntRange(0, None if several else 1)
    return click.option(
        "--ngpu", type=kind, default=0, show_default=True, help="Number of GPUs."
    )


def processes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--nj``, ``--parallel`` and ``--ngpu``: how a command's work is spread."""
    parallel = path(
        "--parallel",
        "Run on this cluster; examples are in conf/parallel/.",
        metavar="YAML",
    )
    return nj()(parallel(ngpu()(function)))


def model(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--model-config`` and ``--model``: a model that ESPnet has trained."""
    function = path(
        "--model", "Checkpoint of the model, such as valid.acc.ave.pth.", required=True
    )(function)
    return path(
        "--model-config", "The config.yaml of the model.", metavar="YAML", required=True
    )(function)


def references(
    what: str = "References: Kaldi text, trn, STM, SegLST, NeMo ... (detected).",
    *,
    required: bool = True,
) -> Decorator:
    return path("--ref", what, required=required)


FORMATS = (
    "auto",
    "kaldi",
    "trn",
    "stm",
    "ctm",
    "rttm",
    "seglst",
    "whisper",
    "srt",
    "vtt",
    "nemo",
    "windows",
)
reference_format = choice(
    "--ref-format", FORMATS, "Format of the references.", "reference_form"
)


def nbest(
    what: str = "N-best lists of any decoder (see --format).", *, several: bool = False
) -> Decorator:
    return path("--nbest", what, metavar="LISTS", required=True, several=several)


def _parse_parts(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> dict[str, float]:
    """Parse the weights of the parts of a first pass, none if its total is used."""
    from espnet_ext.nbest.selection import parse_parts

    if value is None:
        return {}
    try:
        return parse_parts(value)
    except InputError as error:
        raise click.BadParameter(str(error)) from None


depth = click.option(
    "--depth",
    type=COUNT,
    metavar="N",
    help="Use the best N texts of each list.  [default: all]",
)


def selection(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--first-pass`` and ``--depth``: which hypotheses, by which score."""
    parts = click.option(
        "--first-pass",
        "parts",
        callback=_parse_parts,
        metavar="NAME=X,...",
        help=(
            "Rank lists by these parts of the first pass, weighted, such as "
            "decoder=.6,ctc=.4.  [default: by the total score]"
        ),
    )
    return parts(depth(function))


casing = choice(
    "--casing",
    CASINGS,
    "How text is written for the model.  [default: as saved, or as-is]",
    default=None,
)


def _check_share(
    context: click.Context, parameter: click.Parameter, value: float | None
) -> float | None:
    """Refuse what is no share, and a percentage with the share that it is."""
    if value is None:
        return None
    # A percentage is the commonest slip.
    if 1 < value < 100:
        raise InputError(
            f"--window-overlap is a share of a window, not {value:g}: "
            f"{value / 100:g} for {value:g} %"
        )
    # With an overlap of 1, windows would not move.
    if not 0 <= value < 1:
        raise InputError(
            "--window-overlap must be a share of a window from 0 to below 1, "
            f"such as 0.5, not {value:g}"
        )
    return value


def window_overlap(
    default: float | None = 0.5, most: str = "0.5", says: str = ""
) -> Decorator:
    return click.option(
        "--window-overlap",
        type=float,
        callback=_check_share,
        default=default,
        show_default=True,
        metavar="SHARE",
        help=f"Overlap of windows, as a share of a window from 0 to {most}.{says}",
    )


def pair_outputs(
    data: Sequence[Path], outputs: Sequence[Path]
) -> list[tuple[Path, Path]]:
    """Pair each data dir with its output; InputError if they are not as many."""
    if len(data) != len(outputs):
        raise InputError(
            f"{len(data)} --data and {len(outputs)} --output: give each --data "
            "its own --output"
        )
    return list(zip(data, outputs, strict=True))


def merge_settings(config: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a YAML file sets, with the options of the command line over it.

    Those that are None were not given.
    """
    from espnet_ext.work.yaml_files import read_yaml

    values = read_yaml(config) if config else {}
    return values | {name: value for name, value in given.items() if value is not None}


def split_names(value: str) -> list[str]:
    """Split a list that is written with commas into names."""
    return [name.strip() for name in value.split(",") if name.strip()]
