"""Recipes on machines with fake GPUs, up to the device, which has no kernels.

With ``--ngpu 0`` all smoke runs are on such a machine: ``runs.smoke_run``.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import fake_gpus
import pytest
from runs import EGS, PATIENCE, smoke_run

pytestmark = pytest.mark.skipif(
    bool(fake_gpus.missing()), reason=f"no fake GPUs: {fake_gpus.missing()}"
)
BASELINE = ("--rows", "baseline")


@dataclass(frozen=True)
class Machine:
    """A machine with so many fake GPUs, which NVML counts or does not."""

    number: int
    nvml: bool


@dataclass(frozen=True)
class Training:
    """The rows whose trainings are tried, the stage that trains, and the machine."""

    rows: tuple[str, ...]
    stage: int
    machine: Machine


TRAININGS = {
    "librispeech_sem": Training(
        rows=("--table", "1", "--rows", "baseline,0dB"),
        stage=5,
        machine=Machine(2, nvml=False),
    ),
    "asru2019_cs": Training(
        rows=("--table", "1", "--rows", "reweight"),
        stage=4,
        machine=Machine(1, nvml=True),
    ),
    "librispeech_rescore": Training(
        rows=("--table", "1", "--rows", "GPT-2 CE"),
        stage=4,
        machine=Machine(1, nvml=False),
    ),
    "libricss_stitch": Training(
        rows=("--table", "2", "--rows", "Stitcher WCOE"),
        stage=5,
        machine=Machine(1, nvml=True),
    ),
    # one training on both GPUs
    "spotify_longctx": Training(
        rows=("--figure", "1", "--rows", "Rev16 at 10 s"),
        stage=4,
        machine=Machine(2, nvml=True),
    ),
}


def run_fresh(
    recipe: str, folder: Path, machine: Machine, *options: str
) -> tuple[subprocess.CompletedProcess, list[fake_gpus.Use]]:
    """Run a recipe on a machine with GPUs; return its end and the uses of GPUs.

    It runs without the server of stages, which has ESPnet loaded.
    """
    log = folder / f"uses_{machine.number}_{machine.nvml}"
    command = ["./run.sh", "--scale", "smoke"]
    command += ["--expdir", str(folder / "exp")]
    command += ["--datadir", str(folder / "data")]
    done = subprocess.run(
        [*command, *options],
        cwd=EGS / recipe,
        env=fake_gpus.environment(machine.number, machine.nvml, log),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done, fake_gpus.read_uses(log)


def run_on_gpus(
    recipe: str, folder: Path, machine: Machine, *options: str
) -> list[fake_gpus.Use]:
    """Run a recipe with all GPUs of a machine; return the uses of their memory.

    It must fail on the device.
    """
    given = ("--ngpu", str(machine.number), *options)
    done, uses = run_fresh(recipe, folder, machine, *given)
    logs = "".join(path.read_text() for path in folder.rglob("*.log"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert fake_gpus.FORKED not in logs
    work = [use for use in uses if use.what == "memory"]
    assert work, f"the device was not reached:\n{done.stderr}"
    return work


def test_without_gpus_a_recipe_reaches_its_table_and_leaves_them_alone(tmp_path):
    machine = Machine(1, nvml=True)
    done, uses = run_fresh("librispeech_sem", tmp_path, machine, *BASELINE)
    assert done.returncode == 0, done.stderr
    assert not uses
    assert (tmp_path / "exp" / "results" / "tables.md").is_file()


@pytest.mark.parametrize("recipe", sorted(TRAININGS))
def test_trainings_reach_the_device(recipe, tmp_path):
    training = TRAININGS[recipe]
    before = str(training.stage - 1)
    smoke_run(recipe, *training.rows, "--stop_stage", before, folder=tmp_path)
    stage = str(training.stage)
    only = ("--stage", stage, "--stop_stage", stage)
    machine = training.machine
    uses = run_on_gpus(recipe, tmp_path, machine, *training.rows, *only)
    assert len({use.pid for use in uses}) == machine.number
    if recipe == "librispeech_sem":  # two trainings, each on a GPU of its own
        assert {use.visible for use in uses} == {"0", "1"}


def test_decodings_reach_the_device(tmp_path):
    """In workers alone: the stages' process starts no CUDA, nor does that of the step.

    The first of the two workers to fail ends the other.
    """
    smoke_run("librispeech_sem", *BASELINE, "--stop_stage", "5", folder=tmp_path)
    only = ("--nj", "1", "--stage", "6", "--stop_stage", "6")
    given = ("--ngpu", "2", *BASELINE, *only)
    machine = Machine(2, nvml=True)
    done, uses = run_fresh("librispeech_sem", tmp_path, machine, *given)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "memory" in {use.what for use in uses}
    assert {use.visible for use in uses} <= {"0", "1"}
