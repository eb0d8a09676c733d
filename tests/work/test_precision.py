"""Half precision on GPUs that emulate bfloat16."""

import pytest
import torch

from espnet_ext.work.precision import has_bfloat16


@pytest.mark.parametrize(
    ("capability", "kept"), [((7, 0), False), ((7, 5), False), ((8, 0), True)]
)
def test_a_gpu_that_emulates_bfloat16_computes_in_float32(
    capability, kept, monkeypatch, capfd
):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Old GPU")
    assert has_bfloat16("cuda", "use_amp") == kept
    said = capfd.readouterr().err
    assert said.count("\n") == (not kept)
    assert kept or all(each in said for each in ("8.0", "Old GPU", "use_amp"))


def test_a_cpu_has_bfloat16(capfd):
    assert has_bfloat16("cpu", "use_amp")
    assert not capfd.readouterr().err
