"""A Slurm cluster of one node on the loopback address, of Debian's packages, with its
files in a folder of its own.
"""

import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = (
    "munged",
    "slurmctld",
    "slurmd",
    "srun",
    "sbatch",
    "scancel",
    "squeue",
    "sinfo",
)
CPUS = 4
CONFIG = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=64000 State=UNKNOWN
PartitionName=loopback Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def _require_packages() -> None:
    """Debian's Slurm, installed if it is not there; skips where that cannot be."""
    if platform.system() != "Linux" or os.geteuid() != 0:
        pytest.skip("needs Linux and root: Slurm's daemons run jobs as other users")
    if not _missing():
        return
    if not shutil.which("apt-get"):
        pytest.skip(
            f"needs {', '.join(_missing())}: install Slurm and munge (this is no "
            "Debian, so not done here)"
        )
    # the packages' own daemons stay down: runlevel 1
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (
        ["update"],
        ["install", "-y", "--no-install-recommends", "slurm-wlm", "munge"],
    ):
        result = subprocess.run(
            ["apt-get", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            pytest.skip(
                f"apt-get {command[0]} failed: "
                f"{result.stderr.strip().splitlines()[-1:]}"
            )
    if _missing():
        pytest.skip(f"Debian's packages have no {', '.join(_missing())}")


def _missing() -> list[str]:
    return [name for name in PROGRAMS if not shutil.which(name)]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _wait(what: str, is_true, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.3)


@pytest.fixture(scope="session")
def slurm(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find the cluster; its jobs and daemons
    end with the session.
    """
    _require_packages()
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(mode=0o700)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    config = folder / "slurm.conf"
    config.write_text(
        CONFIG.format(
            host=host, folder=folder, ports=(_free_port(), _free_port()), cpus=CPUS
        )
    )
    environment = {**os.environ, "SLURM_CONF": str(config)}
    munge = [
        f"--{name}={folder}/munge/{name.partition('-')[0]}"
        for name in ("key-file", "pid-file", "log-file", "seed-file")
    ]
    commands = (
        [
            "munged",
            "--foreground",
            "--force",
            f"--socket={folder}/munge/socket",
            *munge,
        ],
        ["slurmctld", "-D", "-L", str(folder / "slurmctld.log")],
        ["slurmd", "-D", "-N", host, "-L", str(folder / "slurmd.log")],
    )
    daemons: list[subprocess.Popen] = []
    try:
        for command in commands:
            with open(folder / f"{command[0]}.out", "w") as output:
                daemons.append(
                    subprocess.Popen(
                        command,
                        env=environment,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )
            if command[0] == "munged":
                _wait("munge's socket", (folder / "munge" / "socket").exists)
        _wait(
            "an idle node",
            lambda: "idle" in _say(["sinfo", "--noheader", "--format=%t"], environment),
        )
        yield environment
    finally:
        _say(["scancel", "--user=root"], environment)
        _stop(daemons, environment)


def _stop(daemons: list[subprocess.Popen], environment: dict[str, str]) -> None:
    """The last one first: slurmd ends what is left of jobs."""
    if len(daemons) == 3:
        _wait(
            "the end of all jobs",
            lambda: not _say(["squeue", "--noheader"], environment).strip(),
        )
    for daemon in reversed(daemons):
        daemon.terminate()
        try:
            daemon.wait(timeout=20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _say(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    ).stdout


@pytest.fixture(scope="session")
def folder_of_runs(tmp_path_factory) -> Path:
    """Where recipes write; compute nodes see it, as they are this machine."""
    return tmp_path_factory.mktemp("runs")
