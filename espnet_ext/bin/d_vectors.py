"""Compute the d-vectors of a data dir's recordings, which training reads as data `d_vectors` of type kaldi_ark."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.task.d_vectors import read_options, write_d_vectors


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="a data dir; wav.scp is read")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="d_vectors.scp goes here")
    parser.add_argument(
        "--config", type=Path, required=True, metavar="YAML", help="training config, for its speaker_encoder_conf"
    )
    parser.add_argument("--nj", type=int, default=1, help="number of processes (default: %(default)s)")
    parser.add_argument("--parallel", type=Path, metavar="YAML", help="cluster to run on")
    args = parser.parse_args(arguments)
    count = write_d_vectors(args.data, args.output, read_options(args.config), nj=args.nj, parallel=args.parallel)
    print(f"{count} recordings -> {args.output / 'd_vectors.scp'}")


if __name__ == "__main__":
    run_main(main)
