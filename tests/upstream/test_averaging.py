"""Averages of epochs: against numpy, and which epochs they are of."""

import numpy as np
import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.upstream.averaging import (
    average_checkpoints,
    list_best_epochs,
    list_last_epochs,
    write_average,
)


@pytest.fixture
def training(tmp_path):
    """Five epochs of a training; epoch 2 is the best."""
    generator = torch.Generator().manual_seed(0)
    for epoch in range(1, 6):
        state = {
            "weight": torch.randn(3, 2, generator=generator),
            "half": torch.randn(4, generator=generator).half(),
            "steps": torch.tensor(epoch),
        }
        torch.save(state, tmp_path / f"{epoch}epoch.pth")
    accuracy = {1: 0.1, 2: 0.9, 3: 0.5, 4: 0.8, 5: 0.7}
    stats = {
        epoch: {"train": {"loss": 1.0 - value}, "valid": {"acc": value}}
        for epoch, value in accuracy.items()
    }
    torch.save({"reporter": {"epoch": 5, "stats": stats}}, tmp_path / "checkpoint.pth")
    return tmp_path


def test_mean_against_numpy(training):
    files = [training / f"{epoch}epoch.pth" for epoch in (1, 3, 4)]
    states = [torch.load(file, weights_only=True) for file in files]
    mean = average_checkpoints(files)
    np.testing.assert_allclose(
        mean["weight"],
        np.mean([s["weight"].numpy() for s in states], axis=0),
        rtol=1e-6,
    )
    assert mean["weight"].dtype == torch.float32 and mean["half"].dtype == torch.float16
    assert mean["steps"] == 4


def test_an_average_is_written(training):
    output = training / "last.ave_2.pth"
    write_average(training, output, "last", 2)
    expected = average_checkpoints([training / "5epoch.pth", training / "4epoch.pth"])
    assert torch.equal(
        torch.load(output, weights_only=True)["weight"], expected["weight"]
    )
    write_average(training, output, "best", 1)
    assert torch.load(output, weights_only=True)["steps"] == 2


def test_what_cannot_be_averaged_is_refused_by_name(training):
    four, five = training / "4epoch.pth", training / "5epoch.pth"
    torch.save({"weight": torch.zeros(2, 2)}, four)
    (training / "3epoch.pth").unlink()
    (training / "1epoch.pth").write_bytes(b"nonsense")
    for place, function, *given in (
        ("no checkpoints", average_checkpoints, []),
        ("no valid.cer", list_best_epochs, training, 1, ("valid", "cer", "min")),
        ("3epoch.pth.*keep_nbest_models", list_last_epochs, training, 3),
        ("4epoch.pth.*other parameters", average_checkpoints, [five, four]),
        (
            "1epoch.pth.*not a checkpoint",
            average_checkpoints,
            [training / "1epoch.pth"],
        ),
    ):
        with pytest.raises(InputError, match=place):
            function(*given)
    for which, count in (("last", 0), ("first", 1)):
        with pytest.raises(InputError, match=f"{which}:{count}: .*at least 1"):
            write_average(training, training / "x.pth", which, count)
