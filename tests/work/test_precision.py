"""Half precision on devices that emulate bfloat16."""

import os
import subprocess
import sys

import pytest
import torch

from espnet_ext.work import precision
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


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_cpu_has_bfloat16_and_says_where_it_is_slow(is_fast, monkeypatch, capfd):
    monkeypatch.setattr(precision, "_is_slow_cpu", lambda _: not is_fast)
    assert has_bfloat16("cpu", "amp")
    assert capfd.readouterr().err.count("amp") == (not is_fast)


def test_a_cpu_that_is_held_to_avx2_is_slow():
    code = (
        "from espnet_ext.work.precision import has_bfloat16\nhas_bfloat16('cpu', 'amp')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "amp" in done.stderr
