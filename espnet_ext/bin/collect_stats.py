"""Collect the shapes and feature statistics that ESPnet's training needs, on several processes or a cluster.

Options of espnet2.bin.asr_train follow after `--`, as in `... --nj 4 -- --token_type bpe --bpemodel bpe.model`.
A killed run goes on where it stopped.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.upstream.stats import TASKS, Statistics, collect_stats


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="Kaldi data dir to train on, without segments")
    parser.add_argument("--valid", type=Path, required=True, help="the same of the development set")
    parser.add_argument("--config", type=Path, required=True, help="training config of the model")
    parser.add_argument("--task", choices=list(TASKS), default="asr", help="whose config it is (default: %(default)s)")
    parser.add_argument("--token-list", type=Path, required=True, help="one token a line")
    parser.add_argument("--output", type=Path, required=True, help="folder for the statistics")
    parser.add_argument("--nj", type=int, default=1, help="number of processes or cluster jobs (default: 1)")
    parser.add_argument("--parallel", type=Path, help="conf/parallel/*.yaml; default: processes on this machine")
    parser.add_argument("options", nargs="*", help="after `--`: options of espnet2.bin.asr_train")
    args = parser.parse_args(argv)
    job = Statistics(
        train=args.train,
        valid=args.valid,
        config=args.config,
        token_list=args.token_list,
        output=args.output,
        options=tuple(args.options),
        task=args.task,
    )
    collect_stats(job, nj=args.nj, parallel=args.parallel)
    print(f"statistics -> {args.output}")


if __name__ == "__main__":
    run_main(main)
