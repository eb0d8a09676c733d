"""GPUs that are not there: one line, no traceback."""

import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.upstream.with_plugins import check_gpus


def test_gpus_that_are_not_there_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(InputError, match="--ngpu 2: PyTorch sees no GPU here"):
        check_gpus(["--config", "train.yaml", "--ngpu", "2"])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match="--ngpu 2: PyTorch sees 1 GPU here"):
        check_gpus(["--ngpu=2"])


def test_what_is_there_or_is_espnets_to_refuse_passes(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for options in ([], ["--ngpu", "0"], ["--ngpu", "1"], ["--ngpu", "many"]):
        check_gpus(options)
