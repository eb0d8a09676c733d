"""Average the parameters of the last or the best epochs of an ESPnet training."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.upstream.averaging import average, best_epochs, last_epochs
from espnet_ext.work.files import atomic_write


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="folder of the training")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last", type=int, metavar="N", help="the last N epochs")
    which.add_argument("--best", type=int, metavar="N", help="the N best epochs by --criterion")
    parser.add_argument("--criterion", default="valid.acc.max", help="phase.name.min|max (default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True, help="the averaged checkpoint")
    args = parser.parse_args(argv)
    count = args.last if args.last is not None else args.best
    if count < 1:
        raise InputError(f"an average of {count} epochs was asked for: give at least 1")
    if args.last is not None:
        files = last_epochs(args.dir, count)
    else:
        phase, _, rest = args.criterion.partition(".")
        key, _, mode = rest.rpartition(".")
        files = best_epochs(args.dir, count, (phase, key, mode))

    import torch

    with atomic_write(args.output, "wb") as file:
        torch.save(average(files), file)
    print(f"{args.output}: the mean of {', '.join(path.name for path in files)}")


if __name__ == "__main__":
    run_main(main)
