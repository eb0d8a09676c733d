"""The data of a recipe and a training are the same to the last bit, whatever should not matter differs."""

import json
import os
import subprocess
from pathlib import Path

import bench_machines as bench
import pytest


def test_data_do_not_depend_on_processes_hash_seeds_order_of_files_or_locale(tmp_path):
    other = bench.Factor("other", {"PYTHONHASHSEED": "1", "PYTHONPATH": "reversed", "LC_ALL": "C"})
    bench.run("data", tmp_path / "usual", bench.Factor("usual"), [])
    bench.run("data", tmp_path / "other", other, ["--nj=2"])
    for part in ("data", "exp"):
        expected = bench.digests(tmp_path / "usual" / part)
        assert len(expected) > 3 and bench.digests(tmp_path / "other" / part) == expected


def test_a_training_again_is_the_same_whatever_the_hash_seed(tmp_path):
    other = bench.Factor("other", {"PYTHONHASHSEED": "1"})
    found = [bench.train_with(tmp_path, factor.name, factor, epochs=1) for factor in (bench.Factor("usual"), other)]
    assert found[0]["initial"] == found[1]["initial"] != found[0]["final"] == found[1]["final"]
    assert json.loads((tmp_path / "train" / "usual" / "result.json").read_text()) == found[0]


@pytest.mark.skipif("avx2" not in Path("/proc/cpuinfo").read_text().split(), reason="the processor has no AVX2")
def test_recipes_use_the_instructions_that_most_processors_have():
    shell = "source utils/path.sh && env"
    given = {"PATH": os.environ["PATH"], "ATEN_CPU_CAPABILITY": "avx512"}
    found = subprocess.run(["bash", "-c", shell], cwd=bench.ROOT, env=given, capture_output=True, text=True, check=True)
    variables = dict(line.split("=", 1) for line in found.stdout.splitlines() if "=" in line)
    assert variables | bench.AVX2 | {"OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"} == variables
    script = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    python = [str(bench.ROOT / "tools" / "venv" / "bin" / "python"), "-c", script]
    assert subprocess.run(python, env=variables, capture_output=True, text=True, check=True).stdout == "AVX2\n"
