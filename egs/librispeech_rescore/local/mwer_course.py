#!/usr/bin/env python3
"""Say and draw how MWER trainings went: what there was to gain, what was gained on dev, what so many seeds can show.

Writes a file of facts and, beside it, the picture of the trainings:

- lists: error rates of the first pass and of the oracle on each set;
- systems: for each, over seeds, expected word errors and word error rate of the dev lists at each evaluation, and how
  much of the way from the first pass to the oracle the model goes before and after MWER training;
- compared: on each test set the difference between a system and its initial model for each seed, its standard
  deviation, what it varies with, and the smallest difference that more seeds, speakers and words find in 80 of 100
  experiments, for this claim alone (local/power_of_claims.py: among all that are tested);
- pilot: trainings on dev by which settings were chosen.

Example:
  local/mwer_course.py --exp exp/mini --systems gpt2_mwer:gpt2_initial --output results/mwer.json
"""

import argparse
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.tables.claims.power import POWER, chance_of_words, components_of, smallest_difference
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.tables.scores import Count, read_utterances
from espnet_ext.work.plot_style import BLUE, STYLE, VERMILLION, save_png

DEV_SETS, TEST_SETS = ("dev-clean", "dev-other"), ("test-clean", "test-other")
SEEDS = (5, 8, 10)  # that are tried
TEST_SET_SIZES = ((1, 1), (2, 0.5), (2, 1), (3, 1))  # that are tried: times as many speakers, and words of each


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    made = [path.stem.removeprefix("oracle_") for path in sorted((args.exp / "lists").glob("oracle_*.json"))]
    lists = {part: rates_of_lists(args.exp, part) for part in dict.fromkeys((*DEV_SETS, *TEST_SETS, *made))}
    pairs = [pair.partition(":")[::2] for pair in args.systems]
    values = {
        "lists": lists,
        "systems": {name: trainings_of(args.exp / name, lists) for name, _ in pairs},
        "compared": {name: compared(args.exp, name, initial) for name, initial in pairs},
        "power": POWER,
        "pilot": [pilot_of(folder) for folder in args.pilot],
    }
    about = (
        "Expected word errors an utterance and word error rates in percent over MWER trainings; differences in points"
    )
    command = ["local/mwer_course.py", "--exp", f"exp/{args.exp.name}", "--systems", *args.systems]
    command += ["--pilot", *(f"exp/{'/'.join(path.parts[-3:])}" for path in args.pilot)] if args.pilot else []
    write_facts(args.output, about, shlex.join(command), values)
    save_png(draw_values(values), args.output.with_suffix(".png"), data=values)
    print("written:", args.output)


def read(path: Path) -> dict[str, Any]:
    """A JSON file of the run.

    Raises:
        InputError: there is none.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file: run stages 3 to 8 first")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def rates_of_lists(exp: Path, part: str) -> dict[str, Any]:
    """Lists, words, and word error rates of the first pass and of the oracle in percent."""
    report = read(exp / "lists" / f"oracle_{part}.json")
    first, best = report["oracle"][0], report["oracle"][-1]
    rates = {"first_pass": 100 * first["errors"] / report["words"], "oracle": 100 * best["errors"] / report["words"]}
    return {"lists": report["lists"], "words": report["words"], **rates}


def trainings_of(folder: Path, lists: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The course of a system's trainings by seed, and its means."""
    seeds = {path.parent.name.removeprefix("seed"): read(path) for path in sorted(folder.glob("seed*/training.json"))}
    if not seeds:
        raise InputError(f"{folder}: no training has ended: run stage 6 first")
    words = [lists[part]["words"] for part in DEV_SETS]
    first, oracle = (
        math.fsum(lists[part][name] * own for part, own in zip(DEV_SETS, words, strict=True)) / sum(words)
        for name in ("first_pass", "oracle")
    )
    courses = {seed: course(report) for seed, report in seeds.items()}
    before, after = (fmean(each[name] for each in courses.values()) for name in ("wer_before", "wer_after"))
    return {
        "seeds": courses,
        "fell": sum(each["errors_after"] < each["errors_before"] for each in courses.values()),
        **{name: fmean(each[name] for each in courses.values()) for name in ("errors_before", "errors_after")},
        "wer_before": before,
        "wer_after": after,
        "first_pass": first,
        "oracle": oracle,
        "closed_before": (first - before) / (first - oracle),
        "closed_after": (first - after) / (first - oracle),
    }


def course(report: Mapping[str, Any]) -> dict[str, Any]:
    """Dev lists at each evaluation of one training, before it, and with the model that is kept."""
    history, best = report["history"], report["best_step"]
    kept = next(values for values in history if values["step"] == best)
    return {
        "best_step": best,
        "posterior_scale": report["key"]["posterior_scale"],
        "effective": history[0]["dev_effective"],
        "steps": [values["step"] for values in history],
        "errors": [values["dev_mwer"] for values in history],
        "wer": [values["dev_wer"] for values in history],
        "errors_before": history[0]["dev_mwer"],
        "errors_after": kept["dev_mwer"],
        "wer_before": history[0]["dev_wer"],
        "wer_after": kept["dev_wer"],
    }


