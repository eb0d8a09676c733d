"""Count sets of mixtures as P4's Table 1 does, and print the paper's counts beside them."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.data.mixture_plan import count_turns, counts_table
from espnet_ext.data.turns import read_turns
from espnet_ext.errors import InputError, run_main
from espnet_ext.files import atomic_write


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--set", action="append", required=True, metavar="NAME=DIR", help="a set's name in the table, and its folder"
    )
    parser.add_argument("--output", type=Path, required=True, help="the file for the table")
    args = parser.parse_args(argv)
    counts = {}
    for item in args.set:
        name, _, folder = item.partition("=")
        if not folder:
            raise InputError(f"--set {item}: give NAME=DIR")
        counts[name] = count_turns(read_turns(Path(folder) / "references.json"))
    table = counts_table(counts)
    with atomic_write(args.output) as file:
        file.write(table + "\n")
    print(table)


if __name__ == "__main__":
    run_main(main)
