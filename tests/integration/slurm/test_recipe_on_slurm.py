"""A recipe on a real Slurm cluster, whose jobs are cancelled half-way: the table is
that of a local run.
"""

import subprocess
import time
from pathlib import Path

import pytest

from espnet_ext.tables.publish import read_results
from espnet_ext.tables.result import ResultRow

RECIPE = Path(__file__).parents[3] / "egs" / "librispeech_sem"
MINUTES = 60.0
pytestmark = pytest.mark.slurm


def command(folder: Path, name: str, *options: str) -> list[str]:
    folders = ["--expdir", str(folder / name), "--datadir", str(folder / "data")]
    return [
        "./run.sh",
        "--scale",
        "smoke",
        "--rows",
        "baseline",
        "--nj",
        "2",
        *folders,
        *options,
    ]


def rows(folder: Path) -> tuple[ResultRow, ...]:
    return read_results(folder / "results", RECIPE)[0].rows


def jobs(environment: dict[str, str]) -> list[str]:
    """The ids of running jobs."""
    options = ["squeue", "--noheader", "--states=RUNNING", "--format=%i"]
    return subprocess.run(
        options, env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.fixture(scope="module")
def local(folder_of_runs) -> Path:
    """The same rows on processes of this machine; it makes the data dirs that the
    cluster's run uses too.
    """
    run = subprocess.run(
        command(folder_of_runs, "local"),
        cwd=RECIPE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return folder_of_runs / "local"


def test_jobs_run(slurm):
    result = subprocess.run(
        ["srun", "hostname"],
        env=slurm,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.strip()


def test_a_run_whose_jobs_are_cancelled_gives_the_local_table(
    slurm, local, folder_of_runs
):
    """One job is cancelled in the statistics, and all of them are in the decoding, once
    a shard is done.
    """
    line = command(folder_of_runs, "cluster", "--parallel", "conf/parallel/slurm.yaml")
    here = folder_of_runs / "cluster"
    process = subprocess.Popen(
        line,
        cwd=RECIPE,
        env=slurm,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        cancelled = {}
        for log, done, count in (
            (
                here / "stats" / "train" / "log" / "stats.log",
                "stats/train/**/done.json",
                1,
            ),
            (
                here / "baseline/seed1/decode_default/log/decode.log",
                "baseline/seed1/decode_default/*/log/output.*/done.json",
                2,
            ),
        ):
            cancelled[log] = wait_for_work(process, slurm, here, log, done, count)
            subprocess.run(["scancel", *cancelled[log]], env=slurm, check=True)
        output, _ = process.communicate(timeout=30 * MINUTES)
    finally:
        process.kill()
    assert process.returncode == 0, output
    for log, ids in cancelled.items():
        assert log.read_text().count("lost 1 worker process") >= len(ids)
    assert rows(here) == rows(local)
    for test_set in ("test-clean", "test-other"):
        one, other = (
            (folder / "baseline/seed1/decode_default" / test_set / "text").read_text()
            for folder in (here, local)
        )
        assert one == other
    assert not jobs(slurm)


def wait_for_work(
    process, slurm, folder: Path, log: Path, done: str, count: int
) -> list[str]:
    """Wait until ``count`` jobs run and a shard is done in a step that goes on; return
    their ids.
    """
    deadline = time.monotonic() + 20 * MINUTES
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stdout.read()
        running = jobs(slurm)
        if log.exists() and len(running) >= count and any(folder.glob(done)):
            assert not log.with_suffix(".done").exists(), (
                f"{log}: over before a job could be cancelled"
            )
            return running[:count]
        time.sleep(0.2)
    raise AssertionError(f"{log}: no {count} jobs with a finished shard")
