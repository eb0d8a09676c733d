"""Average the parameters of the last or the best epochs of an ESPnet training."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.upstream.averaging import write_average


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="folder of the training")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last", type=int, metavar="N", help="the last N epochs")
    which.add_argument("--best", type=int, metavar="N", help="the N best epochs by --criterion")
    parser.add_argument("--criterion", default="valid.acc.max", help="phase.name.min|max (default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True, help="the averaged checkpoint")
    args = parser.parse_args(argv)
    write_average(args.dir, args.output, best=args.best, last=args.last, criterion=args.criterion)


if __name__ == "__main__":
    run_main(main)
