"""Which GPUs each training gets, in processes that write what they see: there need be
no GPU.
"""

import os
import time
from multiprocessing import get_context
from pathlib import Path

import pytest
import yaml

from espnet_ext.errors import InputError
from espnet_ext.recipe import steps
from espnet_ext.recipe.gpus import (
    locate_hours_file,
    name_gpus,
    plan_rounds,
    run_side_by_side,
)
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.steps import Step

FULL = Path(__file__).parents[2] / "egs" / "librispeech_sem" / "conf" / "full.yaml"


@pytest.mark.parametrize(
    ("visible", "names"),
    [(None, ("0", "1")), ("5,7, 9", ("5", "7")), ("GPU-3f,MIG-1", ("GPU-3f", "MIG-1"))],
)
def test_gpus_are_those_that_the_run_may_see(visible, names):
    assert name_gpus(2, visible) == names


@pytest.mark.parametrize("visible", ["", "5", "-1", "NoDevFiles", "5,,7", "5,-1,7"])
def test_fewer_visible_gpus_than_asked_for_are_refused(visible):
    with pytest.raises(InputError, match="--ngpu 2: CUDA_VISIBLE_DEVICES"):
        name_gpus(2, visible)


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("jobs", [1, 2, 5, 13])
@pytest.mark.parametrize("most", [1, 2, 8])
def test_each_job_runs_once_and_no_gpu_twice_at_a_time(jobs, gpus, most):
    names, there = (
        [f"job{number}" for number in range(jobs)],
        tuple(map(str, range(gpus))),
    )
    planned = plan_rounds(names, there, most)
    assert [name for chosen, _ in planned for name in chosen] == names
    for chosen, lanes in planned:
        used = [gpu for lane in lanes for gpu in lane]
        assert len(used) == len(set(used)) and set(used) <= set(there)
        assert (
            len(lanes) <= len(chosen)
            and {len(lane) for lane in lanes} == {len(lanes[0])}
            and len(lanes[0]) <= most
        )
    if most == 1 or jobs >= gpus:
        assert len(planned[0][1]) == min(jobs, gpus)


