#!/usr/bin/env python3
"""Say what differences a number of seeds can see, from a pilot: trainings of one system that differ by their seed.

Reads the errors of utterances that a run leaves beside its tables (stage 9). Writes a file of facts: for each test set
the error rates of the pilot, their standard deviation with its 95% interval, and the smallest difference between two
systems that is found in 80 of 100 experiments with so many seeds, for one claim alone and for all claims of the recipe
at once (Holm's correction at its strictest).

With --against, a system that was trained with the same seeds, it says the same of their paired differences, and what
these vary with: seeds, speakers, and the rest, which is smaller in a test set that is --longer times as long.

Example, a run of one's own, and the two files that are kept here:
  local/pilot_power.py --scores exp/mini/results/scores.json.gz --pilot baseline_cs --output power.json
  local/pilot_power.py --scores results/mini-synthetic/scores.json.gz --pilot baseline_cs --trainings 1 2 3 \\
      --utterances dev=9 test=20 --output results/power.json
  local/pilot_power.py --scores results/mini-synthetic/scores.json.gz --pilot baseline_cs --trainings 1 2 3 4 5 \\
      --utterances dev=9 test=20 --against separate_cs --longer 3 --output results/design.json
"""

import argparse
import math
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.tables.claims.power import POWER, components_of, smallest_difference, spread_of
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.tables.kept.kept_scores import KeptScores, kept_scores
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.scores import SeedScore, errors_by_unit

TEST_SETS = ("dev", "test")
MEASURE = "All"
RECIPE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Design:
    """What the pilot's numbers are computed for: numbers of seeds, lengths of test sets, and how many claims."""

    seeds: Sequence[int]
    longer: Sequence[float]
    claims: int


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    claims = sum(len(table.claims) for table in load_tables(RECIPE / "conf/tables.yaml").tables.values())
    values = facts(args, Design(args.seeds, (1.0, *args.longer), claims))
    about = "Differences in points that a number of seeds can see, from the spread between trainings of a pilot"
    write_facts(args.output, about, shlex.join(["local/pilot_power.py", *(argv or sys.argv[1:])]), values)
    print("written:", args.output)


def facts(args: argparse.Namespace, design: Design) -> dict[str, Any]:
    """All values of the file.

    Raises:
        InputError: as :func:`trained`, or a system has fewer than two trainings, or other ones than the pilot.
    """
    source = kept_scores(args.scores)
    values: dict[str, Any] = {"system": args.pilot, "power": POWER, "claims": design.claims}
    for name in TEST_SETS:
        pilot = trained(source, args, args.pilot, name)
        values["seeds"] = list(map(str, pilot))
        values[name] = of_test_set([score.value for score in pilot.values()], design)
        if args.against:
            against = trained(source, args, args.against, name)
            if list(against) != list(pilot):
                raise InputError(
                    f"{args.scores}: {args.against} has seeds {list(against)}: name those with --trainings"
                )
            values["against"] = args.against
            utterances = len(next(iter(pilot.values())).counts or ())
            values[name]["paired"] = {"utterances": utterances, **of_pairs(differences(pilot, against), design)}
    return values


def trained(source: KeptScores, args: argparse.Namespace, system: str, name: str) -> dict[int, SeedScore]:
    """The scores of a system's trainings on a test set, on the first utterances of each speaker, by seed.

    Raises:
        InputError: a training was not scored, only its sums are known, or there are fewer than two.
    """
    found = source.of(system, "default", name, MEASURE)
    missing = [str(seed) for seed in args.trainings if seed not in found]
    if missing:
        raise InputError(f"{args.scores}: no scores of {system} on {name} with seed {', '.join(missing)}")
    chosen = {seed: found[seed] for seed in args.trainings or found}
    if len(chosen) < 2:
        raise InputError(f"{args.scores}: {len(chosen)} trainings of {system} on {name}: a spread needs at least two")
    return {seed: first_utterances(score, args.utterances.get(name)) for seed, score in chosen.items()}


def first_utterances(score: SeedScore, number: int | None) -> SeedScore:
    """The score on the first utterances of each speaker, by id; on all of them if ``number`` is None.

    Raises:
        InputError: the errors of single utterances are not known.
    """
    if score.counts is None:
        raise InputError(f"{score.path}: only its sums are kept, not the errors of each utterance")
    seen, counts = Counter[str](), {}
    for utterance, count in sorted(score.counts.items()):
        seen[count.unit] += 1
        if number is None or seen[count.unit] <= number:
            counts[utterance] = count
    errors, words = sum(count.errors for count in counts.values()), sum(count.words for count in counts.values())
    return replace(score, value=round(100 * errors / words, 4), errors=errors, words=words, counts=counts)


def of_test_set(rates: list[float], design: Design) -> dict[str, Any]:
    """The spread of a pilot's error rates, and what each number of seeds can see."""
    spread = spread_of(rates)
    return {
        "rates": rates,
        "sd": spread.sd,
        "sd_ci95": list(spread.ci95),
        "smallest": {
            str(number): {
                "one_claim": smallest_difference(spread.sd, number),
                "all_claims": smallest_difference(spread.sd, number, design.claims),
            }
            for number in design.seeds
        },
    }


def differences(pilot: Mapping[int, SeedScore], against: Mapping[int, SeedScore]) -> np.ndarray:
    """The rates of the pilot minus those of the other system in points, (seeds, speakers).

    Raises:
        InputError: they were scored on different utterances.
    """
    by_speaker = errors_by_unit([*pilot.values(), *against.values()])
    assert by_speaker is not None, "scores without the errors of utterances have been refused"
    errors = by_speaker.errors.reshape(2, len(pilot), -1)
    return 100 * (errors[0] - errors[1]) / by_speaker.words


def of_pairs(values: np.ndarray, design: Design) -> dict[str, Any]:
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
                str(number): {"one_claim": seen(number, longer), "all_claims": seen(number, longer, design.claims)}
                for number in design.seeds
            }
            for longer in design.longer
        },
    }


def part_of_set(text: str) -> tuple[str, int]:
    """``dev=9``: the first nine utterances of each speaker of dev."""
    name, _, number = text.partition("=")
    if name not in TEST_SETS or not number.isdecimal() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: write one of {', '.join(TEST_SETS)}, = and a number, as in dev=9")
    return name, int(number)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--scores", type=Path, required=True, metavar="FILE", help="scores.json.gz beside the tables of a run")
    add("--pilot", required=True, metavar="SYSTEM", help="the system of the pilot")
    add("--against", metavar="SYSTEM", help="another system with the same seeds")
    add("--trainings", type=int, nargs="+", default=[], metavar="SEED", help="seeds of its trainings; default: all")
    add("--utterances", type=part_of_set, nargs="+", default=[], metavar="SET=N", help="only the first of each speaker")
    add("--longer", type=float, nargs="+", default=[], metavar="N", help="lengths of test sets to try")
    add("--seeds", type=int, nargs="+", default=[3, 5, 10], metavar="N", help="numbers of seeds to try")
    add("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    args = parser.parse_args(argv)
    args.utterances = dict(args.utterances)
    return args


if __name__ == "__main__":
    run_main(main)
