"""Compute the d-vectors of recordings, which training reads as data `d_vectors` of type kaldi_ark.

Where several data dirs are given, what is computed of one before is left alone.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.multitalker.d_vectors import read_options, write_d_vectors


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR", help="data dirs; wav.scp is read")
    parser.add_argument(
        "--output", type=Path, nargs="+", required=True, metavar="DIR", help="folder for d_vectors.scp of each --data"
    )
    parser.add_argument(
        "--config", type=Path, required=True, metavar="YAML", help="training config, for its speaker_encoder_conf"
    )
    parser.add_argument("--nj", type=int, default=1, help="number of processes (default: %(default)s)")
    parser.add_argument("--parallel", type=Path, metavar="YAML", help="cluster to run on")
    args = parser.parse_args(arguments)
    if len(args.data) != len(args.output):
        raise InputError("give as many --output as --data")
    options = read_options(args.config)
    for data, output in zip(args.data, args.output, strict=True):
        count = write_d_vectors(data, output, options, nj=args.nj, parallel=args.parallel)
        print(f"{count} recordings -> {output / 'd_vectors.scp'}", flush=True)


if __name__ == "__main__":
    run_main(main)
