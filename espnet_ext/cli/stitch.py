"""``espnet-ext stitch``: from the hypotheses of windows to transcripts of long recordings, by speaker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.cli.lazy import OrderedGroup

STYLES = ("wc", "wco_wce", "alignment")
METHODS = ("no", "block", "overlapping", "time_aware", *STYLES)


@click.group(cls=OrderedGroup)
def stitch() -> None:
    """Cut recordings into windows, and merge the hypotheses of windows (Chang 2021).

    Hypotheses of any recogniser come as JSONL (.jsonl, a line for each window and speaker) or as CTM (any other name;
    the second column is the index of the window, the eighth the speaker). For CTM, --window and --window-overlap say
    how the recordings were cut.
    """


def _windowing(function: Callable[..., Any]) -> Callable[..., Any]:
    return common.window(16.0)(common.window_overlap()(function))


def _hypotheses(function: Callable[..., Any]) -> Callable[..., Any]:
    """How hypotheses in CTM are read."""
    return click.option(
        "--speaker",
        default="speaker",
        show_default=True,
        metavar="NAME",
        help="Whose words they are, in CTM without speakers.",
    )(_windowing(function))


@stitch.command()
@common.data("Data dir of recordings with reco2dur or utt2dur; repeat it for several.", several=True)
@common.output("The data dir of windows of each --data.", several=True)
@_windowing
def windows(data: tuple[Path, ...], output: tuple[Path, ...], window: float, window_overlap: float) -> None:
    """Write a data dir of the windows of recordings.

    Its utterances are the windows, for a recogniser to decode.
    """
    from espnet_ext.multitalker.windows import Windowing, write_windows

    windowing = Windowing(window, window_overlap)
    for source, target in common.pairs(data, output):
        write_windows(source, target, windowing)


@stitch.command()
@common.path("--hypotheses", "Hypotheses of windows.", required=True)
@common.output("Folder for the text.")
@click.option("--style", type=click.Choice(STYLES), required=True, help="How the text marks windows.")
@common.path("--references", "SegLST (JSON): write the targets too.")
@common.path("--bpemodel", "For alignment: split words into pieces.  [default: words are tokens]")
@_hypotheses
def text(
    hypotheses: Path,
    output: Path,
    style: str,
    references: Path | None,
    bpemodel: Path | None,
    window: float,
    window_overlap: float,
    speaker: str,
) -> None:
    """Write the text to train a stitcher on.

    Writes Kaldi text files of inputs and targets, and stitcher.json, of which the folder of the trained model needs a
    copy.
    """
    from espnet_ext.multitalker.windows import Windowing
    from espnet_ext.stitcher.pairs import make_pairs

    make_pairs(
        hypotheses,
        output,
        style=style,
        references=references,
        bpemodel=bpemodel,
        windowing=Windowing(window, window_overlap),
        speaker=speaker,
    )


@stitch.command()
@common.path("--references", "SegLST (JSON) with times.", required=True)
@common.output("The JSONL file to write.", metavar="FILE")
@_windowing
@common.seed()
def simulate(references: Path, output: Path, window: float, window_overlap: float, seed: int) -> None:
    """Write hypotheses with simulated errors.

    They are what a recogniser might find in recordings whose words and times are known, with more errors near the edges
    of windows. A stitcher can learn from them without a recogniser.
    """
    from espnet_ext.multitalker.windows import Windowing
    from espnet_ext.stitcher.simulated_errors import simulate_hypotheses

    simulate_hypotheses(references, output, windowing=Windowing(window, window_overlap), seed=seed)


@stitch.command()
@common.path("--hypotheses", "Hypotheses of windows; repeat it for several sets.", required=True, several=True)
@common.output("File for the transcripts of each --hypotheses.", metavar="FILE", several=True)
@click.option("--method", type=click.Choice(METHODS), required=True, help="How windows are merged.")
@common.path("--stitcher", "Folder of a trained stitcher, for the methods wc, wco_wce and alignment.", metavar="DIR")
@common.path("--stitcher-file", "Checkpoint of the stitcher.  [default: valid.acc.ave.pth]")
@click.option("--beam-size", type=common.COUNT, default=4, show_default=True, metavar="N", help="Width of the search.")
@click.option("--length-bonus", type=float, default=0.2, show_default=True, help="Score of each token of a transcript.")
@click.option("--batch-size", type=common.COUNT, default=32, show_default=True, metavar="N", help="Texts at once.")
@_hypotheses
@common.ngpu()
def merge(
    hypotheses: tuple[Path, ...],
    output: tuple[Path, ...],
    method: str,
    stitcher: Path | None,
    stitcher_file: Path | None,
    beam_size: int,
    length_bonus: float,
    batch_size: int,
    window: float,
    window_overlap: float,
    speaker: str,
    ngpu: int,
) -> None:
    """Merge the hypotheses of windows into transcripts.

    Writes the transcript of each speaker and recording as SegLST (JSON). Windows are joined one after the other
    (block), by P4's overlapping inference (overlapping), by the times of their words (time_aware), or by a trained
    stitcher (wc, wco_wce, alignment). With no, a recording is a single window.
    """
    from espnet_ext.multitalker.windows import Windowing
    from espnet_ext.stitcher.inference import StitcherOptions, merge_windows

    device = "cuda" if ngpu else "cpu"
    trained = None
    if stitcher:
        trained = StitcherOptions(stitcher, stitcher_file, beam_size, length_bonus, batch_size, device)
    merge_windows(hypotheses, output, method, trained, windowing=Windowing(window, window_overlap), speaker=speaker)
