"""Shards in this process, in processes forked from it, on Dask workers: order, errors,
lost workers, threads, quiet.
"""

import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dask
import pytest

from espnet_ext.errors import InputError
from espnet_ext.work import gpus, parallel
from espnet_ext.work.calls import ShardError
from espnet_ext.work.parallel import map_shards

LOCAL = Path(__file__).parents[2] / "conf" / "parallel" / "local.yaml"

# Workers import the function of a shard by its module's name, so it stands in a module
# of its own.
FUNCTIONS = '''
import os, signal, time
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.work import parallel


def square(shard):
    time.sleep(0.05)
    return shard["x"] ** 2, os.getpid(), os.environ["OMP_NUM_THREADS"], os.getcwd()


def write(shard):
    """Write a file; where there is a "once" file, remove it and die on the way."""
    out = Path(shard["out"])
    with out.open("w") as file:
        file.write("half")
        file.flush()
        if shard["once"] and Path(shard["once"]).exists():
            Path(shard["once"]).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        file.write(f" {shard['x'] ** 3}")
    return str(out)


def fail(shard):
    kind = shard["kind"]
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "input":
        raise InputError("data/wav.scp: utt7 is bad: fix it")
    if kind == "exit":
        raise SystemExit(3)
    if kind == "bug":
        return 1 / 0
    time.sleep(shard.get("seconds", 0))
    return "fine"


def seen_gpu(folder):
    (folder / str(os.getpid())).touch()
    deadline = time.monotonic() + 60
    while len(list(folder.iterdir())) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)  # until each worker has got one
    return os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"]
'''


