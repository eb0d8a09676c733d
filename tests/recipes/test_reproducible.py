"""The data of a recipe and a training are the same to the last bit, whatever should not matter differs."""

import gzip
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runs import smoke_run

from espnet_ext.recipe.run import load_recipe

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "egs" / "librispeech_sem"
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
SKIPPED = {".log", ".done", ".lock", ".yaml", ".pth"}  # they hold times and folders; parameters are compared below
# A folder lists its files in the order of its file system: here in reverse.
REVERSED = """
import os
_listdir, _scandir = os.listdir, os.scandir
os.listdir = lambda *a: sorted(_listdir(*a), reverse=True)
class _Scan:
    def __init__(self, *a):
        with _scandir(*a) as found:
            self.found = iter(sorted(found, key=lambda entry: entry.name, reverse=True))
    def __iter__(self): return self
    def __next__(self): return next(self.found)
    def __enter__(self): return self
    def __exit__(self, *a): pass
    def close(self): pass
os.scandir = _Scan
"""


STAGES = list(load_recipe(RECIPE).stages)
STAGES = STAGES[: STAGES.index("training") + 1]
OPTIONS = ("--rows=baseline", "--pretrain=false")


def run_usually(folder: Path) -> None:
    smoke_run(RECIPE.name, *OPTIONS, f"--stop_stage={len(STAGES)}", folder=folder)


def run_otherwise(folder: Path, **environment: str) -> None:
    """Run the stages in two processes, with other variables."""
    given = [f"--recipe={RECIPE}", f"--expdir={folder}/exp", f"--datadir={folder}/data", "--scale=smoke", "--nj=2"]
    calls = [["run", stage, *given, *OPTIONS] for stage in STAGES]
    script = f"from espnet_ext.cli.program import call\nfor words in {calls}: assert call(words) == 0"
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **AVX2, **environment}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def digests(folder: Path) -> dict[str, str]:
    """Return a digest of each file, and of the parameters of the one system."""
    import torch

    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and path.suffix not in SKIPPED and not path.name.startswith(".") and "/log/" not in name:
            found[name] = digest(path, folder)
    [model] = (folder / "exp").glob("baseline*/seed*/best*.ave.pth")
    arrays = {name: value.numpy() for name, value in torch.load(model, weights_only=True).items()}
    return found | {"parameters": digest_of(arrays)}


def digest(path: Path, folder: Path) -> str:
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return digest_of(dict(arrays))
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return hashlib.sha256(data.replace(str(folder).encode(), b"FOLDER")).hexdigest()


def digest_of(arrays: dict[str, np.ndarray]) -> str:
    parts = [name.encode() + np.ascontiguousarray(value).tobytes() for name, value in sorted(arrays.items())]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_results_do_not_depend_on_processes_hash_seeds_order_of_files_or_locale(tmp_path):
    (tmp_path / "reversed").mkdir()
    (tmp_path / "reversed" / "sitecustomize.py").write_text(REVERSED)
    path = os.pathsep.join([str(tmp_path / "reversed"), *filter(None, [os.environ.get("PYTHONPATH")])])
    run_usually(tmp_path / "usual")
    run_otherwise(tmp_path / "other", PYTHONHASHSEED="1", PYTHONPATH=path, LC_ALL="C")
    expected, other = (digests(tmp_path / name) for name in ("usual", "other"))
    assert len(expected) > 20
    assert {name: value for name, value in expected.items() if other.get(name) != value} == {}
    assert len(other) == len(expected)


@pytest.mark.skipif("avx2" not in Path("/proc/cpuinfo").read_text().split(), reason="the processor has no AVX2")
def test_recipes_use_the_instructions_that_most_processors_have():
    shell = "source utils/path.sh && env"
    given = {"PATH": os.environ["PATH"], "ATEN_CPU_CAPABILITY": "avx512"}
    found = subprocess.run(["bash", "-c", shell], cwd=ROOT, env=given, capture_output=True, text=True, check=True)
    variables = dict(line.split("=", 1) for line in found.stdout.splitlines() if "=" in line)
    assert variables | AVX2 | {"OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"} == variables
    script = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    python = [str(ROOT / "tools" / "venv" / "bin" / "python"), "-c", script]
    assert subprocess.run(python, env=variables, capture_output=True, text=True, check=True).stdout == "AVX2\n"
