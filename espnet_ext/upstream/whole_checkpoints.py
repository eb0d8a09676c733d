"""ESPnet trainings whose checkpoints are whole, whenever they are killed and however full the disk is.

ESPnet 202611 writes ``checkpoint.pth`` over the one of the epoch before: a training that is killed meanwhile cannot go
on. Here a file takes its place once it is complete. And ESPnet writes ``<n>epoch.pth`` after ``checkpoint.pth``: a
training that is killed between the two takes the epoch to be done, but has no model of it. Here that is made up for
before it goes on.
"""

import os
from pathlib import Path
from typing import Any

import torch
from espnet2.train.trainer import Trainer

from espnet_ext.upstream.checkpoint import load_checkpoint
from espnet_ext.work.files import atomic_write

LATEST = "latest.pth"
_save, _resume = torch.save, Trainer.resume


def keep_checkpoints_whole() -> None:
    """Have all trainings of this process do as this module says. Calling it again changes nothing."""
    torch.save, Trainer.resume = save, staticmethod(resume)


def save(obj: Any, f: Any, *args: Any, **options: Any) -> None:
    """``torch.save``; a file that is named appears whole or is left as it was."""
    if not isinstance(f, str | os.PathLike):
        return _save(obj, f, *args, **options)
    with atomic_write(os.fspath(f), "wb") as file:
        _save(obj, file, *args, **options)


def resume(checkpoint: str | Path, *args: Any, **options: Any) -> None:
    """ESPnet's ``Trainer.resume``, from a folder that holds all that should be there after the checkpoint's epoch."""
    complete_last_epoch(Path(checkpoint))
    _resume(checkpoint, *args, **options)


def complete_last_epoch(checkpoint: Path) -> None:
    """Write ``<n>epoch.pth`` and ``latest.pth`` of a checkpoint's epoch if need be; remove what a killed run left half.

    Raises:
        InputError: not a checkpoint.
    """
    folder = checkpoint.parent
    for left in folder.glob(".*.pth.*"):
        left.unlink(missing_ok=True)
    state = load_checkpoint(checkpoint)
    model = folder / f"{state['reporter']['epoch']}epoch.pth"
    if not model.exists():
        save(state["model"], model)
    link = folder / f".{LATEST}.{os.getpid()}"
    link.symlink_to(model.name)
    link.replace(folder / LATEST)
