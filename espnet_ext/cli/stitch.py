"""``espnet-ext stitch``: from hypotheses of windows to transcripts of recordings."""

from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.errors import InputError

FORMATS = ("auto", "whisper", "seglst", "ctm", "rttm", "windows")
METHODS = ("no", "block", "overlapping", "time_aware")


@click.group(cls=common.OrderedGroup)
def stitch() -> None:
    """Join what a recogniser wrote of windows (Chang 2021).

    It needs no trained stitcher, but may have one. Hypotheses of any recogniser:
    Whisper's, WhisperX's and transformers' JSON, SegLST (.json), CTM of Kaldi and NeMo
    (.ctm), RTTM with LEXEME lines (.rttm), or ours (.jsonl, a line for each window and
    speaker).
    """


@stitch.command()
@click.argument("files", nargs=-1, type=common.PATH, required=True, metavar="FILE...")
@common.choice(
    "--method", METHODS, "How windows are merged.  [default: time_aware]", default=None
)
@common.path(
    "--stitcher", "Folder of a trained stitcher that merges the windows.", metavar="DIR"
)
@click.option(
    "--output",
    type=common.WRITTEN,
    metavar="FILE",
    help="A .json (SegLST), .ctm, .txt, .srt or .vtt file.",
)
@common.path(
    "--segments", "Kaldi segments of the windows, which the files name as utterances."
)
@common.choice("--format", FORMATS, "Format of the files.", "form")
@common.ngpu()
def join(
    files: tuple[Path, ...],
    method: str | None,
    stitcher: Path | None,
    output: Path | None,
    ngpu: int,
    **options: Any,
) -> None:
    """Join what a recogniser wrote of windows.

    By default they are merged by the times of their words, and may overlap or not; no
    model is needed. Where they share little, times must be exact: off by 0.1 s they
    lose no word from an overlap of 2 % on, off by 0.3 s from 10 %. Other methods: one
    after the other (block), P4's overlapping inference (overlapping), or a recording
    that is a single window (no). Prints the transcript, with times and speakers.

    A JSON object says `start` and `end` of its window in seconds, or `offset` and
    `duration` if its times begin with the window; and `recording`, if files of other
    names hold windows of the same recording. For CTM and RTTM, and for JSON without
    these, --segments says where the windows are. Windows that are missing are warned
    of.
    """
    from espnet_ext.stitch.stitcher.guard import read_guard
    from espnet_ext.stitch.stitcher.inference import StitcherOptions, join_windows

    # Its default is None, so that one that was given can be told from it.
    if method and stitcher:
        raise InputError("--stitcher is a method itself: leave out --method")
    trained = None
    if stitcher:
        device = "cuda" if ngpu else "cpu"
        trained = StitcherOptions(stitcher, device, read_guard(stitcher))
    join_windows(files, output, method or METHODS[-1], trained, **options)


@stitch.command()
@common.data("Data dir of recordings: wav.scp, utt2spk, and reco2dur or utt2dur.")
@common.output("The data dir of windows.")
@click.option(
    "--window",
    type=float,
    default=16.0,
    show_default=True,
    metavar="SECONDS",
    help="Length of a window.",
)
@common.window_overlap()
def windows(data: Path, output: Path, window: float, window_overlap: float) -> None:
    """Write a data dir of the windows of recordings.

    Its utterances are the windows, for a recogniser to decode.
    """
    from espnet_ext.text.windows import Windowing, write_windows

    write_windows(data, output, Windowing(window, window_overlap))
