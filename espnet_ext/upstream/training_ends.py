"""Whether an ESPnet training has ended well.

ESPnet exits with status 0 when one has diverged: here its own record of the epochs is
read.
"""

import math
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from espnet2.train.distributed_utils import get_node_rank, get_rank

from espnet_ext.errors import InputError
from espnet_ext.upstream.checkpoint import load_epochs
from espnet_ext.work.yaml_files import read_yaml

ADVICE = (
    "lower the learning rate (optim_conf: lr), warm up for longer (scheduler: "
    "warmuplr), or clip gradients (grad_clip), and train into another folder"
)
# ESPnet's trainer notes it of each update that it makes, and of none that it skips
UPDATED = "grad_norm"
# Guessing costs log(tokens) a frame or token: of an hour that is some 500,000.
MOST_LOSS = 1e8
BESIDES = {"time", "total_count", "gpu_max_cached_mem_GB"}


def check_training_end(args: Namespace, optimizers: int = 1) -> None:
    """Refuse a training that ESPnet calls done and that is not.

    Such a training has diverged, has made no update, or has stopped before its last
    epoch without a reason. ``args`` are the arguments of its command. What the training
    has changed of them is in its ``config.yaml``. ESPnet's trainers with several
    ``optimizers`` note other numbers, which are not judged.
    """
    if not _writes_checkpoints(args):
        return
    without_epochs = ("collect_stats", "dry_run", "no_forward_run", "use_deepspeed")
    if any(getattr(args, name, False) for name in without_epochs):
        return
    folder = Path(args.output_dir)
    epochs = load_epochs(folder)
    last = max(epochs, default=0)  # ESPnet counts epochs from 1
    if not last:
        raise InputError(f"{folder}: no epoch was trained: see the log")
    if optimizers == 1:
        for epoch in sorted(epochs):
            _check_epoch(folder, epoch, epochs[epoch])
    config = read_yaml(folder / "config.yaml")
    if last < config["max_epoch"] and not _is_out_of_patience(config, epochs):
        raise InputError(
            f"{folder}: the training stopped after epoch {last} of "
            f"{config['max_epoch']}, and not by patience: see the end of its log"
        )


def _writes_checkpoints(args: Namespace) -> bool:
    """Say whether this process, or one that it has started, writes the checkpoints.

    It is the first of a training by several. Others end while that one still writes the
    last epoch.
    """
    if not getattr(args, "distributed", False):
        return True
    find_rank = get_node_rank if args.multiprocessing_distributed else get_rank
    return find_rank(args.dist_rank, args.dist_launcher) in (None, 0)


def _check_epoch(folder: Path, epoch: int, stats: Mapping[str, Any]) -> None:
    train = stats.get("train", {})
    valid = stats.get("valid", {})
    if UPDATED not in train:
        raise InputError(
            f"{folder}: no update was made in epoch {epoch}: all its gradients are NaN "
            f"or infinite, or accum_grad is above the number of its batches: {ADVICE}"
        )
    if not valid.keys() - BESIDES:
        raise InputError(
            f"{folder}: epoch {epoch} has no valid statistics: check the data of "
            "--valid_data_path_and_name_and_type"
        )
    # ESPnet's mean leaves out batches whose loss is not finite: no batch had another
    loss = valid.get("loss", 0.0)
    if not (math.isfinite(loss) and loss < MOST_LOSS):
        raise InputError(
            f"{folder}: diverged in epoch {epoch}: the loss on the development set is "
            f"{loss:.3g}: {ADVICE}"
        )


def _is_out_of_patience(
    config: Mapping[str, Any],
    epochs: Mapping[int, Mapping[str, Any]],
) -> bool:
    """Say whether the best epoch is longer ago than ``patience``, as ESPnet stops."""
    if config.get("patience") is None:
        return False
    phase, name, mode = config["early_stopping_criterion"]
    values = {epoch: stats[phase][name] for epoch, stats in epochs.items()}
    best_value = min(values.values()) if mode == "min" else max(values.values())
    # of equals ESPnet takes the latest
    best = max(epoch for epoch, value in values.items() if value == best_value)
    return max(values) - best > config["patience"]
