"""Checkpoints that are complete, even if the training is killed or the disk is full.

ESPnet 202611 overwrites ``checkpoint.pth`` of the previous epoch, and a training that
is killed meanwhile cannot resume; here a file is replaced only by a complete one.
ESPnet writes ``<n>epoch.pth`` after it: a training that is killed between the two
counts the epoch as done, but has no model of it. Here that is written before the
training resumes.
"""

import os
from pathlib import Path
from typing import Any

import torch
from espnet2.train.trainer import Trainer

from espnet_ext.errors import InputError
from espnet_ext.upstream.checkpoint import (
    LATEST,
    list_misfits,
    load_checkpoint,
    read_shapes,
)
from espnet_ext.work.files import atomic_write

_save = torch.save
_resume = Trainer.resume


def keep_checkpoints_whole() -> None:
    """Apply this to all trainings of this process. Calling it again changes nothing."""
    torch.save = save
    Trainer.resume = staticmethod(resume)


def save(obj: Any, f: Any, *args: Any, **options: Any) -> None:
    """Save as ``torch.save`` does, but a file completely or not at all.

    A file that is open already is written as ``torch.save`` does.
    """
    if not isinstance(f, str | os.PathLike):
        return _save(obj, f, *args, **options)
    with atomic_write(os.fspath(f), "wb") as file:
        _save(obj, file, *args, **options)


def resume(
    checkpoint: str | Path,
    model: torch.nn.Module,
    *args: Any,
    **options: Any,
) -> None:
    """Resume as ESPnet's ``Trainer.resume`` does, from a complete epoch.

    Missing files of the checkpoint's epoch are written before. Raises InputError: the
    checkpoint is of another model or optimiser.
    """
    state = complete_last_epoch(Path(checkpoint))
    try:
        _resume(checkpoint, model, *args, **options)
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        found = read_shapes(state["model"])
        wanted = read_shapes(model.state_dict())
        said = str(error).strip().split("\n")[0]
        reason = list_misfits(found, wanted) or said
        advice = (
            "train with the options that it was trained with, or into another folder"
        )
        raise InputError(
            f"{checkpoint}: cannot be resumed with this config: {reason}: {advice}"
        ) from error


def complete_last_epoch(checkpoint: Path) -> Any:
    """Write a checkpoint's missing ``<n>epoch.pth`` and ``latest.pth``.

    Returns what the checkpoint holds.
    """
    folder = checkpoint.parent
    # what a killed training had begun to write
    for left in folder.glob(".*.pth.*"):
        left.unlink(missing_ok=True)
    state = load_checkpoint(checkpoint)
    # the checkpoint holds the parameters of its epoch, too
    model = folder / f"{state['reporter']['epoch']}epoch.pth"
    if not _is_whole(model):
        save(state["model"], model)
    # A link is made beside and renamed, since none can be replaced in place.
    link = folder / f".{LATEST}.{os.getpid()}"
    link.symlink_to(model.name)
    link.replace(folder / LATEST)
    return state


def _is_whole(model: Path) -> bool:
    try:
        load_checkpoint(model, "meta")
    except InputError:
        return False
    return True
