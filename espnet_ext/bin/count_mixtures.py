"""Count sets of mixtures as P4's Table 1 does: a file for each count, where the recipe's table looks for them."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.multitalker.mixture_plan import UNITS, count_turns
from espnet_ext.multitalker.turns import read_turns
from espnet_ext.work.files import write_json


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR", help="sets with references.json")
    parser.add_argument(
        "--output", type=Path, nargs="+", required=True, metavar="DIR", help="folder for <count>.json of each --data"
    )
    args = parser.parse_args(argv)
    if len(args.data) != len(args.output):
        raise InputError("give as many --output as --data")
    for data, output in zip(args.data, args.output, strict=True):
        counts = asdict(count_turns(read_turns(data / "references.json")))
        for name, unit in UNITS.items():
            write_json(output / f"{name}.json", {"value": round(counts[name], 4), "unit": unit})
        print(f"{data}: {counts['samples']} mixtures -> {output}")


if __name__ == "__main__":
    run_main(main)
