"""``local/trainings.py`` of spotify_longctx: what it says of trainings is in their checkpoints."""

from pathlib import Path

import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.recipe.run import load_script
from espnet_ext.tables.kept.facts import read_facts

# Other recipes have a script of this name as well, so it is not imported by name.
trainings = load_script(Path(__file__).parents[2] / "egs" / "spotify_longctx" / "local" / "trainings.py")


def checkpoint(folder, epochs):
    folder.mkdir(parents=True)
    stats = {
        number: {"train": {"total_count": count, "grad_norm": norm, "clip": clip}, "valid": {"loss": 1.0 / number}}
        for number, (count, norm, clip) in enumerate(epochs, start=1)
    }
    torch.save({"model": {}, "reporter": {"stats": stats, "epoch": len(epochs)}}, folder / "checkpoint.pth")


def test_updates_norms_and_clipped_updates(tmp_path):
    """The last epoch has 10 updates, the others 100 each, which weigh as much."""
    checkpoint(tmp_path / "base_10" / "seed1", [(100, 8.0, 100.0), (200, 4.0, 50.0), (300, 2.0, 20.0), (310, 1.0, 0.0)])
    checkpoint(tmp_path / "base_10" / "seed2", [(100, 6.0, 100.0), (200, 6.0, 50.0), (300, 2.0, 20.0), (310, 3.0, 0.0)])
    output = tmp_path / "trainings.json"
    trainings.main(["--exp", str(tmp_path), "--systems", "base_10", "--seeds", "1", "2", "--output", str(output)])
    (values,) = read_facts(output)["values"].values()
    assert (values["seeds"], values["updates"], values["dev_loss"]) == ([1, 2], 310, {"1": 0.25, "2": 0.25})
    assert (values["first_norm"], values["last_norm"]) == (6.0, 2.0)
    assert values["clipped"] == pytest.approx((100 + 50 + 20) / 310)


def test_a_system_that_was_not_trained_is_named(tmp_path):
    with pytest.raises(InputError, match="base_10/seed3/checkpoint.pth: no such file"):
        trainings.main(["--exp", str(tmp_path), "--systems", "base_10", "--seeds", "3", "--output", str(tmp_path)])
