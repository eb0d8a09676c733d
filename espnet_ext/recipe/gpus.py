"""Which GPUs each training and each decoding of a run gets, when ``--ngpu`` gives
several.

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
from typing import TYPE_CHECKING, Any

from espnet_ext.errors import InputError
from espnet_ext.recipe.steps import Step, joined, run_jobs, show
from espnet_ext.work.gpus import VISIBLE, list_names, require_gpus

if TYPE_CHECKING:
    from espnet_ext.recipe.run import Run

Lane = tuple[str, ...]  # the GPUs that one chain of steps sees
Make = Callable[
    ["Run", int], Iterable[Step]
]  # makes a chain from a run and the number of processes it may use


def gpu_names(count: int, visible: str | None) -> Lane:
    """Return the names of the first ``count`` GPUs, of those in
    ``CUDA_VISIBLE_DEVICES`` if that is set.
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


def visible_gpus(run: "Run") -> Lane:
    """Return the names of the GPUs that a run uses."""
    return gpu_names(run.ngpu, os.environ.get(VISIBLE))


def rounds(
    jobs: Sequence[str], gpus: Lane, most: int
) -> list[tuple[list[str], list[Lane]]]:
    """Return which jobs (the longest first) run in which lanes, in rounds that follow
    each other.

    ``most`` is the most GPUs that make one job faster.

    >>> rounds("abcde", ("0", "1", "2", "3"), 4)[1]
    (['e'], [('0', '1', '2', '3')])
    >>> rounds("abcde", ("0", "1", "2", "3"), 1)[0][1]
    [('0',), ('1',), ('2',), ('3',)]
    """
    single: list[Lane] = [(name,) for name in gpus]
    left = len(jobs) % len(gpus)
    each = min(most, len(gpus) // left) if left else 1
    if each <= 1:
        return [(list(jobs), single[: len(jobs)])] if jobs else []
    lanes: list[Lane] = list(batched(gpus[: each * left], each))
    full = [(list(jobs[:-left]), single)] if len(jobs) > left else []
    return [*full, (list(jobs[-left:]), lanes)]


def plan_lines(
    planned: Sequence[tuple[list[str], list[Lane]]], hours: Mapping[str, float]
) -> list[str]:
    """Return lines that say which job runs on which GPU, and until when if the hours of
    all jobs on one are known.

    A job on several GPUs takes as long: how much faster it is there is not known.
    """
    jobs = [name for names, _ in planned for name in names]
    known = all(name in hours for name in jobs)
    lines, whole = [], 0.0
    for names, lanes in planned:
        ends, shown = [0.0] * len(lanes), [list[str]() for _ in lanes]
        for name in names:
            first = ends.index(min(ends))
            ends[first] += hours[name] if known else 1.0
            shown[first].append(f"{name} ({hours[name]:.1f} h)" if known else name)
        for lane, end, own in zip(lanes, ends, shown, strict=True):
            until = f"; until hour {whole + end:.1f}" if known and own else ""
            lines.append(f"GPU {'+'.join(lane)}: {', '.join(own)}{until}")
        whole += max(ends)
    total = "; --rehearse estimates the hours"
    if known:
        total = (
            f": about {whole:.1f} h (one after the other "
            f"{sum(hours[name] for name in jobs):.1f} h)"
        )
    return [f"{len(jobs)} side by side{total}", *lines]


def hours_file(run: "Run") -> Path:
    """Return the file in which a rehearsal leaves the hours of each job, beside the
    run's experiments.
    """
    return run.expdir.with_name(f"{run.expdir.name}.hours.json")


def hours_known(run: "Run", jobs: Iterable[str]) -> dict[str, float]:
    """Return the hours of jobs, of any seed, on one GPU, as a rehearsal or the settings
    of full scale have them.
    """
    path, usual = (
        hours_file(run),
        run.sections.get("settings", {}).get("hours") if run.scale == "full" else None,
    )
    found: dict[str, Any] = (
        json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    )
    named = {name: found.get(seedless(name), usual) for name in jobs}
    return {name: value for name, value in named.items() if value is not None}


def seedless(name: str) -> str:
    """Return the name of a job without its seed: ``lm/gpt2`` of ``lm/seed1/gpt2``."""
    return re.sub(r"/seed\d+", "", name)


def check_gpus_here(run: "Run") -> None:
    """Raise InputError if this machine has fewer GPUs than work on it will need: all
    that neither ``train_cmd`` nor ``decode_cmd`` starts elsewhere.
    """
    trains_here = run.recipe.trains(run) and not run.launch
    decodes_here = run.parallel is None
    works_here = "" if run.decode_launch else run.recipe.uses_gpu_here(run)
    if not run.ngpu or not (trains_here or decodes_here or works_here):
        return
    names = {"training": trains_here, "decoding": decodes_here, works_here: works_here}
    work = " and ".join(name for name, is_here in names.items() if is_here)
    try:
        visible_gpus(run)
        require_gpus(run.ngpu if trains_here or decodes_here else 1)
    except InputError as error:
        raise InputError(
            f"{error}; {work} would run on this machine: start run.sh on one with GPUs, "
            "or set train_cmd and decode_cmd in cmd.sh where they start it elsewhere "
            "(docs/clusters.md)"
        ) from None


def jobs_at_once(run: "Run", count: int) -> int:
    """Return how many of these trainings ``train_cmd`` starts at once."""
    return min(count, int(run.options.get("train_jobs") or count))


def run_side_by_side(
    run: "Run", jobs: Mapping[str, Make], *, trains: bool = True, shards: bool = False
) -> None:
    """Run a chain of steps for each job: several in parallel on processors, or one on
    each GPU.

    Trainings (``trains``) have known hours. As many as ``--train_jobs`` says are
    started at once by cmd.sh's ``train_cmd``, with all GPUs each. With
    ``train_cmd_options`` alone, or what ``--parallel`` starts (``shards``), they run
    one by one with all GPUs.
    """
    trains = trains and not shards
    if trains and run.launch and jobs:
        at_once = jobs_at_once(run, len(jobs))
        if at_once > 1:
            show(f"{len(jobs)} by {run.launch[0]}, {at_once} at once (--train_jobs)")
        # as on GPUs, the others go on if one fails
        run_jobs((make(run, run.nj) for make in jobs.values()), lanes=[()] * at_once)
        return
    elsewhere = run.parallel if shards else trains and run.train_options
    if not run.ngpu or elsewhere:
        limit = 1 if run.ngpu else max(1, min(len(jobs), run.nj))
        run_jobs((make(run, max(1, run.nj // limit)) for make in jobs.values()), limit)
        return
    gpus = visible_gpus(run)
    hours = hours_known(run, jobs) if trains else {}
    longest_first = sorted(jobs, key=lambda name: -hours.get(name, 0.0))
    most = (
        len(gpus)
        if shards
        else run.sections.get("settings", {}).get("training_gpus") or len(gpus)
    )
    planned = rounds(longest_first, gpus, most)
    if trains and len(gpus) > 1 and len(jobs) > 1:
        for line in plan_lines(planned, hours):
            show(line)
    failures: list[Exception] = []
    for names, lanes in planned:
        own = replace(run, options={**run.options, "ngpu": str(len(lanes[0]))})
        nj = max(len(lanes[0]), run.nj // len(lanes))
        try:
            run_jobs((jobs[name](own, nj) for name in names), lanes=lanes)
        except InputError as error:  # the next round has other jobs
            failures.append(error)
    if failures:
        raise joined(failures)
