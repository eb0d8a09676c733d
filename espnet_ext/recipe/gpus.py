"""Share the GPUs of ``--ngpu`` among the trainings and decodings of a run.

As many trainings as GPUs are fastest side by side, with one each. What is left over
shares the GPUs evenly, as far as several make a training faster (the setting
``training_gpus`` of a recipe).
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

from espnet_ext.errors import InputError
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.steps import Lane, Step, join_errors, run_jobs, show
from espnet_ext.tables.schema import System
from espnet_ext.work.gpus import VISIBLE, list_names, require_gpus

# Makes a chain of steps from a run and the number of processes that it may use.
Make = Callable[[Run, int], Iterable[Step]]


class Round(NamedTuple):
    """Jobs that run in the same lanes, before those of the next round begin.

    A lane takes the next of the jobs when it has done one.
    """

    jobs: list[str]
    lanes: list[Lane]


def name_gpus(count: int, visible: str | None) -> Lane:
    """Return the names of the first ``count`` GPUs.

    ``visible`` is ``CUDA_VISIBLE_DEVICES``, if that is set: those of it, which a batch
    system has given, and whose names may be UUIDs.
    """
    if visible is None:
        return tuple(map(str, range(count)))
    names = list_names(visible)
    if len(names) < count:
        raise InputError(
            f"--ngpu {count}: CUDA_VISIBLE_DEVICES is '{visible}', which has "
            f"{len(names)}: give --ngpu {len(names)}, "
            "or ask the batch system for more"
        )
    return names[:count]


def list_gpus_of_run(run: Run) -> Lane:
    """Return the names of the GPUs that a run uses."""
    return name_gpus(run.ngpu, os.environ.get(VISIBLE))


def plan_rounds(jobs: Sequence[str], gpus: Lane, most: int) -> list[Round]:
    """Plan which jobs (the longest first) run in which lanes, in rounds.

    ``most`` is the most GPUs that make one job faster.

    >>> plan_rounds("abcde", ("0", "1", "2", "3"), 4)[1]
    Round(jobs=['e'], lanes=[('0', '1', '2', '3')])
    >>> plan_rounds("abcde", ("0", "1", "2", "3"), 1)[0].lanes
    [('0',), ('1',), ('2',), ('3',)]
    """
    if not jobs:
        return []
    single: list[Lane] = [(name,) for name in gpus]
    # of the jobs that fill no round of a GPU each
    left = len(jobs) % len(gpus)
    gpus_each = 1
    if left:
        gpus_each = min(most, len(gpus) // left)
    if gpus_each <= 1:
        lanes = single[: len(jobs)]
        return [Round(list(jobs), lanes)]
    given = gpus[: gpus_each * left]
    shared: list[Lane] = list(batched(given, gpus_each))
    last = Round(list(jobs[-left:]), shared)
    if len(jobs) == left:
        return [last]
    first = Round(list(jobs[:-left]), single)
    return [first, last]


def describe_plan(planned: Sequence[Round], hours: Mapping[str, float]) -> list[str]:
    """Return lines that say which job runs on which GPU, and until when if it is known.

    ``hours`` are those of a job on one GPU. On several it is said to take as long: how
    much faster it is there is not known.
    """
    jobs = [name for each in planned for name in each.jobs]
    # a lane with one job of unknown length has an unknown end
    if not all(name in hours for name in jobs):
        hours = {}
    lines: list[str] = []
    begun = 0.0  # hours until this round
    for each in planned:
        lanes, end = _describe_round(each, hours, begun)
        lines += lanes
        begun = end
    total = "; --rehearse estimates the hours"
    if hours:
        one_by_one = sum(hours[name] for name in jobs)
        total = f": about {begun:.1f} h (one after the other {one_by_one:.1f} h)"
    return [f"{len(jobs)} side by side{total}", *lines]


def _describe_round(
    planned: Round, hours: Mapping[str, float], begun: float
) -> tuple[list[str], float]:
    """Return a line for each lane of a round, and the hour at which the round ends.

    ``begun`` is the hour at which it begins.
    """
    ends = [begun] * len(planned.lanes)
    shown: list[list[str]] = [[] for _ in planned.lanes]
    for name in planned.jobs:
        # as ``run_jobs`` does: the next job goes to the lane that is free first
        free_first = ends.index(min(ends))
        # with hours unknown the lanes take jobs in turn
        ends[free_first] += hours.get(name, 1.0)
        text = name
        if hours:
            text += f" ({hours[name]:.1f} h)"
        shown[free_first].append(text)
    lines = []
    for lane, end, own in zip(planned.lanes, ends, shown, strict=True):
        gpus = "+".join(lane)
        line = f"GPU {gpus}: {', '.join(own)}"
        if hours and own:
            line += f"; until hour {end:.1f}"
        lines.append(line)
    return lines, max(ends)


def locate_hours_file(run: Run) -> Path:
    """Return the file in which a rehearsal leaves the hours of each job."""
    # beside the experiments, which a rehearsal leaves as they are
    return run.expdir.with_name(f"{run.expdir.name}.hours.json")


def read_known_hours(run: Run, jobs: Iterable[str]) -> dict[str, float]:
    """Return the hours of jobs on one GPU, as a rehearsal or the settings have them."""
    path = locate_hours_file(run)
    rehearsed: dict[str, Any] = {}
    if path.is_file():
        rehearsed = json.loads(path.read_text(encoding="utf-8"))
    usual = None
    if run.scale == "full":
        settings = run.sections.get("settings", {})
        usual = settings.get("hours")
    found = {}
    for name in jobs:
        # a rehearsal has one seed, and all take as long
        hours = rehearsed.get(remove_seed(name), usual)
        if hours is not None:
            found[name] = hours
    return found


def remove_seed(name: str) -> str:
    """Return the name of a job without its seed: ``lm/gpt2`` of ``lm/seed1/gpt2``."""
    return re.sub(r"/seed\d+", "", name)


def check_gpus_here(run: Run) -> None:
    """Raise InputError if this machine has fewer GPUs than work on it will need.

    Work on this machine is all that neither ``train_cmd`` nor ``decode_cmd`` starts
    elsewhere.
    """
    if not run.ngpu:
        return
    work = []
    if run.recipe.trains(run) and not run.launch:
        work.append("training")
    if run.parallel is None:
        work.append("decoding")
    # what is neither takes one GPU only
    needed = run.ngpu if work else 1
    other = "" if run.decode_launch else run.recipe.uses_gpu_here(run)
    if other:
        work.append(other)
    if not work:
        return
    try:
        list_gpus_of_run(run)
        require_gpus(needed)
    except InputError as error:
        raise InputError(
            f"{error}; {' and '.join(work)} would run on this machine: start run.sh on "
            "one with GPUs, or set train_cmd and decode_cmd in cmd.sh where they start "
            "it elsewhere (docs/gpus.md)"
        ) from None


def count_jobs_at_once(run: Run, count: int) -> int:
    """Return how many of these trainings ``train_cmd`` starts at once."""
    return min(count, int(run.options.get("train_jobs") or count))


def run_side_by_side(
    run: Run, jobs: Mapping[str, Make], *, trains: bool = True, shards: bool = False
) -> None:
    """Run a chain of steps for each job, in parallel on processors or on GPUs.

    Trainings (``trains``) have known hours. As many as ``--train_jobs`` says are
    started at once by cmd.sh's ``train_cmd``, with all GPUs each. With
    ``train_cmd_options`` alone, or what ``--parallel`` starts (``shards``), they run
    one by one with all GPUs.
    """
    trains = trains and not shards
    if trains and run.launch and jobs:
        _run_by_launcher(run, jobs)
        return
    elsewhere = shards and run.parallel is not None
    if trains:
        elsewhere = bool(run.train_options)
    if not run.ngpu or elsewhere:
        # elsewhere one by one, each with all that the batch system is asked for
        limit = 1
        if not run.ngpu:
            limit = max(1, min(len(jobs), run.nj))
        nj = max(1, run.nj // limit)
        run_jobs((make(run, nj) for make in jobs.values()), limit)
        return
    gpus = list_gpus_of_run(run)
    hours = {}
    if trains:
        hours = read_known_hours(run, jobs)
    # the shorter ones fill the gaps at the end of a round
    longest_first = sorted(jobs, key=lambda name: -hours.get(name, 0.0))
    most = len(gpus)
    if not shards:
        settings = run.sections.get("settings", {})
        most = settings.get("training_gpus") or most
    planned = plan_rounds(longest_first, gpus, most)
    if trains and len(gpus) > 1 and len(jobs) > 1:
        for line in describe_plan(planned, hours):
            show(line)
    _run_rounds(run, jobs, planned)


def _run_by_launcher(run: Run, jobs: Mapping[str, Make]) -> None:
    """Run trainings by ``train_cmd``, whose batch system gives them their GPUs."""
    at_once = count_jobs_at_once(run, len(jobs))
    if at_once > 1:
        show(f"{len(jobs)} by {run.launch[0]}, {at_once} at once (--train_jobs)")
    # in lanes, even if empty: there the others go on if one fails, as on GPUs
    run_jobs((make(run, run.nj) for make in jobs.values()), lanes=[()] * at_once)


def _run_rounds(run: Run, jobs: Mapping[str, Make], planned: Sequence[Round]) -> None:
    """Run all rounds of a plan, even if a job fails; then raise what has failed."""
    failures: list[Exception] = []
    for names, lanes in planned:
        # the lanes of a round are equally wide
        ngpu = len(lanes[0])
        options = {**run.options, "ngpu": str(ngpu)}
        own = replace(run, options=options)
        # one process feeds each GPU, even if that makes more than --nj
        nj = max(ngpu, run.nj // len(lanes))
        try:
            run_jobs((jobs[name](own, nj) for name in names), lanes=lanes)
        except InputError as error:
            failures.append(error)
    if failures:
        raise join_errors(failures)


def run_each_system(
    run: Run, work: Callable[[Run, System, int, int], Iterable[Step]], **kind: bool
) -> None:
    """Run a chain of steps for each system and seed, by :func:`run_side_by_side`.

    ``work`` makes it from the run, a system, a seed, and the number of processes that
    it may use.
    """

    # a function of its own: in the loop all jobs would share the last system and seed
    def make_job(system: System, seed: int) -> Make:
        return lambda run, nj: work(run, system, seed, nj)

    jobs = {}
    for system in run.systems:
        for seed in run.list_seeds(system):
            jobs[run.name_training(system, seed)] = make_job(system, seed)
    run_side_by_side(run, jobs, **kind)
