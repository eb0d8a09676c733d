"""Settings of clusters, batch systems (by stand-ins for their commands), and the end of
a run by a signal.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask
import psutil
import pytest

from espnet_ext.errors import InputError
from espnet_ext.work import cluster
from espnet_ext.work.calls import ShardError
from espnet_ext.work.parallel import map_shards
from espnet_ext.work.settings import check_settings
from espnet_ext.work.yaml_files import read_yaml

CONF = Path(__file__).parents[2] / "conf/parallel"
SBATCH = """#!/bin/sh
cp "$1" {folder}/job.$$.sh
setsid sh {folder}/job.$$.sh > {folder}/job.$$.log 2>&1 &
echo "Submitted batch job $!"
"""
SCANCEL = '#!/bin/sh\nkill -- -"$1"\n'
FUNCTIONS = """
import os, time

def work(x):
    return 2 * x, os.getcwd(), os.environ["OMP_NUM_THREADS"], os.environ.get("LOADED")

def sleep(x):
    open(f"at_work_{x}", "w").close()
    time.sleep(300)

def end_the_job_once(mark):
    if not os.path.exists(mark):
        open(mark, "w").close()
        os.killpg(0, 9)
    return os.getpid()
"""


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Return a function that puts a script on PATH under the name of a command."""
    folder = tmp_path / "commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def add(name: str, script: str) -> None:
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)

    return add


@pytest.fixture
def slurm(commands, tmp_path, monkeypatch):
    """Return the folder of the job scripts of a stand-in for Slurm, whose workers
    import ``slurm_functions``.
    """
    folder = tmp_path / "node"
    folder.mkdir()
    commands("sbatch", SBATCH.format(folder=folder))
    commands("scancel", SCANCEL)
    (tmp_path / "slurm_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("slurm_functions", None)
    return folder


def write(folder: Path, text: str) -> Path:
    path = folder / "parallel.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text, message",
    [
        ("env: [", "did not find expected node content"),
        ("env: slrum", "slrum"),
        ("env: local\nworkers: 3", "unknown key 'workers'"),
        ("env: local\nn_workers: 0", "n_workers: must be at least 1, is 0"),
    ],
)
def test_bad_settings_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        map_shards(print, [1], nj=1, config=write(tmp_path, text))


@pytest.mark.parametrize("name", ["slurm", "sge", "pbs"])
def test_job_scripts_of_the_recipe(name, tmp_path, monkeypatch):
    from espnet3.parallel.parallel import CLUSTER_MAP

    monkeypatch.chdir(tmp_path)
    settings = check_settings(
        cluster.ClusterSettings, read_yaml(CONF / f"{name}.yaml"), name
    )
    with cluster._hide_log(), CLUSTER_MAP[settings.env](**settings.options) as jobs:
        script = jobs.job_script()
    assert (
        f"\n{sys.executable} -m distributed.cli.dask_worker tcp://" in script
        and "exp/jobs" in script
    )
    assert "--nthreads 1" in script and "--nworkers" not in script


def test_slurm_jobs(slurm, tmp_path):
    from slurm_functions import work

    prologue = "['export LOADED=yes', 'export OMP_NUM_THREADS=2']"
    options = (
        f"{{cores: 1, memory: 1GB, log_directory: {tmp_path}/jobs, "
        f"job_script_prologue: {prologue}}}"
    )
    results = map_shards(
        work,
        list(range(4)),
        nj=1,
        config=write(tmp_path, f"env: slurm\noptions: {options}"),
    )
    assert results == [(2 * x, str(tmp_path), "2", "yes") for x in range(4)]
    (script,) = slurm.glob("job.*.sh")
    assert f"#SBATCH -o {tmp_path}/jobs/" in script.read_text()
    _wait_until_none(lambda process: str(script) in process.cmdline())


def test_a_job_that_has_ended_is_submitted_again(slurm, tmp_path):
    """The only job dies, with the worker's nanny, in the middle of a shard."""
    from slurm_functions import end_the_job_once

    config = write(tmp_path, "env: slurm\noptions: {cores: 1, memory: 1GB}")
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}):
        map_shards(end_the_job_once, [str(tmp_path / "mark")], nj=1, config=config)
    assert len(list(slurm.glob("job.*.sh"))) == 2


def test_a_cluster_that_does_not_start_is_shown(commands, tmp_path):
    commands(
        "sbatch", "#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n"
    )
    commands("scancel", SCANCEL)
    config = write(tmp_path, "env: slurm\noptions: {cores: 1, memory: 1GB}")
    with pytest.raises(
        ShardError,
        match="decode: the cluster starts no workers: .*error: invalid partition",
    ):
        map_shards(print, [1, 2], nj=2, config=config)
    config = write(
        tmp_path, "env: slurm\noptions: {cores: 1, memory: 1GB, no_such_option: 3}"
    )
    with pytest.raises(
        InputError, match="env slurm: the cluster does not start: .*no_such_option"
    ):
        map_shards(print, [1], nj=1, config=config)


@pytest.mark.parametrize(
    "config", [None, str(CONF / "local.yaml")], ids=["forked", "dask"]
)
@pytest.mark.parametrize(
    "number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_leaves_no_process_and_no_files(tmp_path, number, status, config):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "program.py").write_text(
        "import signal\n"
        "from functions import sleep\n"
        "from espnet_ext.work import parallel\n"
        "from espnet_ext.command import run_main\n"
        "def main():\n    parallel.map_shards(sleep, [1, 2, 3], nj=2, "
        f"config={config!r})\n"
        # which a shell has its background jobs ignore
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    run_main(main)\n"
    )
    program = subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "scratch")},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while len(list(tmp_path.glob("at_work_*"))) < 2:
        assert program.poll() is None, program.stderr.read()
        time.sleep(0.1)
    os.killpg(program.pid, number)
    _, output = program.communicate(timeout=60)
    assert program.returncode == status, output
    assert "Traceback" not in output
    assert not any(tmp_path.glob("scratch/espnet_ext_*"))
    _wait_until_none(lambda process: os.getsid(process.pid) == program.pid)


def _wait_until_none(belongs) -> None:
    deadline = time.monotonic() + 30
    while left := [
        process for process in psutil.process_iter() if _is_alive_and(belongs, process)
    ]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _is_alive_and(belongs, process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and belongs(process)
    except (psutil.Error, ProcessLookupError):
        return False
