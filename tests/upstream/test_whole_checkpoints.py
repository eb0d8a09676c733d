"""Checkpoints of ESPnet's trainings: whole after a failure in the middle of writing,
and complete before going on.
"""

import io
import os
from pathlib import Path

import pytest
import torch
from espnet2.train.trainer import Trainer

from espnet_ext.upstream import whole_checkpoints
from espnet_ext.upstream.checkpoint import load_checkpoint
from espnet_ext.upstream.whole_checkpoints import (
    complete_last_epoch,
    keep_checkpoints_whole,
)


class Unwritable:
    """Something of which torch writes a part before it fails, as on a full disk."""

    def __reduce__(self):
        raise OSError(28, "No space left on device")


@pytest.fixture
def patched(monkeypatch):
    """As a training command has it; put back afterwards."""
    monkeypatch.setattr(torch, "save", torch.save)
    monkeypatch.setattr(Trainer, "resume", staticmethod(Trainer.resume))
    keep_checkpoints_whole()
    keep_checkpoints_whole()


def folder_after(epoch: int, folder: Path) -> dict[str, torch.Tensor]:
    """What a training has left: its checkpoint, and the models of the epochs before."""
    model = {"weight": torch.full((3,), float(epoch))}
    torch.save(
        {"model": model, "reporter": {"stats": {}, "epoch": epoch}},
        folder / "checkpoint.pth",
    )
    torch.save({"weight": torch.zeros(3)}, folder / "1epoch.pth")
    (folder / "latest.pth").symlink_to("1epoch.pth")
    return model


def test_a_failure_in_the_middle_leaves_the_checkpoint_as_it_was(patched, tmp_path):
    path = tmp_path / "checkpoint.pth"
    torch.save({"epoch": 1, "weight": torch.ones(1000)}, path)
    before = path.read_bytes()
    with pytest.raises(OSError, match="No space left"):
        torch.save({"weight": torch.zeros(1000), "rest": Unwritable()}, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    torch.save({"epoch": 2}, str(path))
    assert load_checkpoint(path) == {"epoch": 2}


def test_open_files_and_options_go_to_torch(patched, tmp_path):
    memory = io.BytesIO()
    torch.save({"epoch": 3}, memory)
    assert torch.load(io.BytesIO(memory.getvalue())) == {"epoch": 3}
    torch.save({"epoch": 4}, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    assert not (tmp_path / "old.pth").read_bytes().startswith(b"PK")
    assert load_checkpoint(tmp_path / "old.pth") == {"epoch": 4}


def test_the_model_of_the_last_epoch_is_made_up_for(tmp_path):
    model = folder_after(2, tmp_path)
    (tmp_path / ".3epoch.pth.x7f_k2").write_bytes(b"half")
    complete_last_epoch(tmp_path / "checkpoint.pth")
    assert torch.equal(
        load_checkpoint(tmp_path / "2epoch.pth")["weight"], model["weight"]
    )
    assert os.readlink(tmp_path / "latest.pth") == "2epoch.pth"
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"1epoch.pth", "2epoch.pth", "checkpoint.pth", "latest.pth"}


def test_espnet_resumes_through_it(patched, tmp_path, monkeypatch):
    folder_after(5, tmp_path)
    seen = []
    monkeypatch.setattr(
        whole_checkpoints,
        "_resume",
        lambda *args, **options: seen.append((args, options)),
    )
    Trainer.resume(checkpoint=tmp_path / "checkpoint.pth", model=None)
    assert seen == [((tmp_path / "checkpoint.pth", None), {})]
    assert (tmp_path / "5epoch.pth").exists()
