"""``espnet-ext data prepare`` and ``espnet-ext data download``: corpora."""

import ast
import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.cli.lazy import OrderedGroup

LIBRISPEECH_PARTS = (
    "train-clean-100", "train-clean-360", "train-other-500", "dev-clean", "dev-other", "test-clean", "test-other",
)  # fmt: skip

# What the package's texts call P1 to P5, for a reader who has only the help.
PAPERS = {
    "P1": "Zhang 2022",
    "P2": "Kim 2020",
    "P3": "Shivakumar 2023",
    "P4": "Chang 2021",
    "P5": "Flynn and Ragni 2024",
}


class CorpusCommand(click.Command):
    """A command whose help ends with the docstring of the corpus's module, which describes the layout."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        text = _docstring(f"espnet_ext.corpora.{self.name}").replace("``", "").replace("::\n", ":\n")
        with formatter.indentation():
            for line in text.splitlines():
                formatter.write(f"{'':>{formatter.current_indent}}{line}".rstrip() + "\n")


def _docstring(module: str) -> str:
    """Read the docstring of a module, which is not imported: that would take longer than all the rest of the help."""
    spec = find_spec(module)
    assert spec and spec.origin
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return re.sub(r"\bP[1-5]\b", lambda found: PAPERS[found[0]], text)


@click.group(cls=OrderedGroup)
def prepare() -> None:
    """Check a corpus and write a Kaldi data dir of each part.

    If there is a fault in the corpus, all faults are written to a file in --output, and nothing else.
    With --skip-faulty the data dirs are made without the faulty utterances.
    """


def _corpus(name: str, what: str, *own: Callable[..., Any], check_audio: bool = True) -> None:
    """Add the command of a corpus: its own options, and those that most have, by their names in ``prepare_<name>``."""

    def call(**options: Any) -> None:
        getattr(import_module(f"espnet_ext.corpora.{name}"), f"prepare_{name}")(**options)

    common_options = [
        click.option(name, place, type=common.PATH, required=True, metavar="DIR", help=what)
        for name, place, what in (
            ("--corpus", "corpus_dir", "Folder of the corpus."),
            ("--output", "output_dir", "Folder of the data dirs."),
        )
    ]
    checks = [common.check_audio(), common.nj("num_jobs")] if check_audio else []
    function: Callable[..., Any] = call
    for option in reversed([*common_options, common.skip_faulty(), *checks, *own]):
        function = option(function)
    prepare.command(name, cls=CorpusCommand, help=what)(function)


def _parts(default: str | None = None) -> Callable[..., Any]:
    return click.option(
        "--parts",
        default=default,
        metavar="A,B",
        callback=lambda context, option, value: value and common.names(value),
        help=f"Parts of the corpus.  [default: {default or 'those that are there'}]",
    )


def _folders(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    for value in values:
        if not value.partition("=")[2]:
            raise click.BadParameter(f"{value} is not PART=DIR")
    return {part: folder for part, _, folder in (value.partition("=") for value in values)}


_corpus("librispeech", "Prepare a corpus in the layout of LibriSpeech.", _parts())
_corpus(
    "asru2019",
    "Prepare the ASRU 2019 code-switching corpus.\n\nIt comes with 460 hours of LibriSpeech.",
    _parts(),
    click.option(
        "--librispeech",
        "librispeech_dir",
        type=common.PATH,
        metavar="DIR",
        help="Folder of LibriSpeech.  [default: LibriSpeech in --corpus, if it is there]",
    ),
    click.option(
        "--folder",
        "folders",
        multiple=True,
        callback=_folders,
        metavar="PART=DIR",
        help="Folder of a part that has another name or place; repeat it for several.",
    ),
    click.option(
        "--layout",
        default="asru2019",
        show_default=True,
        metavar="NAME",
        help="Whose layout --corpus has: asru2019, talcs, seame or ascend.",
    ),
    click.option(
        "--mandarin",
        "mandarin_dir",
        type=common.PATH,
        metavar="DIR",
        help="Mandarin part: AISHELL-1, aidatatang_200zh or another folder.",
    ),
    click.option("--allow-pipes", is_flag=True, help="Run the commands in wav.scp of Kaldi data dirs."),
)
_corpus(
    "libricss",
    "Prepare the first channel of LibriCSS.\n\n"
    "Writes the recordings cut at silences, with references by speaker, into segments/.",
    common.path(
        "--enrolment-list",
        "The file libricss_speaker_info.jsonl: write each session's enrolment utterances and inventory too.",
    ),
    check_audio=False,
)
_corpus(
    "spotify",
    "Prepare the Spotify podcasts.",
    click.option("--part", default="train", show_default=True, metavar="NAME", help="Name of the part."),
)
_corpus("tedlium", "Prepare TED-LIUM 3 as whole talks.", _parts("dev,test"))
_corpus("earnings22", "Prepare Earnings-22.")
_corpus("rev16", "Prepare Rev16.")


@click.command()
@click.argument("corpus", type=click.Choice(["librispeech"]))
@common.output("Folder for the archives, and for the corpus in LibriSpeech/.")
@_parts(",".join(LIBRISPEECH_PARTS))
@click.option("--lm-text/--no-lm-text", default=True, help="Download the text for language models too (1.5 GB).")
def download(corpus: str, output: Path, parts: list[str], lm_text: bool) -> None:
    """Download a corpus, or resume a download.

    Archives are checked against their published checksums.
    """
    from espnet_ext.corpora.librispeech import download_librispeech

    click.echo(f"corpus in {download_librispeech(output, parts, lm_text=lm_text)}")
