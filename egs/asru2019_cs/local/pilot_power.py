#!/usr/bin/env python3
"""Say what differences a number of seeds can see, from a pilot: trainings of one system that differ by their seed.

Writes a file of facts: for each test set the error rates of the pilot, their standard deviation with its 95% interval,
and the smallest difference between two systems that is found in 80 of 100 experiments with so many seeds, for one claim
alone and for all claims of the recipe at once (Holm's correction at its strictest).

Example:
  local/pilot_power.py --pilot exp/mini/baseline_cs/seed{1,2,3} --seeds 5 10 --output results/power.json
"""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, run_main
from espnet_ext.results.claims.power import POWER, smallest_difference, spread_of
from espnet_ext.results.kept.facts import write_facts
from espnet_ext.results.plans.reading import load_tables

TEST_SETS = ("dev", "test")
RECIPE = Path(__file__).resolve().parents[1]


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    if len(args.pilot) < 2:
        raise InputError("--pilot needs the folders of at least two trainings")
    claims = sum(len(table.claims) for table in load_tables(RECIPE / "conf/tables.yaml").tables.values())
    values = {
        "system": args.pilot[0].resolve().parent.name,
        "seeds": [folder.name.removeprefix("seed") for folder in args.pilot],
        "power": POWER,
        "claims": claims,
        **{name: of_test_set([rate(folder, name) for folder in args.pilot], args.seeds, claims) for name in TEST_SETS},
    }
    about = "Differences in points that a number of seeds can see, from the spread between trainings of a pilot"
    write_facts(args.output, about, shlex.join(["local/pilot_power.py", *(argv or sys.argv[1:])]), values)
    print("written:", args.output)


def rate(folder: Path, name: str) -> float:
    """The error rate of a training on a test set, in percent.

    Raises:
        InputError: it has not been scored.
    """
    path = folder / "decode_default" / name / "score.json"
    if not path.is_file():
        raise InputError(f"{path}: no such file: run stages 6 to 8 first")
    return float(json.loads(path.read_text(encoding="utf-8"))["value"])


def of_test_set(rates: list[float], seeds: Sequence[int], claims: int) -> dict[str, Any]:
    """The spread of a pilot's error rates, and what each number of seeds can see."""
    spread = spread_of(rates)
    return {
        "rates": rates,
        "sd": spread.sd,
        "sd_ci95": list(spread.ci95),
        "smallest": {
            str(number): {
                "one_claim": smallest_difference(spread.sd, number),
                "all_claims": smallest_difference(spread.sd, number, claims),
            }
            for number in seeds
        },
    }


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pilot", type=Path, nargs="+", required=True, metavar="DIR", help="trainings of one system")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10], metavar="N", help="numbers of seeds to try")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
