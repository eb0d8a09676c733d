"""Train language models for a second pass: on text, and for the fewest word errors."""

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

from espnet_ext.work.files import write_json

REPORT = "training.json"  # of a training, written last


def write_quantities(folder: Path, seeds: Iterable[int]) -> None:
    """Write what tables show of a system's trainings, its ``seed<N>/training.json``.

    Those of other seeds are left out: a table does not show them.

    ``best_step.json``: updates after which the model that was chosen is best, the mean
    over seeds; ``initial_kept.json``: seeds that found nothing better than their
    initial model; ``effective.json``: how many hypotheses share the posterior of a
    development list before training on lists, the mean over lists and seeds.
    """
    paths = [folder / f"seed{seed}" / REPORT for seed in seeds]
    reports = [
        json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()
    ]
    if not reports:
        return
    steps = [report["best_step"] for report in reports]
    found = {
        "best_step": (fmean(steps), "updates"),
        "initial_kept": (steps.count(0), "seeds"),
    }
    # Trainings on text have no lists, and no such number.
    effective = [report["history"][0].get("dev_effective") for report in reports]
    if None not in effective:
        found["effective"] = (round(fmean(effective), 2), "hypotheses")
    for name, (value, unit) in found.items():
        quantity = {"value": value, "unit": unit, "seeds": len(reports)}
        write_json(folder / f"{name}.json", quantity)
