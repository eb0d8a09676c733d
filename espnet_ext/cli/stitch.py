"""``espnet-ext stitch``: from the hypotheses of windows to transcripts of long recordings, by speaker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.cli.lazy import OrderedGroup
from espnet_ext.errors import InputError

STYLES = ("wc", "wco_wce", "alignment")
HYPOTHESES = (".json", ".jsonl", ".ctm", ".rttm")
METHODS = ("no", "block", "overlapping", "time_aware", *STYLES)


class StitchGroup(OrderedGroup):
    """A group whose command ``join`` may be left out: ``espnet-ext stitch long.json``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        named = args[0] not in self.commands and Path(args[0]).suffix in HYPOTHESES
        return super().resolve_command(ctx, ["join", *args] if named else args)


@click.group(cls=StitchGroup)
def stitch() -> None:
    """Join what a recogniser wrote of windows; train and use stitchers (Chang 2021).

    Hypotheses of any recogniser: Whisper's, WhisperX's and transformers' JSON, SegLST (.json), CTM of Kaldi and NeMo
    (.ctm), RTTM with LEXEME lines (.rttm), or ours (.jsonl, a line for each window and speaker).
    """


def _windowing(function: Callable[..., Any]) -> Callable[..., Any]:
    return common.window(16.0)(common.window_overlap()(function))


def _hypotheses(function: Callable[..., Any]) -> Callable[..., Any]:
    """How hypotheses of other recognisers are read."""
    segments = common.path("--segments", "Kaldi segments of the windows, which the files name as utterances.")
    return click.option(
        "--speaker",
        default="speaker",
        show_default=True,
        metavar="NAME",
        help="Whose words they are, if nobody is named.",
    )(segments(function))


def _guard(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--guard",
        metavar="EDITS",
        help="Keep a stitched transcript only up to so many edits a word from the time-aware merge; off: keep all.  "
        "[default: guard.json in the stitcher's folder]",
    )(function)


def _limit(guard: str | None, folder: Path) -> float | None:
    from espnet_ext.stitcher.guard import read_guard

    if guard is None:
        return read_guard(folder)
    try:
        limit = None if guard == "off" else float(guard)
    except ValueError:
        limit = -1.0
    if limit is not None and not 0 <= limit < float("inf"):
        raise InputError(f"--guard {guard}: give a number of edits a word, such as 0.3, or off")
    return limit


def _refuse_guard_alone(guard: str | None, stitcher: Path | None) -> None:
    if guard is not None and stitcher is None:
        raise InputError(
            "--guard limits what a stitcher may change: give its folder with --stitcher, or leave out --guard"
        )


@stitch.command()
@click.argument("files", nargs=-1, type=common.PATH, required=True, metavar="FILE...")
@common.path(
    "--stitcher", "Folder of a trained stitcher that merges the windows.  [default: merge by time]", metavar="DIR"
)
@_guard
@click.option("--output", type=common.PATH, metavar="FILE", help="A .json (SegLST), .ctm, .txt, .srt or .vtt file.")
@_hypotheses
def join(
    files: tuple[Path, ...],
    stitcher: Path | None,
    guard: str | None,
    output: Path | None,
    segments: Path | None,
    speaker: str,
) -> None:
    """Join what a recogniser wrote of windows.

    They are merged by the times of their words, and may overlap by any share, or not at all. No model is needed. Prints
    the transcript, with times and speakers. The word `join` may be left out before a file.

    A JSON object says `start` and `end` of its window in seconds, or `offset` and `duration` if its times begin with
    the window; and `recording`, if files of other names hold windows of the same recording. For CTM and RTTM, and for
    JSON without these, --segments says where the windows are. Windows that are missing are warned of.
    """
    from espnet_ext.stitcher.inference import StitcherOptions, join_windows

    _refuse_guard_alone(guard, stitcher)
    trained = StitcherOptions(stitcher, guard=_limit(guard, stitcher)) if stitcher else None
    join_windows(files, output, trained, segments=segments, speaker=speaker)


