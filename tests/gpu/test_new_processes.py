"""What may use a GPU is a new process that sees its own; the GPUs are fake."""

import subprocess
import sys
from pathlib import Path

import fake_gpus
import pytest

pytestmark = pytest.mark.skipif(
    bool(fake_gpus.missing()), reason=f"no fake GPUs: {fake_gpus.missing()}"
)
WORK = """
import os, time
from pathlib import Path

from espnet_ext.work.gpus import choose_device, list_gpus
from espnet_ext.work.parallel import map_shards


def use(shard):
    import torch

    place = torch.ones(1).to(choose_device(1))
    Path(shard["name"]).touch()
    while not (Path("0").exists() and Path("1").exists()):
        time.sleep(0.05)  # until each worker has one shard
    return str(place.device)


def ask(shard):
    import torch

    return torch.backends.cudnn.version() is not None


def start_cuda():
    import torch

    torch.cuda.init()


SHARDS = [{"name": "0"}, {"name": "1"}]
"""


def run(folder: Path, program: str, **machine: object) -> str:
    (folder / "work.py").write_text(WORK)
    script = folder / "script.py"
    script.write_text(
        f"from work import *\nif __name__ == '__main__':\n    {program}\n"
    )
    variables = {name: str(machine.pop(name)) for name in [*machine] if name.isupper()}
    environment = fake_gpus.environment(log=folder / "uses", **machine)
    done = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("nvml", [True, False])
def test_two_workers_take_two_gpus(nvml, tmp_path):
    program = "print(os.getpid(), *map_shards(use, SHARDS, nj=2, ngpu=1))"
    parent, *devices = run(tmp_path, program, number=2, nvml=nvml).split()
    assert devices == ["cuda:0", "cuda:0"]  # each sees one
    uses = fake_gpus.read_uses(tmp_path / "uses")
    work = [use for use in uses if use.what == "memory"]
    assert sorted(use.visible for use in work) == ["0", "1"]
    assert int(parent) not in {use.pid for use in uses}


def test_two_workers_take_two_slices_of_a_gpu(tmp_path):
    """CUDA shows a process that is given both the first alone."""
    run(
        tmp_path,
        "map_shards(use, SHARDS, nj=2, ngpu=1)",
        number=2,
        CUDA_VISIBLE_DEVICES="MIG-a,MIG-b",
    )
    uses = fake_gpus.read_uses(tmp_path / "uses")
    work = {use.visible for use in uses if use.what == "memory"}
    assert work == {"MIG-a", "MIG-b"}


def test_what_uses_no_gpu_works_where_cuda_has_started(tmp_path):
    program = "start_cuda(); print(map_shards(ask, SHARDS, nj=2))"
    assert run(tmp_path, program).strip() == "[True, True]"


def test_the_fake_driver_refuses_a_fork_as_the_real_one_does(tmp_path):
    program = (
        "start_cuda()\n"
        "    from multiprocessing import get_context\n"
        "    forked = get_context('fork').Process(target=use, args=SHARDS[:1])\n"
        "    forked.start(); forked.join(); print(forked.exitcode)"
    )
    assert run(tmp_path, program).strip() == "1"