def compared(exp: Path, system: str, initial: str) -> dict[str, Any]:
    """A system minus its initial model on each test set, by seed, and what so many seeds can show."""
    found: dict[str, Any] = {"initial": initial}
    seeds = sorted(path.parent.name for path in (exp / system).glob("seed*/training.json"))
    for part in TEST_SETS:
        rates = [
            [float(read(exp / name / seed / "decode_default" / part / "score.json")["value"]) for seed in seeds]
            for name in (system, initial)
        ]
        differences = [own - other for own, other in zip(*rates, strict=True)]
        found[part] = {"differences": differences}
        if len(seeds) > 1:
            utterances = [[utterances_of(exp / name / seed, part) for name in (system, initial)] for seed in seeds]
            found[part] |= {"sd": stdev(differences), **what_would_decide(utterances)}
    return found


def what_would_decide(utterances: Sequence[Sequence[Sequence[Count]]]) -> dict[str, Any]:
    """What the difference varies with, and the smallest that test sets of some sizes find with so many seeds.

    Args:
        utterances: of each seed and each of the two systems, in one order.
    """
    words, names = [each.words for each in utterances[0][0]], [each.unit for each in utterances[0][0]]
    errors = np.array([[[each.errors for each in own] for own in pair] for pair in utterances])
    differences = errors[:, 0] - errors[:, 1]
    speakers = sorted(set(names))
    member = np.array([[name == speaker for name in names] for speaker in speakers], dtype=float)
    parts = components_of(100 * differences @ member.T / (member @ words))
    parts = chance_of_words(parts, words, differences, names)
    return {
        "variance": {"seed": parts.seed, "speaker": parts.unit, "words": parts.words, "rest": parts.rest},
        "smallest": [
            {
                "speakers": times * len(speakers),
                "utterances": round(times * longer * len(names)),
                "seeds": {
                    # of each of two systems, whose difference has the standard error of the components
                    str(n): smallest_difference(
                        parts.standard_error(n, times * len(speakers), longer) * math.sqrt(n / 2), n
                    )
                    for n in SEEDS
                },
            }
            for times, longer in TEST_SET_SIZES
        ],
    }


def utterances_of(folder: Path, part: str) -> list[Count]:
    """The counts of each utterance of a test set, with its speaker, in the order of their ids."""
    path = folder / "decode_default" / part / "per_utterance.tsv"
    if not path.is_file():
        raise InputError(f"{path}: no such file: run stages 3 to 8 first")
    return [count for _, count in sorted(read_utterances(path).items())]


def pilot_of(folder: Path) -> dict[str, Any]:
    """What a training of the pilot differed in, and the dev lists before and after."""
    report = read(folder / "training.json")
    found = course(report)
    names = ("best_step", "errors_before", "errors_after", "wer_before", "wer_after", "posterior_scale", "effective")
    settings = {
        "scorer": report["key"]["scorer"],
        "lr": report["key"]["lr"],
        "lambda": report["key"]["first_pass_weight"],
        "updates": found["steps"][-1],
    }
    return settings | {name: found[name] for name in names}


def draw_values(values: Mapping[str, Any]) -> Figure:
    """Expected word errors and word error rate of the dev lists over the updates, a line for each seed.

    x: updates; y above: expected word errors per utterance; y below: word error rate in percent.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.4, 4.8), layout="constrained")
        columns = figure.subplots(2, len(values["systems"]), sharex="col", squeeze=False)
        for axes, (name, system) in zip(columns.T, values["systems"].items(), strict=True):
            for seed, own in system["seeds"].items():
                label = None if seed != next(iter(system["seeds"])) else "one seed each"
                axes[0].plot(own["steps"], own["errors"], "-", color=BLUE, alpha=0.6, label=label)
                axes[1].plot(own["steps"], own["wer"], "-", color=BLUE, alpha=0.6)
                place = own["steps"].index(own["best_step"])
                for each, numbers in zip(axes, (own["errors"], own["wer"]), strict=True):
                    marked = "kept" if each is axes[0] and label else None
                    each.plot(own["best_step"], numbers[place], "o", color=VERMILLION, markersize=5, label=marked)
            axes[0].set_title(name, parse_math=False)
            axes[0].set_ylabel("Expected word errors\nper utterance of dev")
            axes[1].set_ylabel("Word error rate\nof dev (%)")
            axes[1].set_xlabel("Updates")
            axes[0].legend(frameon=False)
            for each in axes:
                each.grid(color="0.9", linewidth=0.6)
                each.spines[["top", "right"]].set_visible(False)
        return figure


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exp", type=Path, required=True, metavar="DIR", help="folder of the run, such as exp/mini")
    parser.add_argument(
        "--systems", nargs="+", required=True, metavar="SYSTEM:INITIAL", help="trained systems and what they begin with"
    )
    parser.add_argument("--pilot", type=Path, nargs="*", default=[], metavar="DIR", help="trainings of a pilot")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
