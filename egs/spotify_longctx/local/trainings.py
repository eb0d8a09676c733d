#!/usr/bin/env python3
"""Say how trainings went: updates, gradient norms, the share of updates that are clipped, and losses on dev.

Read from ESPnet's checkpoints. Whether contexts are treated alike shows in a system's rows of several contexts.

Example:
  local/trainings.py --exp exp/mini --systems deep_10 deep_40 --seeds 11 12 13 --output results/trainings.json
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from espnet_ext.command import run_main
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.upstream.checkpoint import load_epochs

ABOUT = (
    "Trainings by system: seeds, updates (batches: accum_grad is 1), mean norm of the gradient before clipping in the "
    "first and in the last third of the epochs, share of all updates that were clipped, and each seed's loss on dev "
    "after the last one"
)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    values = {
        system: summary({seed: load_epochs(args.exp / system / f"seed{seed}") for seed in args.seeds})
        for system in args.systems
    }
    write_facts(args.output, ABOUT, shlex.join(["local/trainings.py", *(argv or sys.argv[1:])]), values)
    print("written:", args.output)


def summary(seeds: Mapping[int, Mapping[int, Mapping[str, Any]]]) -> dict[str, Any]:
    """A system's trainings, means over seeds.

    Args:
        seeds: seed -> epoch -> what ESPnet's reporter kept, with ``grad_norm``, the mean norm of an epoch's gradients,
            and ``clip``, the percentage of its updates that were clipped.
    """
    courses = [course(epochs) for epochs in seeds.values()]
    means = {key: fmean(each[key] for each in courses) for key in courses[0]}
    dev = {str(seed): epochs[max(epochs)]["valid"]["loss"] for seed, epochs in seeds.items()}
    return {"seeds": list(seeds), **means, "updates": round(means["updates"]), "dev_loss": dev}


def course(epochs: Mapping[int, Mapping[str, Any]]) -> dict[str, float]:
    """The figures of one training."""
    trained = [epochs[epoch]["train"] for epoch in sorted(epochs)]
    updates = [after - before for before, after in pairwise([0, *(int(each["total_count"]) for each in trained)])]
    clipped = sum(each["clip"] / 100 * count for each, count in zip(trained, updates, strict=True))
    third = -(-len(trained) // 3)
    return {
        "updates": sum(updates),
        "first_norm": fmean(each["grad_norm"] for each in trained[:third]),
        "last_norm": fmean(each["grad_norm"] for each in trained[-third:]),
        "clipped": clipped / sum(updates),
    }


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exp", type=Path, required=True, metavar="DIR", help="the recipe's folder of systems")
    parser.add_argument("--systems", nargs="+", required=True, metavar="NAME", help="systems, such as base_10")
    parser.add_argument("--seeds", nargs="+", type=int, required=True, metavar="N", help="their seeds")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
