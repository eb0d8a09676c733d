"""``espnet-ext data prepare`` and ``espnet-ext data download``: corpora."""

import ast
import re
from collections.abc import Callable
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
        with formatter.indentation():
            for line in (
                _docstring(f"espnet_ext.corpora.{self.name}").replace("``", "").replace("::\n", ":\n").splitlines()
            ):
                formatter.write(f"{'':>{formatter.current_indent}}{line}".rstrip() + "\n")


def _docstring(module: str) -> str:
    """The docstring of a module, which is not imported: that would take longer than all the rest of the help."""
    spec = find_spec(module)
    assert spec and spec.origin
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return re.sub(r"\bP[1-5]\b", lambda found: PAPERS[found[0]], text)


@click.group(cls=OrderedGroup)
def prepare() -> None:
    """Check a corpus and write its Lhotse manifests.

    If there is a fault in the corpus, all faults are written to a file in --output, and nothing else.
    With --skip-faulty the manifests are made without the faulty utterances.
    """


def _corpus(check_audio: bool = True) -> Callable[[Callable[..., Any]], click.Command]:
    """A command for a corpus, with the options that most of them have, by the names that ``prepare_*`` gives them."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        if check_audio:
            function = common.check_audio()(common.nj("num_jobs")(function))
        function = common.skip_faulty()(function)
        for name, place, what in (
            ("--output", "output_dir", "Folder for the manifests."),
            ("--corpus", "corpus_dir", "Folder of the corpus."),
        ):
            function = click.option(name, place, type=common.PATH, required=True, metavar="DIR", help=what)(function)
        return prepare.command(cls=CorpusCommand)(function)

    return decorate


def _parts(default: str | None = None) -> Callable[..., Any]:
    return click.option(
        "--parts",
        default=default,
        metavar="A,B",
        callback=lambda context, option, value: value and common.names(value),
        help=f"Parts of the corpus.  [default: {default or 'those that are there'}]",
    )


@_corpus()
@_parts()
def librispeech(**options: Any) -> None:
    """Prepare a corpus in the layout of LibriSpeech."""
    from espnet_ext.corpora.librispeech import prepare_librispeech

    prepare_librispeech(**options)


def _folders(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    for value in values:
        if not value.partition("=")[2]:
            raise click.BadParameter(f"{value} is not PART=DIR")
    return {part: folder for part, _, folder in (value.partition("=") for value in values)}


@_corpus()
@_parts()
@click.option(
    "--librispeech",
    "librispeech_dir",
    type=common.PATH,
    metavar="DIR",
    help="Folder of LibriSpeech.  [default: LibriSpeech in --corpus, if it is there]",
)
@click.option(
    "--folder",
    "folders",
    multiple=True,
    callback=_folders,
    metavar="PART=DIR",
    help="Folder of a part that has another name or place; repeat it for several.",
)
@click.option(
    "--layout",
    default="asru2019",
    show_default=True,
    metavar="NAME",
    help="Whose layout --corpus has: asru2019, talcs, seame or ascend.",
)
@click.option(
    "--mandarin",
    "mandarin_dir",
    type=common.PATH,
    metavar="DIR",
    help="Mandarin part: AISHELL-1, aidatatang_200zh or another folder.",
)
@click.option("--allow-pipes", is_flag=True, help="Run the commands in wav.scp of Kaldi data dirs.")
def asru2019(**options: Any) -> None:
    """Prepare the ASRU 2019 code-switching corpus.

    It comes with 460 hours of LibriSpeech.
    """
    from espnet_ext.corpora.asru2019 import prepare_asru2019

    prepare_asru2019(**options)


@_corpus(check_audio=False)
@common.path(
    "--enrolment-list",
    "The file libricss_speaker_info.jsonl: write each session's enrolment utterances and inventory into segments/ too.",
)
@click.option(
    "--utterances",
    type=common.COUNT,
    default=2,
    show_default=True,
    metavar="N",
    help="Enrolment utterances per speaker.",
)
def libricss(**options: Any) -> None:
    """Prepare the first channel of LibriCSS.

    Writes the recordings cut at silences, with references by speaker, into segments/.
    """
    from espnet_ext.corpora.libricss import prepare_libricss

    prepare_libricss(**options)


@_corpus()
@click.option(
    "--part", default="train", show_default=True, metavar="NAME", help="Name of the part in the files' names."
)
def spotify(**options: Any) -> None:
    """Prepare the Spotify podcasts."""
    from espnet_ext.corpora.spotify import prepare_spotify

    prepare_spotify(**options)


@_corpus()
@_parts("dev,test")
def tedlium(**options: Any) -> None:
    """Prepare TED-LIUM 3 as whole talks."""
    from espnet_ext.corpora.tedlium import prepare_tedlium

    prepare_tedlium(**options)


@_corpus()
def earnings22(**options: Any) -> None:
    """Prepare Earnings-22."""
    from espnet_ext.corpora.earnings22 import prepare_earnings22

    prepare_earnings22(**options)


@_corpus()
def rev16(**options: Any) -> None:
    """Prepare Rev16."""
    from espnet_ext.corpora.rev16 import prepare_rev16

    prepare_rev16(**options)


@click.command()
@click.argument("corpus", type=click.Choice(["librispeech"]))
@common.output("Folder for the archives, and for the corpus in LibriSpeech/.")
@_parts(",".join(LIBRISPEECH_PARTS))
@click.option("--lm-text/--no-lm-text", default=True, help="Download the text for language models too (1.5 GB).")
@click.option("--base-url", metavar="URL", help="Address of a mirror.")
def download(corpus: str, output: Path, parts: list[str], lm_text: bool, base_url: str | None) -> None:
    """Download a corpus, or resume a download.

    Archives are checked against their published checksums.
    """
    from espnet_ext.corpora.librispeech import BASE_URL, download_librispeech

    folder = download_librispeech(output, parts, lm_text=lm_text, base_url=base_url or BASE_URL)
    click.echo(f"corpus in {folder}")
