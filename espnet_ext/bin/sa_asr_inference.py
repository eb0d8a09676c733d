"""Decode windows or whole recordings with a speaker-attributed ASR model: hypotheses.jsonl, text and speakers.

hypotheses.jsonl has a line for each window and speaker heard in it, as `espnet_ext.multitalker.hypotheses` describes. A
killed run goes on where it stopped.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.multitalker.decode import SEARCH_OPTIONS, SpeakerDecoding, decode_speakers, read_search_options


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-config", type=Path, required=True, help="config.yaml of the trained model")
    parser.add_argument("--model", type=Path, required=True, help="its parameters, such as valid.acc.ave.pth")
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="Kaldi data dirs of windows or recordings")
    parser.add_argument(
        "--inventory",
        type=Path,
        nargs="+",
        help="a table for each --data, of windows or recordings, and the speakers to choose from, as <name> or "
        "<name>=<profile> (default: inventory in --data; all profiles if there is none)",
    )
    parser.add_argument("--profiles", type=Path, nargs="+", required=True, help="profiles.scp of all speakers")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="folder for the results of each --data")
    parser.add_argument("--config", type=Path, help=f"YAML with {', '.join(SEARCH_OPTIONS)}")
    parser.add_argument("--nj", type=int, default=1, help="number of processes or cluster jobs (default: 1)")
    parser.add_argument("--parallel", type=Path, help="conf/parallel/*.yaml; default: processes on this machine")
    parser.add_argument("--ngpu", type=int, choices=(0, 1), default=0, help="1: decode on a GPU (default: 0)")
    args = parser.parse_args(argv)
    search = read_search_options(args.config) if args.config else {}
    inventories = args.inventory or [None] * len(args.data)
    if not len(args.data) == len(args.output) == len(inventories):
        raise InputError("give as many --output, and --inventory if any, as --data")
    jobs = [
        SpeakerDecoding(args.model_config, args.model, data, tuple(args.profiles), output, search, args.ngpu, inventory)
        for data, output, inventory in zip(args.data, args.output, inventories, strict=True)
    ]
    count = decode_speakers(jobs, nj=args.nj, parallel=args.parallel)
    print(f"{count} windows -> {', '.join(str(output / 'hypotheses.jsonl') for output in args.output)}")


if __name__ == "__main__":
    run_main(main)
