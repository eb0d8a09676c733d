"""``espnet-ext data``: corpora and Kaldi data dirs."""

from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.errors import InputError

CORPORA = (
    "librispeech",
    "asru2019",
    "libricss",
    "spotify",
    "tedlium",
    "earnings22",
    "rev16",
)
CHECKS = ("auto", "header", "full")


@click.group(cls=common.OrderedGroup)
def data() -> None:
    """Prepare corpora; check, fix and combine Kaldi data dirs."""


@data.command()
@click.argument("corpus", type=click.Choice(CORPORA))
@click.option(
    "--corpus",
    "corpus_dir",
    type=common.PATH,
    required=True,
    metavar="DIR",
    help="Folder of the corpus.",
)
@click.option(
    "--output",
    "output_dir",
    type=common.WRITTEN,
    required=True,
    metavar="DIR",
    help="Folder of the data dirs.",
)
@click.option(
    "--parts",
    default="",
    metavar="A,B",
    callback=lambda context, option, value: common.split_names(value),
    help="Parts of the corpus.  [default: those that are there]",
)
@click.option(
    "--skip-faulty",
    is_flag=False,
    flag_value="true",
    default="false",
    metavar="[PERCENT]",
    help=(
        "Leave faulty utterances out, at most this share of each part (2 % if no "
        "number is given)."
    ),
)
@common.choice(
    "--check-audio",
    CHECKS,
    "full: decode all. header: read headers only. auto: by the number of files.",
)
@common.nj("num_jobs")
def prepare(corpus: str, parts: list[str], skip_faulty: str, **options: Any) -> None:
    """Check a corpus and write a Kaldi data dir of each part.

    If there is a fault in the corpus, all faults are written to a file in --output, and
    nothing else. With --skip-faulty the data dirs are made without the faulty
    utterances. The page of the corpus's recipe, and the docstring of its module in
    espnet_ext/corpora, describe the layout.
    """
    from espnet_ext.corpora.checks import read_skip_share

    module = import_module(f"espnet_ext.corpora.{corpus}")
    function = getattr(module, f"prepare_{corpus}")
    if parts:
        if "parts" not in signature(function).parameters:
            raise InputError(f"--parts: {corpus} has one part")
        options["parts"] = parts
    function(**options, skip_faulty=read_skip_share(skip_faulty))


@data.command()
@click.option(
    "--audio", is_flag=True, help="Decode each audio file and look at its samples."
)
@click.option(
    "--rate",
    type=common.COUNT,
    metavar="HZ",
    help="Sampling rate that the audio must have.",
)
@click.option(
    "--no-text",
    "require_text",
    flag_value=False,
    default=True,
    help="Accept a data dir without text.",
)
@click.option(
    "--no-wav",
    "files",
    flag_value=False,
    default=True,
    help="Do not look for the audio files.",
)
@click.option(
    "--no-spk-sort",
    "speaker_order",
    flag_value=False,
    default=True,
    help="Accept ids that begin otherwise.",
)
@click.option(
    "--non-print",
    is_flag=True,
    help="Accept characters in text that cannot be printed.",
)
@click.option(
    "--no-feats",
    is_flag=True,
    expose_value=False,
    help="Accepted as Kaldi's; no effect.",
)
@click.argument("folder", type=common.PATH, metavar="DIR")
def validate(folder: Path, **checks: Any) -> None:
    """Find faults in a data dir, by file and utterance.

    The exit status is 1 if there are any.
    """
    from espnet_ext.kaldi.checks import validate_data_dir

    # The faults are printed: there is nothing left to say.
    if not validate_data_dir(folder, **checks):
        raise click.exceptions.Exit(1)


@data.command()
@click.argument("folder", type=common.PATH, metavar="DIR")
def fix(folder: Path) -> None:
    """Drop incomplete utterances from a data dir, and sort it.

    The original files go to DIR/.backup.
    """
    from espnet_ext.kaldi.checks import fix_data_dir

    fix_data_dir(folder)


@data.command()
@click.option(
    "--suffix-source", is_flag=True, help="Append the name of its source to each id."
)
@click.argument("destination", type=common.WRITTEN, metavar="DEST")
@click.argument(
    "sources", type=common.PATH, nargs=-1, required=True, metavar="SOURCE..."
)
def combine(suffix_source: bool, destination: Path, sources: tuple[Path, ...]) -> None:
    """Put data dirs together."""
    from espnet_ext.kaldi.parts import combine_data_dirs

    combine_data_dirs(destination, sources, suffix_source=suffix_source)
