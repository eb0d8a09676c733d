#!/usr/bin/env python3
"""Say how each training went: its epochs, updates, and the losses on dev, epoch by epoch, from ESPnet's checkpoints.

Writes a file of facts, by system and seed. A system whose loss on dev still falls at the end could train longer.

Example:
  local/trainings.py --encoder exp/mini/encoder --systems exp/mini/*/seed* --output results/trainings.json
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from trained_systems import by_name

from espnet_ext.command import run_main
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.upstream.checkpoint import load_epochs


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    values: dict[str, Any] = {}
    if args.encoder:
        values["encoder"] = course(args.encoder, "loss_ctc")
    values["systems"] = {name: summarise(seeds) for name, seeds in by_name(args.systems).items()}
    about = (
        "Epochs, updates, and losses on dev in nats an utterance (CTC's of the encoder, attention's of the decoders)"
    )
    write_facts(args.output, about, shlex.join(["local/trainings.py", *(argv or sys.argv[1:])]), values)
    print("written:", args.output)


def course(folder: Path, measure: str) -> dict[str, Any]:
    """Epochs, updates, and a measure on the development set by epoch of one training.

    Raises:
        InputError: there is no checkpoint.
    """
    epochs = load_epochs(folder)
    losses = [float(epochs[epoch]["valid"][measure]) for epoch in sorted(epochs)]
    return {
        "epochs": len(losses),
        "updates": int(epochs[max(epochs)]["train"]["total_count"]),
        "best_epoch": 1 + min(range(len(losses)), key=losses.__getitem__),
        "dev": losses,
    }


def summarise(seeds: Mapping[str, Path]) -> dict[str, Any]:
    """The loss on dev in the last epoch and the one before, as means over seeds, and each seed's course."""
    courses = {seed: course(folder, "loss_att") for seed, folder in seeds.items()}
    return {
        "last": fmean(each["dev"][-1] for each in courses.values()),
        "before_last": fmean(each["dev"][-2:][0] for each in courses.values()),
        "by_seed": courses,
    }


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, metavar="DIR", help="the shared encoder")
    parser.add_argument("--systems", type=Path, nargs="+", required=True, metavar="DIR", help="trained systems")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
