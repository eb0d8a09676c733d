#!/usr/bin/env python3
"""Say what differences a number of seeds can see, from a pilot: trainings of one system that differ by their seed.

Writes a file of facts: for each test set the error rates of the pilot, their standard deviation with its 95% interval,
and the smallest difference between two systems that is found in 80 of 100 experiments with so many seeds, for one claim
alone and for all claims of the recipe at once (Holm's correction at its strictest).

With --against, trainings of another system with the same seeds, it says the same of their paired differences, and what
these vary with: seeds, speakers, and the rest, which is smaller in a test set that is --longer times as long.

Example:
  local/pilot_power.py --pilot exp/mini/baseline_cs/seed{1,2,3} --seeds 5 10 --output results/power.json
  local/pilot_power.py --pilot exp/mini/baseline_cs/seed* --against exp/mini/separate_cs/seed* --longer 3 \\
      --output results/design.json
"""

import argparse
import json
import math
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.results.claims.power import POWER, components_of, smallest_difference, spread_of
from espnet_ext.results.kept.facts import write_facts
from espnet_ext.results.plans.reading import load_tables
from espnet_ext.results.scores import read_utterances

TEST_SETS = ("dev", "test")
UTTERANCES = "per_utterance.tsv"
RECIPE = Path(__file__).resolve().parents[1]


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    if len(args.pilot) < 2:
        raise InputError("--pilot needs the folders of at least two trainings")
    if args.against and [one.name for one in args.against] != [one.name for one in args.pilot]:
        raise InputError("--against needs the same seeds as --pilot, in the same order")
    claims = sum(len(table.claims) for table in load_tables(RECIPE / "conf/tables.yaml").tables.values())
    values = {
        "system": args.pilot[0].resolve().parent.name,
        "seeds": [folder.name.removeprefix("seed") for folder in args.pilot],
        "power": POWER,
        "claims": claims,
        **{name: of_test_set([rate(folder, name) for folder in args.pilot], args.seeds, claims) for name in TEST_SETS},
    }
    if args.against:
        values["against"] = args.against[0].resolve().parent.name
        for name in TEST_SETS:
            utterances = len(read_utterances(args.pilot[0] / "decode_default" / name / UTTERANCES))
            pairs = of_pairs(differences(args.pilot, args.against, name), args, claims)
            values[name]["paired"] = {"utterances": utterances, **pairs}
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


def differences(pilot: Sequence[Path], against: Sequence[Path], name: str) -> np.ndarray:
    """The rates of the pilot minus those of the other system in points, by seed and speaker."""
    rows = []
    for folders in zip(pilot, against, strict=True):
        (errors, words), (others, _) = (by_speaker(folder / "decode_default" / name) for folder in folders)
        rows.append([100 * (errors[speaker] - others[speaker]) / words[speaker] for speaker in sorted(words)])
    return np.array(rows)


def by_speaker(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Errors and words of each speaker of a scored test set."""
    errors, words = Counter[str](), Counter[str]()
    for count in read_utterances(folder / UTTERANCES).values():
        errors[count.unit] += count.errors
        words[count.unit] += count.words
    return errors, words


def of_pairs(values: np.ndarray, args: argparse.Namespace, claims: int) -> dict[str, Any]:
    """What differences vary with, and the smallest mean that each number of seeds can see."""
    parts = components_of(values)
    speakers = values.shape[1]

    def seen(seeds: int, longer: float, claims: int = 1) -> float:
        sd = parts.standard_error(seeds, speakers, longer) * math.sqrt(seeds / 2)  # that of each of two systems
        return smallest_difference(sd, seeds, claims)

    return {
        "by_seed": values.mean(axis=1).tolist(),
        "speakers": speakers,
        "variance": {"seed": parts.seed, "speaker": parts.unit, "rest": parts.rest},
        "smallest": {
            f"{longer:g}": {
                str(number): {"one_claim": seen(number, longer), "all_claims": seen(number, longer, claims)}
                for number in args.seeds
            }
            for longer in (1.0, *args.longer)
        },
    }


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pilot", type=Path, nargs="+", required=True, metavar="DIR", help="trainings of one system")
    parser.add_argument("--against", type=Path, nargs="+", default=[], metavar="DIR", help="those of another system")
    parser.add_argument("--longer", type=float, nargs="+", default=[], metavar="N", help="lengths of test sets to try")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10], metavar="N", help="numbers of seeds to try")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