def note(output: str, others: int, ngpu: int, nj: int) -> None:
    """Write which GPUs this process sees, and wait until as many have begun as run at
    the same time.
    """
    folder = Path(output).parent
    Path(output).write_text(f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {ngpu} {nj}")
    deadline = time.monotonic() + 60
    while len(list(folder.glob("*.txt"))) < others:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def a_run(folder: Path, ngpu: int, **changes) -> Run:
    settings = yaml.safe_load(FULL.read_text())["settings"] | changes.pop(
        "settings", {}
    )
    options = {
        "ngpu": str(ngpu),
        "nj": "6",
        "scale": "full",
        "parallel": changes.pop("parallel", ""),
    }
    values = {
        "recipe": None,
        "tables": None,
        "selected": (),
        "expdir": folder / "exp",
        "datadir": folder / "data",
    }
    return Run(options=options, sections={"settings": settings}, **(values | changes))


def seen(run: Run, names: list[str], others: int, **options) -> list[str]:
    """Run a job of one step for each name, and return what each has seen."""
    outputs = {name: run.expdir.parent / f"{name}.txt" for name in names}

    def make(name):
        log, arguments = (
            outputs[name].with_suffix(".log"),
            {"output": str(outputs[name]), "others": others},
        )
        return lambda run, nj: [
            Step(name, log, note, arguments, free={"ngpu": run.ngpu, "nj": nj})
        ]

    run_side_by_side(run, {name: make(name) for name in names}, **options)
    return [outputs[name].read_text() for name in names]


def test_trainings_run_side_by_side_with_a_gpu_each(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    assert sorted(seen(a_run(tmp_path, 4), ["a", "b", "c", "d"], 4)) == [
        f"{gpu} 1 1" for gpu in "4567"
    ]


def test_fewer_trainings_than_gpus_share_them_if_that_helps(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    run = a_run(tmp_path, 4, settings={"training_gpus": None})
    assert sorted(seen(run, ["a", "b"], 2)) == ["0,1 2 3", "2,3 2 3"]


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({"train_options": ("--flag",)}, {}, "None 4 6"),
        ({"parallel": "slurm.yaml"}, {"shards": True}, "None 4 6"),
        ({"parallel": "slurm.yaml"}, {}, "0 1 3"),
    ],
)
def test_what_runs_elsewhere_runs_one_by_one(
    changes, options, expected, tmp_path, monkeypatch
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert seen(a_run(tmp_path, 4, **changes), ["a", "b"], 1, **options)[0] == expected


@pytest.mark.parametrize(("train_jobs", "at_once"), [("", 4), ("3", 3), ("9", 4)])
def test_a_launcher_gets_as_many_trainings_at_once_as_asked_for(
    train_jobs, at_once, tmp_path
):
    """Each waits until so many have begun, and none sees fewer GPUs than asked for."""
    run = a_run(tmp_path, 2, launch=("queue.pl",))
    run.options["train_jobs"] = train_jobs
    assert seen(run, ["a", "b", "c", "d"], at_once) == ["None 2 6"] * 4


def test_no_more_than_train_jobs_run_at_once(tmp_path):
    run = a_run(tmp_path, 0, launch=("queue.pl",))
    run.options["train_jobs"] = "2"
    names = ["a", "b", "c", "d", "e"]
    output = tmp_path / "times.txt"

    def make(name):
        log, arguments = tmp_path / f"{name}.log", {"output": str(output)}
        return lambda run, nj: [Step(name, log, begin_and_end, arguments)]

    run_side_by_side(run, {name: make(name) for name in names})
    running = most = 0
    for line in output.read_text().split():
        running += 1 if line == "begin" else -1
        most = max(most, running)
    assert most == 2


def test_two_runs_in_one_folder_train_each_system_once(tmp_path):
    """A step that the other run is at is waited for, and is not repeated."""
    run = a_run(tmp_path, 0, launch=("queue.pl",))
    output = tmp_path / "times.txt"

    def make(name):
        log = tmp_path / f"{name}.log"
        arguments = {"output": str(output), "name": name}
        return lambda run, nj: [Step(name, log, note_name, arguments)]

    jobs = {name: make(name) for name in "abc"}
    fork = get_context("fork")
    others = [fork.Process(target=run_both, args=(run, jobs)) for _ in range(2)]
    for process in others:
        process.start()
    for process in others:
        process.join()
        assert process.exitcode == 0
    assert sorted(output.read_text().split()) == ["a", "b", "c"]


def run_both(run: Run, jobs: dict) -> None:
    """Run jobs as a run.sh of its own would."""
    steps._PARENT = os.getppid()
    run_side_by_side(run, jobs)


def note_name(output: str, name: str) -> None:
    time.sleep(0.5)
    with open(output, "a") as file:
        file.write(f"{name}\n")


def begin_and_end(output: str) -> None:
    """Note when this process begins and ends."""
    for word in ("begin", "end"):
        with open(output, "a") as file:
            file.write(f"{word}\n")
        time.sleep(0.3)


def fail() -> None:
    raise InputError("no memory")


def test_the_other_trainings_go_on_after_one_has_failed(tmp_path, monkeypatch):
    """In its round, in its lane, and in the next round; all that failed are named, and
    the others are done.
    """
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    run, done = (
        a_run(tmp_path, 2, settings={"training_gpus": None}),
        {"output": str(tmp_path / "x.txt"), "others": 0},
    )

    def make(name):
        function, arguments = (
            (fail, {}) if name in ("a", "c") else (note, done | {"ngpu": 1, "nj": 1})
        )
        step = Step(
            name=name,
            log=tmp_path / f"{name}.log",
            function=function,
            arguments=arguments,
        )
        return lambda run, nj: iter([step])

    with pytest.raises(InputError, match="a: failed; c: failed"):
        run_side_by_side(run, {name: make(name) for name in "abcde"})
    assert [name for name in "abcde" if (tmp_path / f"{name}.done").exists()] == [
        "b",
        "d",
        "e",
    ]


def test_plan_of_table_1_has_hours_by_gpu(tmp_path, capsys):
    """By the recipe's own estimate, and then by those of a rehearsal, of which seeds
    are alike.
    """
    run, names = a_run(tmp_path, 4), [f"system{number}" for number in range(5)]
    hours = run.sections["settings"]["hours"]
    seen(run, names, 1)
    assert (
        f"about {2 * hours:.1f} h (one after the other {5 * hours:.1f} h)"
        in capsys.readouterr().out
    )
    locate_hours_file(run).write_text('{"a": 4.0, "b": 1.0}')
    run_side_by_side(
        run, {name: lambda run, nj: [] for name in ("b/seed1", "a/seed1", "a/seed2")}
    )
    printed = capsys.readouterr().out
    run_side_by_side(
        run, {name: lambda run, nj: [] for name in ("a/seed1", "a/seed2")}, trains=False
    )
    assert not capsys.readouterr().out
    assert (
        "about 4.0 h (one after the other 9.0 h)" in printed
        and "GPU 0: a/seed1 (4.0 h)" in printed
    )
