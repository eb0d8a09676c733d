"""Recipes on machines with one and two fake GPUs, up to the device, which has no
kernels. (With ``--ngpu 0`` all smoke runs are on such a machine: ``runs.smoke_run``.)
"""

import subprocess
from pathlib import Path

import fake_gpus
import pytest
from runs import EGS, PATIENCE, smoke_run

pytestmark = pytest.mark.skipif(
    bool(fake_gpus.missing()), reason=f"no fake GPUs: {fake_gpus.missing()}"
)
# The rows whose trainings are tried, the stage that trains, and the machine.
BASELINE, WINDOWS = ("--rows", "baseline"), ("--figure", "1", "--rows", "Rev16 at 10 s")
TRAININGS = {
    "librispeech_sem": (("--table", "1", "--rows", "baseline,0dB"), 5, 2, False),
    "asru2019_cs": (("--table", "1", "--rows", "reweight"), 4, 1, True),
    "librispeech_rescore": (("--table", "1", "--rows", "GPT-2 CE"), 4, 1, False),
    "libricss_stitch": (("--table", "2", "--rows", "Stitcher WCOE"), 5, 1, True),
    "spotify_longctx": (WINDOWS, 4, 2, True),  # one training on both
}


def run_fresh(
    recipe: str, folder: Path, *options: str, number: int, nvml: bool
) -> tuple[subprocess.CompletedProcess, list[fake_gpus.Use]]:
    """Run a recipe on a machine with so many GPUs, without the server of stages, which
    has ESPnet loaded. Return its end and the uses of GPUs.
    """
    folders = ["--expdir", str(folder / "exp"), "--datadir", str(folder / "data")]
    log = folder / f"uses_{number}_{nvml}"
    done = subprocess.run(
        ["./run.sh", "--scale", "smoke", *folders, *options],
        cwd=EGS / recipe,
        env=fake_gpus.environment(number, nvml, log),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done, fake_gpus.read_uses(log)


def run_on_gpus(
    recipe: str, folder: Path, *options: str, number: int, nvml: bool
) -> list[fake_gpus.Use]:
    """Run a recipe with all GPUs of a machine; it must fail on the device. Return the
    uses of their memory.
    """
    given = ("--ngpu", str(number), *options)
    done, uses = run_fresh(recipe, folder, *given, number=number, nvml=nvml)
    logs = "".join(path.read_text() for path in folder.rglob("*.log"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert fake_gpus.FORKED not in logs
    work = [use for use in uses if use.what == "memory"]
    assert work, f"the device was not reached:\n{done.stderr}"
    return work


def test_without_gpus_a_recipe_reaches_its_table_and_leaves_them_alone(tmp_path):
    done, uses = run_fresh("librispeech_sem", tmp_path, *BASELINE, number=1, nvml=True)
    assert done.returncode == 0, done.stderr
    assert not uses
    assert (tmp_path / "exp" / "results" / "tables.md").is_file()


@pytest.mark.parametrize("recipe", sorted(TRAININGS))
def test_trainings_reach_the_device(recipe, tmp_path):
    rows, stage, number, nvml = TRAININGS[recipe]
    smoke_run(recipe, *rows, "--stop_stage", str(stage - 1), folder=tmp_path)
    only = ("--stage", str(stage), "--stop_stage", str(stage))
    uses = run_on_gpus(recipe, tmp_path, *rows, *only, number=number, nvml=nvml)
    assert len({use.pid for use in uses}) == number
    if recipe == "librispeech_sem":  # two trainings, each on a GPU of its own
        assert {use.visible for use in uses} == {"0", "1"}


def test_decodings_reach_the_device(tmp_path):
    """In workers alone: the stages' process starts no CUDA, nor does that of the step.
    The first of the two workers to fail ends the other.
    """
    smoke_run("librispeech_sem", *BASELINE, "--stop_stage", "5", folder=tmp_path)
    only = ("--nj", "1", "--stage", "6", "--stop_stage", "6")
    given = ("--ngpu", "2", *BASELINE, *only)
    done, uses = run_fresh("librispeech_sem", tmp_path, *given, number=2, nvml=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "memory" in {use.what for use in uses}
    assert {use.visible for use in uses} <= {"0", "1"}