@pytest.fixture
def functions(tmp_path, monkeypatch):
    (tmp_path / "shard_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    sys.modules.pop("shard_functions", None)
    return importlib.import_module("shard_functions")


@pytest.fixture(params=["forked", "dask"])
def local(request) -> Path | None:
    """How work is spread on this machine: by processes of our own, or by a Dask cluster
    of local processes.
    """
    return None if request.param == "forked" else LOCAL


def test_one_job_runs_here_in_order_without_torch_or_dask(tmp_path):
    (tmp_path / "shard_functions.py").write_text(FUNCTIONS)
    program = (
        "import sys, os; os.environ['OMP_NUM_THREADS'] = '1'\n"
        "from shard_functions import square\n"
        "from espnet_ext.work.parallel import map_shards\n"
        "results = map_shards(square, [{'x': x} for x in (3, 1, 2)], nj=1)\n"
        "assert [r[0] for r in results] == [9, 1, 4] and {r[1] for r in results} "
        "== {os.getpid()}\n"
        "print({'torch', 'dask', 'distributed', 'espnet3', 'espnet2'} & "
        "set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"
    assert "3/3 shards" in done.stderr


def test_two_workers(functions, local, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("OMP_NUM_THREADS")
    here, scratch = tmp_path / "here", tmp_path / "scratch"
    here.mkdir()
    scratch.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    shards = [{"x": x} for x in range(7)]
    results = map_shards(
        functions.square, shards, nj=2, config=local, describe="squares"
    )
    assert [result[0] for result in results] == [x**2 for x in range(7)]
    workers = {result[1] for result in results}
    assert len(workers) == 2 and os.getpid() not in workers
    cores = len(os.sched_getaffinity(0))
    assert {result[2] for result in results} == {str(max(1, cores // 2))}
    assert {result[3] for result in results} == {str(here)}
    assert not any(here.iterdir())
    assert not [
        path for path in scratch.rglob("*") if path.is_file() and path.suffix != ".lock"
    ]
    assert "OMP_NUM_THREADS" not in os.environ
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("squares: 7/7 shards in ")
    assert all(line.startswith("squares: ") for line in lines), lines


def test_a_killed_worker_loses_nothing_and_a_shard_that_always_kills_is_named(
    functions, local, tmp_path, capsys
):
    once = tmp_path / "once"
    once.touch()
    shards = [
        {"x": x, "out": str(tmp_path / f"{x}.txt"), "once": str(once) if x == 3 else ""}
        for x in range(6)
    ]
    results = map_shards(functions.write, shards, nj=2, config=local)
    assert not once.exists()
    assert results == [shard["out"] for shard in shards]
    assert [Path(result).read_text() for result in results] == [
        f"half {x**3}" for x in range(6)
    ]
    assert "lost 1 worker process" in capsys.readouterr().err
    shards = [{"name": "good", "kind": "fine"}, {"name": "evil", "kind": "kill"}]
    with pytest.raises(
        ShardError, match="decode: shard evil failed: its worker process died 4 times"
    ):
        map_shards(functions.fail, shards, nj=2, config=local)


def test_a_worker_that_dask_forgets_is_started_again(functions, tmp_path):
    """On a machine with much other work a nanny starts its worker later than Dask
    forgets it.
    """
    shard = {"x": 2, "out": str(tmp_path / "out"), "once": str(tmp_path / "once")}
    (tmp_path / "once").touch()
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}):
        map_shards(functions.write, [shard], nj=1, config=LOCAL)
    assert (tmp_path / "out").read_text() == "half 8" and not (
        tmp_path / "once"
    ).exists()


def test_bad_input_in_a_worker_is_one_line_and_ends_the_run(functions, local):
    shards = [{"kind": "sleep", "seconds": 60}, {"kind": "input"}]
    with pytest.raises(InputError) as caught:
        map_shards(functions.fail, shards, nj=2, config=local)
    assert str(caught.value) == "data/wav.scp: utt7 is bad: fix it"
    assert not isinstance(caught.value, ShardError)


@pytest.mark.parametrize(
    "kind, cause",
    [("bug", "ZeroDivisionError: division by zero"), ("exit", "SystemExit: 3")],
)
def test_other_errors_show_the_shard_and_the_traceback(functions, kind, cause):
    with pytest.raises(ShardError) as caught:
        map_shards(
            functions.fail, [{"name": "17", "kind": kind}], nj=1, describe="statistics"
        )
    message = str(caught.value)
    assert message.startswith("statistics: shard 17 failed: Traceback")
    assert message.endswith(cause) and "shard_functions.py" in message


def test_progress_shows_while_a_shard_runs(functions, monkeypatch, capsys):
    monkeypatch.setattr(parallel, "PROGRESS_SECONDS", 0.05)
    shards = [{"kind": "fine"}, {"kind": "sleep", "seconds": 0.3}]
    assert map_shards(functions.fail, shards, nj=1, describe="features") == [
        "fine",
        "fine",
    ]
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("features: 1/2 shards, 0:00:00 elapsed, ETA 0:00:00") >= 2
    assert lines[-1] == "features: 2/2 shards in 0:00:00"


def test_no_shards_and_no_jobs(functions):
    assert map_shards(functions.square, [], nj=4) == []
    with pytest.raises(InputError, match="number of jobs must be at least 1, not 0"):
        map_shards(functions.square, [{"x": 1}], nj=0)


def test_workers_share_the_gpus(functions, monkeypatch, tmp_path):
    """Three workers on two GPUs; a worker keeps its GPU from shard to shard."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    (tmp_path / "begun").mkdir()
    found = map_shards(functions.seen_gpu, [tmp_path / "begun"] * 8, nj=3, ngpu=1)
    by_worker = {
        worker: {gpu for other, gpu in found if other == worker} for worker, _ in found
    }
    assert len(by_worker) == 3 and all(len(gpus) == 1 for gpus in by_worker.values())
    assert sorted(min(gpus) for gpus in by_worker.values()) == ["3", "3", "5"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3,5"


def test_a_lost_worker_leaves_its_gpu_to_the_next(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    make = gpus.NewWorkers(gpus.list_gpus()).Process
    first = make(target=time.sleep, args=(60,))
    first.start()
    second = make(target=time.sleep, args=(0,))
    second.start()
    assert (first.gpus, second.gpus) == (("3",), ("5",))
    second.join()
    assert make(target=str).gpus == ("5",)
    first.kill()
    first.join()
    assert make(target=str).gpus == ("3",)


def test_workers_that_use_no_gpu_see_none(functions, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    for number in range(3):
        (tmp_path / f"{number}").touch()
    for started in (False, True):
        monkeypatch.setattr(gpus, "has_cuda_started", lambda: started)  # noqa: B023
        found = map_shards(functions.seen_gpu, [tmp_path] * 2, nj=2)
        assert [visible for _, visible in found] == ["", ""]