@stitch.command()
@common.data("Data dir of recordings: wav.scp, utt2spk, and reco2dur or utt2dur; repeat it for several.", several=True)
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
@click.option(
    "--stretch", type=common.COUNT, metavar="N", help="Cut texts of more words and symbols.  [default: they stay whole]"
)
@_hypotheses
def text(
    hypotheses: Path,
    output: Path,
    style: str,
    references: Path | None,
    bpemodel: Path | None,
    stretch: int | None,
    segments: Path | None,
    speaker: str,
) -> None:
    """Write the text to train a stitcher on.

    Writes Kaldi text files of inputs and targets, and stitcher.json, of which the folder of the trained model needs a
    copy.
    """
    from espnet_ext.stitcher.pairs import make_pairs

    make_pairs(
        hypotheses,
        output,
        style=style,
        references=references,
        bpemodel=bpemodel,
        segments=segments,
        speaker=speaker,
        stretch=stretch,
    )


@stitch.command()
@common.path("--references", "SegLST (JSON) with times.", required=True)
@common.output("The JSONL file to write.", metavar="FILE")
@common.path("--errors", "What `stitch fit` wrote of a recogniser.  [default: errors that were chosen]")
@_windowing
@common.seed()
def simulate(
    references: Path, output: Path, errors: Path | None, window: float, window_overlap: float, seed: int
) -> None:
    """Write hypotheses with simulated errors.

    They are what a recogniser might find in recordings whose words and times are known, with more errors near the edges
    of windows. A stitcher can learn from them without a recogniser.
    """
    from espnet_ext.multitalker.windows import Windowing
    from espnet_ext.stitcher.simulated_errors import simulate_hypotheses

    simulate_hypotheses(references, output, windowing=Windowing(window, window_overlap), seed=seed, errors=errors)


@stitch.command()
@common.path("--hypotheses", "Hypotheses of windows.", required=True)
@common.path("--references", "SegLST (JSON) with times.", required=True)
@common.output("The JSON file to write, for `stitch simulate --errors`.", metavar="FILE")
@_hypotheses
@common.seed()
def fit(hypotheses: Path, references: Path, output: Path, segments: Path | None, speaker: str, seed: int) -> None:
    """Fit simulated errors to a recogniser.

    Counts its errors by distance from an edge, overlap, word and window, and the utterances of wrong speakers.
    Simulates the same recordings, and prints the statistics of both.
    """
    from espnet_ext.stitcher.error_statistics import fit_and_check

    fit_and_check(hypotheses, references, output, segments, speaker, seed)


@stitch.command()
@common.path("--hypotheses", "Hypotheses of windows; repeat it for several sets.", required=True, several=True)
@common.output("File for the transcripts of each --hypotheses.", metavar="FILE", several=True)
@click.option("--method", type=click.Choice(METHODS), required=True, help="How windows are merged.")
@common.path("--stitcher", "Folder of a trained stitcher, for the methods wc, wco_wce and alignment.", metavar="DIR")
@common.path("--stitcher-file", "Checkpoint of the stitcher.  [default: valid.acc.ave.pth]")
@click.option("--beam-size", type=common.COUNT, default=4, show_default=True, metavar="N", help="Width of the search.")
@click.option("--length-bonus", type=float, default=0.2, show_default=True, help="Score of each token of a transcript.")
@click.option("--batch-size", type=common.COUNT, default=32, show_default=True, metavar="N", help="Texts at once.")
@_guard
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
    guard: str | None,
    segments: Path | None,
    speaker: str,
    ngpu: int,
) -> None:
    """Merge the hypotheses of windows into transcripts.

    Writes the transcript of each speaker and recording as SegLST (JSON). Windows are joined one after the other
    (block), by P4's overlapping inference (overlapping), by the times of their words (time_aware), or by a trained
    stitcher (wc, wco_wce, alignment). With no, a recording is a single window.
    """
    from espnet_ext.stitcher.inference import StitcherOptions, merge_windows

    _refuse_guard_alone(guard, stitcher)
    device = "cuda" if ngpu else "cpu"
    trained = None
    if stitcher:
        limit = _limit(guard, stitcher)
        trained = StitcherOptions(stitcher, stitcher_file, beam_size, length_bonus, batch_size, device, limit)
    merge_windows(hypotheses, output, method, trained, segments=segments, speaker=speaker)
