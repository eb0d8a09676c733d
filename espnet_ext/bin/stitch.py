"""From the hypotheses of a recogniser in windows to transcripts of long recordings, by speaker.

windows: a data dir whose utterances are the windows of another's recordings, for the recogniser to decode.

text: the inputs and targets of a stitcher, for training it: Kaldi text files, and stitcher.json, of which the trained
model's folder needs a copy.

simulate: hypotheses (JSONL) that a recogniser might have of recordings whose words and times are known, with errors,
more of them near the edges of windows. A stitcher can learn on them what no errors of a real recogniser are needed for.

merge: the transcript of each speaker and recording, as SegLST (JSON): windows joined block-wise, by overlapping
inference, or by a trained stitcher (wc, wco_wce, alignment; its folder is --model).

Hypotheses come as JSONL (one window and speaker a line) or as CTM (second column: the window's index, eighth: the
speaker). For CTM --window and --window-overlap say how the recordings were cut.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.data.data_dir import read_data_dir, write_data_dir
from espnet_ext.errors import InputError, run_main
from espnet_ext.multitalker.hypotheses import Grouped, group_by_speaker, read_ctm, read_jsonl, write_jsonl
from espnet_ext.multitalker.turns import read_turns, words_by_speaker, write_turns
from espnet_ext.multitalker.windows import WINDOW_SECONDS, Windowing, window_data_dir
from espnet_ext.stitcher.baselines import MERGES, transcripts
from espnet_ext.stitcher.inference import BATCH_SIZE, BEAM_SIZE, LENGTH_BONUS, MODEL_FILE, Stitcher
from espnet_ext.stitcher.pairs import read_note, write_pairs
from espnet_ext.stitcher.serialise import STYLES, stitch_examples
from espnet_ext.stitcher.simulated_errors import SimulatedErrors, simulate_recordings


def main(argv: list[str] | None = None) -> None:
    """Parse the arguments and run one of the commands."""
    arguments = _parser().parse_args(argv)
    arguments.run(arguments)


def _merge(arguments: argparse.Namespace) -> None:
    trained = arguments.method in STYLES
    if trained != (arguments.model is not None):
        what = "needs the folder of a trained stitcher: give" if trained else "has no trained model: leave out"
        raise InputError(f"--method {arguments.method} {what} --model")
    _check_as_many(arguments.hypotheses, arguments.output, "--hypotheses")
    stitcher = _stitcher(arguments) if trained else None
    for path, output in zip(arguments.hypotheses, arguments.output, strict=True):
        grouped = _read(arguments, path)
        turns = transcripts(grouped, stitcher.stitch(grouped) if stitcher else MERGES[arguments.method])
        write_turns(output, turns)
        recordings, words = len({turn.recording for turn in turns}), sum(len(turn.words) for turn in turns)
        print(f"{recordings} recordings, {words} words, written to {output}")


def _check_as_many(inputs: Sequence[str], outputs: Sequence[str], option: str) -> None:
    if len(inputs) != len(outputs):
        raise InputError(f"{len(inputs)} {option} and {len(outputs)} --output: give each its own")


def _stitcher(arguments: argparse.Namespace) -> Stitcher:
    style = read_note(arguments.model).style
    if style != arguments.method:
        raise InputError(f"{arguments.model}: it is a stitcher of the style {style}: give --method {style}")
    device = "cuda" if arguments.ngpu else "cpu"
    return Stitcher(
        arguments.model,
        arguments.model_file,
        arguments.beam_size,
        arguments.length_bonus,
        arguments.batch_size,
        device,
    )


def _text(arguments: argparse.Namespace) -> None:
    references = words_by_speaker(read_turns(arguments.references)) if arguments.references else None
    examples = stitch_examples(_read(arguments, arguments.hypotheses), arguments.style, references)
    write_pairs(arguments.output, examples, arguments.style, arguments.bpemodel)
    print(f"{len(examples)} examples in the style {arguments.style}, written to {arguments.output}")


def _simulate(arguments: argparse.Namespace) -> None:
    windowing = Windowing(arguments.window, arguments.window_overlap)
    errors = SimulatedErrors()
    hypotheses = simulate_recordings(read_turns(arguments.references), windowing, errors, arguments.seed)
    write_jsonl(arguments.output, hypotheses)
    print(f"{len(hypotheses)} hypotheses with simulated errors, written to {arguments.output}")


def _windows(arguments: argparse.Namespace) -> None:
    _check_as_many(arguments.data, arguments.output, "--data")
    windowing = Windowing(arguments.window, arguments.window_overlap)
    for folder, output in zip(arguments.data, arguments.output, strict=True):
        data, windows = window_data_dir(read_data_dir(folder), windowing)
        write_data_dir(data, output)
        print(f"{len(windows)} windows of {len(data.wav_scp)} recordings, written to {output}")


def _read(arguments: argparse.Namespace, path: str) -> Grouped:
    if path.endswith(".jsonl"):
        return group_by_speaker(read_jsonl(path))
    windowing = Windowing(arguments.window, arguments.window_overlap)
    return group_by_speaker(read_ctm(path, windowing, speaker=arguments.speaker))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m espnet_ext.bin.stitch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    cut = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    cut.add_argument("--window", type=float, default=WINDOW_SECONDS, help="seconds (default: %(default)s)")
    cut.add_argument(
        "--window-overlap", type=float, default=0.5, help="share of a window, 0 to 0.5 (default: %(default)s)"
    )
    form = "JSONL (.jsonl) or CTM (any other name)"
    common.add_argument("--speaker", default="speaker", help="CTM without speakers: whose words they are")
    commands = parser.add_subparsers(dest="command", required=True)
    windows = commands.add_parser("windows", parents=[cut], allow_abbrev=False, help="cut recordings into windows")
    windows.add_argument("--data", nargs="+", required=True, metavar="DIR", help="data dirs with reco2dur, or utt2dur")
    windows.add_argument("--output", nargs="+", required=True, metavar="DIR", help="the data dir of windows of each")
    windows.set_defaults(run=_windows)
    text = commands.add_parser("text", parents=[common, cut], allow_abbrev=False, help="write a stitcher's text")
    text.add_argument("--hypotheses", required=True, metavar="FILE", help=form)
    text.add_argument("--output", required=True, metavar="DIR", help="the folder to write")
    text.add_argument("--style", choices=STYLES, required=True, help="how windows are told apart")
    text.add_argument("--references", metavar="FILE", help="SegLST: write the targets too")
    text.add_argument(
        "--bpemodel", type=Path, help="alignment: make word pieces by this model (default: words are tokens)"
    )
    text.set_defaults(run=_text)
    simulate = commands.add_parser(
        "simulate", parents=[cut], allow_abbrev=False, help="hypotheses with simulated errors"
    )
    simulate.add_argument("--references", required=True, metavar="FILE", help="SegLST, with times")
    simulate.add_argument("--output", required=True, metavar="FILE", help="the hypotheses (JSONL)")
    simulate.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    simulate.set_defaults(run=_simulate)
    merge = commands.add_parser(
        "merge", parents=[common, cut], allow_abbrev=False, help="merge or stitch into transcripts"
    )
    merge.add_argument("--hypotheses", nargs="+", required=True, metavar="FILE", help=f"{form}; may be several")
    merge.add_argument("--output", nargs="+", required=True, metavar="FILE", help="the transcripts of each")
    merge.add_argument("--method", choices=[*MERGES, *STYLES], required=True)
    merge.add_argument("--model", type=Path, metavar="DIR", help="folder of a trained stitcher")
    merge.add_argument("--model-file", type=Path, metavar="FILE", help=f"its checkpoint (default: {MODEL_FILE})")
    merge.add_argument("--beam-size", type=int, default=BEAM_SIZE, help="(default: %(default)s)")
    merge.add_argument(
        "--length-bonus", type=float, default=LENGTH_BONUS, help="score of each token of a text (default: %(default)s)"
    )
    merge.add_argument("--batch-size", type=int, default=BATCH_SIZE, help="stitched at once (default: %(default)s)")
    merge.add_argument("--ngpu", type=int, choices=(0, 1), default=0, help="1: stitch on a GPU (default: 0)")
    merge.set_defaults(run=_merge)
    return parser


if __name__ == "__main__":
    run_main(main)
