"""``local/trainings.py`` of librispeech_sem: what it says of trainings is in their checkpoints."""

from pathlib import Path

import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.recipe.run import load_script
from espnet_ext.tables.kept.facts import read_facts

# The code-switching recipe has a script of this name as well, so it is not imported by name.
trainings = load_script(Path(__file__).parents[2] / "egs" / "librispeech_sem" / "local" / "trainings.py")


def checkpoint(folder, accuracies, updates=10, **train):
    folder.mkdir(parents=True)
    stats = {
        epoch: {
            "train": {"total_count": updates * epoch, "loss": 2.0 - accuracy, **train},
            "valid": {"acc": accuracy, "loss": 3.0 - accuracy},
        }
        for epoch, accuracy in enumerate(accuracies, start=1)
    }
    torch.save({"model": {}, "reporter": {"stats": stats, "epoch": len(accuracies)}}, folder / "checkpoint.pth")


def test_courses_and_means(tmp_path):
    checkpoint(tmp_path / "baseline" / "seed1", [0.5, 0.75])
    checkpoint(tmp_path / "baseline" / "seed2", [0.75, 0.25])
    checkpoint(tmp_path / "sem" / "seed1", [0.5, 0.5], masked=0.25)
    output = tmp_path / "trainings.json"
    trainings.main(["--exp", str(tmp_path), "--systems", "baseline", "sem", "--output", str(output)])
    values = read_facts(output)["values"]
    assert (values["epochs"], values["updates"]) == (2, 20)
    assert values["trainings"]["baseline"]["2"] == {
        "best_epoch": 1, "train_loss": 1.75, "dev_loss": 2.75, "dev_accuracy": 0.25, "masked": 0.0
    }  # fmt: skip
    assert values["means"]["baseline"]["best_epoch"] == 1.5 and values["means"]["baseline"]["dev_accuracy"] == 0.5
    assert values["means"]["sem"]["masked"] == 0.25


def test_what_cannot_be_compared_is_refused(tmp_path):
    checkpoint(tmp_path / "baseline" / "seed1", [0.5, 0.75])
    checkpoint(tmp_path / "baseline" / "seed2", [0.5])
    with pytest.raises(InputError, match="different lengths"):
        trainings.courses(tmp_path, ["baseline"])
    with pytest.raises(InputError, match="train the system first"):
        trainings.courses(tmp_path, ["sem"])
    (tmp_path / "sem" / "seed1").mkdir(parents=True)
    with pytest.raises(InputError, match="checkpoint.pth: no such file"):
        trainings.courses(tmp_path, ["sem"])
