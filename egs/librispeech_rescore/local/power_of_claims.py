#!/usr/bin/env python3
"""Say what differences so many seeds can see where several claims are tested, from what local/mwer_course.py wrote.

The smallest differences in its facts are those of one claim alone. Holm's correction compares the smallest of several
p-values with the level over their number. So this counts the claims of a table that have been tested and not decided,
and writes the smallest difference that is found if all of these are tested, none holds but this one, and its p-value is
the smallest. Reads kept results, and runs nothing.

Example:
  local/power_of_claims.py --course mwer:mini-synthetic mwer_bert:mini-synthetic --output results/power.json
"""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.tables.claims.counts import UNDECIDED
from espnet_ext.tables.claims.power import POWER, smallest_difference
from espnet_ext.tables.kept.facts import read_facts, write_facts
from espnet_ext.tables.kept.result_files import read_results

RESULTS = Path(__file__).resolve().parents[1] / "results"
TABLE, TEST_SETS = "table1.json", ("test-clean", "test-other")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--course", nargs="+", required=True, metavar="FACTS:FOLDER", help="names in the folder results"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="the folder (default: results)")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    args = parser.parse_args(argv)
    values: dict[str, Any] = {"power": POWER}
    for pair in args.course:
        name, _, folder = pair.partition(":")
        claims = open_claims(read_results(args.results / folder / TABLE))
        course = read_facts(args.results / f"{name}.json")["values"]
        values[name] = {"claims": claims, "compared": corrected(course["compared"], claims)}
    about = f"The smallest difference in points that is found in {100 * POWER:g} % of experiments, among several claims"
    command = ["local/power_of_claims.py", "--course", *args.course, "--output", f"results/{args.output.name}"]
    write_facts(args.output, about, shlex.join(command), values)
    print("written:", args.output)


def open_claims(result: Mapping[str, Any]) -> int:
    """How many claims of a table have been tested and are undecided.

    Raises:
        InputError: none is.
    """
    number = sum(claim["verdict"] == UNDECIDED and claim["p_corrected"] is not None for claim in result["claims"])
    if not number:
        raise InputError(f"table {result['table']}: no claim has been tested and is undecided: nothing is left to see")
    return number


def corrected(compared: Mapping[str, Any], claims: int) -> dict[str, Any]:
    """The smallest differences that ``mwer_course.compared`` has for one claim alone, as those of one of ``claims``.

    They are in proportion to the standard error, so that the same factor goes from one to the other for so many seeds.
    """
    return {
        system: {
            part: [_row(row, claims) for row in own["smallest"]] for part, own in parts.items() if part in TEST_SETS
        }
        for system, parts in compared.items()
    }


def _row(row: Mapping[str, Any], claims: int) -> dict[str, Any]:
    seeds = {n: round(alone * factor(int(n), claims), 4) for n, alone in row["seeds"].items()}
    return {**row, "seeds": seeds}


def factor(seeds: int, claims: int) -> float:
    """How many times as large a difference has to be to be found as one of several claims, and not alone."""
    return smallest_difference(1.0, seeds, claims) / smallest_difference(1.0, seeds)


if __name__ == "__main__":
    run_main(main)
