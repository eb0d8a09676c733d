"""Cut mixtures as windows cut recordings, for a recogniser that is to hear windows: audio, text, speakers."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.multitalker.mixture_cuts import cut_mixtures


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="a set of mixtures with references")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a data dir")
    parser.add_argument("--window", type=float, required=True, help="seconds")
    parser.add_argument("--share", type=float, default=1.0, help="of the mixtures that are cut (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument("--nj", type=int, default=1, help="number of processes (default: %(default)s)")
    args = parser.parse_args(argv)
    count = cut_mixtures(args.data, args.output, window=args.window, share=args.share, seed=args.seed, nj=args.nj)
    print(f"{count} mixtures are cut -> {args.output}")


if __name__ == "__main__":
    run_main(main)
