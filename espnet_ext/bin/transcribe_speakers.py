"""Transcribe a long recording with several talkers: who said what, and about when.

Speakers are those with a folder of audio files in --enrolment. Writes <recording>.json (SegLST), .ctm and .txt. Windows
are cut, recognised and merged as in the recipe libricss_stitch; with --stitcher a trained model merges them.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.multitalker.windows import WINDOW_SECONDS, Windowing

OVERLAPS = {"no": 0.0, "block": 0.0, "overlapping": 0.5}  # of windows, by method


def main(argv: Sequence[str] | None = None) -> None:
    args = _parser().parse_args(argv)
    if args.stitcher and args.method:
        raise InputError("--stitcher is itself a method: leave out --method")
    method = args.method or "overlapping"
    overlap = OVERLAPS[method] if args.window_overlap is None else args.window_overlap
    windowing = None if method == "no" else Windowing(args.window, overlap)

    from espnet_ext.multitalker.decode import read_search_options
    from espnet_ext.multitalker.profiles import espnet_speaker_model, resemblyzer
    from espnet_ext.stitcher.transcribe import Transcription, merged_by, transcribe

    embed = espnet_speaker_model(args.speaker_model_config, args.speaker_model) if args.speaker_model else resemblyzer()
    job = Transcription(
        args.recording,
        args.enrolment,
        args.model_config,
        args.model,
        windowing,
        args.output,
        read_search_options(args.config) if args.config else {},
        args.ngpu,
    )
    timed = transcribe(job, embed, _stitch(args) if args.stitcher else merged_by(method), nj=args.nj)
    for turn, _ in timed:
        print(f"{turn.start:8.1f} {turn.speaker}: {' '.join(turn.words)}")
    print(f"written to {args.output}")


def _stitch(args: argparse.Namespace):
    from espnet_ext.stitcher.inference import Stitcher

    return Stitcher(args.stitcher, device="cuda" if args.ngpu else "cpu").stitch


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m espnet_ext.bin.transcribe_speakers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--recording", type=Path, required=True, help="audio file, any rate and number of channels")
    parser.add_argument(
        "--enrolment", type=Path, required=True, metavar="DIR", help="a folder of audio files a speaker"
    )
    parser.add_argument("--model-config", type=Path, required=True, help="config.yaml of the recogniser")
    parser.add_argument("--model", type=Path, required=True, help="its parameters, such as valid.acc.ave.pth")
    parser.add_argument("--config", type=Path, help="YAML with options of the beam search")
    parser.add_argument(
        "--method", choices=list(OVERLAPS), help="how windows are merged; no: it is not cut (default: overlapping)"
    )
    parser.add_argument("--stitcher", type=Path, metavar="DIR", help="folder of a trained stitcher, which merges them")
    parser.add_argument("--window", type=float, default=WINDOW_SECONDS, help="seconds (default: %(default)s)")
    parser.add_argument(
        "--window-overlap", type=float, help="share of a window, 0 to 0.5 (default: 0.5; 0 for --method block)"
    )
    parser.add_argument("--speaker-model-config", type=Path, help="config.yaml of an ESPnet speaker model for profiles")
    parser.add_argument("--speaker-model", type=Path, help="its parameters (default: Resemblyzer's d-vectors)")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for the results")
    parser.add_argument("--nj", type=int, default=1, help="number of processes (default: 1)")
    parser.add_argument("--ngpu", type=int, choices=(0, 1), default=0, help="1: decode on a GPU (default: 0)")
    return parser


if __name__ == "__main__":
    run_main(main)
