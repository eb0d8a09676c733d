#!/usr/bin/env python3
"""Say how each training went: best epoch, last losses, accuracy, share of bins masked, from ESPnet's checkpoints.

Example:
  local/trainings.py --exp exp/mini --systems baseline sem_m80_0 --output results/trainings.json
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.upstream.checkpoint import load_epochs

ABOUT = (
    "Trainings, by system and seed: epoch with the best accuracy of tokens on the dev sets; loss and accuracy of the "
    "last epoch; share of bins that SEM masked in it"
)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    values = courses(args.exp, args.systems)
    write_facts(args.output, ABOUT, shlex.join(["local/trainings.py", *(argv or sys.argv[1:])]), values)
    print("written:", args.output)


def courses(exp: Path, systems: Sequence[str]) -> dict[str, Any]:
    """Each training of some systems, their means over seeds, and epochs and updates, which all must have alike.

    Raises:
        InputError: a system has no trainings or one without a checkpoint, or they differ in their numbers of updates.
    """
    trainings: dict[str, dict[str, Any]] = {}
    lengths = set()
    for system in systems:
        folders = sorted((exp / system).glob("seed*"))
        if not folders:
            raise InputError(f"{exp / system}: no trainings (seed1, seed2 ...): train the system first")
        for folder in folders:
            epochs = load_epochs(folder)
            lengths.add((len(epochs), int(epochs[max(epochs)]["train"]["total_count"])))
            trainings.setdefault(system, {})[folder.name.removeprefix("seed")] = course(epochs)
    if len(lengths) > 1:
        raise InputError(f"{exp}: trainings of different lengths (epochs, updates): {sorted(lengths)}")
    ((epochs_of_all, updates),) = lengths
    means = {system: mean(list(seeds.values())) for system, seeds in trainings.items()}
    return {"trainings": trainings, "means": means, "epochs": epochs_of_all, "updates": updates}


def course(epochs: Mapping[int, Mapping[str, Any]]) -> dict[str, float]:
    """The best epoch, and the figures of the last one."""
    last = epochs[max(epochs)]
    return {
        "best_epoch": max(epochs, key=lambda epoch: epochs[epoch]["valid"]["acc"]),
        "train_loss": last["train"]["loss"],
        "dev_loss": last["valid"]["loss"],
        "dev_accuracy": last["valid"]["acc"],
        "masked": last["train"].get("masked", 0.0),
    }


def mean(seeds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over seeds."""
    return {key: fmean(seed[key] for seed in seeds) for key in seeds[0]}


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exp", type=Path, required=True, metavar="DIR", help="the recipe's folder of systems")
    parser.add_argument("--systems", nargs="+", required=True, metavar="NAME", help="systems with seed1, seed2 ...")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
