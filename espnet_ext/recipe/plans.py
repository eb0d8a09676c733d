"""Count the updates that a training by ESPnet will make, and say if they suffice."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.recipe.run import Run
from espnet_ext.work.yaml_files import read_yaml

ESPNET_EPOCHS = 40  # ESPnet's max_epoch
# ESPnet's schedulers that warm up, and the updates for which they do by default.
USUAL_WARMUP = {"warmuplr": 25_000, "noamlr": 25_000}


def count_epochs(config: Mapping[str, Any]) -> int:
    """Return the epochs of a training, or its passes over long recordings."""
    if "chunk_conf" in config:
        return config["chunk_conf"].get("passes", 1)
    return config.get("max_epoch") or ESPNET_EPOCHS


def count_updates(config: Mapping[str, Any], batches: int) -> int:
    """Return the updates of a training with ``batches`` in a pass over its data.

    Stages (of P2's growing networks) have epochs of their own length, and come first.
    """
    usual = batches
    # a pass over long recordings has all of them, however many that are
    if "chunk_conf" not in config:
        usual = config.get("num_iters_per_epoch") or batches
    # max_epoch counts those of the stages, too
    left = count_epochs(config)
    iterations = 0
    for stage in config.get("stages") or ():
        iterations += stage["epochs"] * (stage["num_iters_per_epoch"] or batches)
        left -= stage["epochs"]
    # ESPnet updates the model once in ``accum_grad`` batches.
    return math.ceil((iterations + left * usual) / (config.get("accum_grad") or 1))


def count_batches(config: Mapping[str, Any], shapes: Path) -> int:
    """Return about how many batches a pass over the utterances of a shape file has."""
    lengths = [value.split(",") for value in read_table(shapes).values()]
    # the defaults are ESPnet's
    kind = config.get("batch_type", "folded")
    if kind in ("numel", "length"):
        sizes = [math.prod(map(int, length)) for length in lengths]
        return math.ceil(sum(sizes) / config.get("batch_bins", 1_000_000))
    # "about": folded batches hold fewer where utterances are long
    return math.ceil(len(lengths) / config.get("batch_size", 20))


def find_warmup_fault(config: Mapping[str, Any], updates: int) -> str:
    """Say that a training ends while its learning rate still rises; empty if not."""
    usual = USUAL_WARMUP.get(config.get("scheduler") or "", 0)
    warmup = (config.get("scheduler_conf") or {}).get("warmup_steps", usual)
    # ESPnet itself refuses what is no number
    if not isinstance(warmup, int) or updates > warmup:
        return ""
    return (
        f"its {updates:,} updates end within the {warmup:,} of the learning rate's "
        "warm-up: train on more data or for more epochs, or shorten warmup_steps in a "
        "config of your own"
    )


def checks_plans(run: Run) -> bool:
    """Return whether trainings must reach their learning rate: not at smoke."""
    return run.scale != "smoke"


def check_plan(run: Run, name: str, config: Path, shapes: Path) -> None:
    """Refuse a training that ends within its warm-up, by the lengths in a shape file.

    In a rehearsal these are of a few utterances, and its report checks the plan.
    """
    if run.rehearsed or not checks_plans(run) or not shapes.is_file():
        return
    values = read_yaml(config)
    updates = count_updates(values, count_batches(values, shapes))
    if fault := find_warmup_fault(values, updates):
        raise InputError(f"{name}: {fault}")
