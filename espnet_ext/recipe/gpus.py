"""Which GPUs each training and each decoding of a run gets, when ``--ngpu`` gives several.

A training on several GPUs shares each of its batches among them, and the number of updates stays. So trainings side by
side, with one GPU each, are never slower as long as there are as many of them as GPUs. What is left over shares the
GPUs evenly, if a training is faster on several (the setting ``training_gpus`` of a recipe has the most that help).
"""

import heapq
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import batched, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espnet_ext.errors import InputError
from espnet_ext.recipe.steps import Step, joined, run_jobs, show

if TYPE_CHECKING:
    from espnet_ext.recipe.run import Run

NO_GPU = ("", "-1", "NoDevFiles")  # the last one is Slurm's
Lane = tuple[str, ...]  # the GPUs that one chain of steps sees
Make = Callable[["Run", int], Iterable[Step]]  # makes a chain from a run and the number of processes it may use


def gpu_names(count: int, visible: str | None) -> Lane:
    """Return the names of the first ``count`` GPUs, of those in ``CUDA_VISIBLE_DEVICES`` if that is set.

    Raises:
        InputError: it has fewer. As CUDA does, this takes none from the first that is no GPU on.
    """
    if visible is None:
        return tuple(map(str, range(count)))
    names = tuple(takewhile(lambda name: name not in NO_GPU, map(str.strip, visible.split(","))))
    if len(names) < count:
        raise InputError(
            f"--ngpu {count}: CUDA_VISIBLE_DEVICES is '{visible}', which has {len(names)}: give --ngpu {len(names)}, "
            "or ask the batch system for more"
        )
    return names[:count]


def visible_gpus(run: "Run") -> Lane:
    """Return the names of the GPUs that a run uses."""
    return gpu_names(run.ngpu, os.environ.get("CUDA_VISIBLE_DEVICES"))


def require_gpus(run: "Run") -> None:
    """Refuse a run on more GPUs than it can use here; those of a cluster's nodes are not known."""
    visible_gpus(run)
    if run.parallel:
        return
    import torch

    if (found := torch.cuda.device_count()) < run.ngpu:
        raise InputError(f"--ngpu {run.ngpu}: PyTorch finds {found} here: give --ngpu {found}, or see espnet-ext check")


def rounds(jobs: Sequence[str], gpus: Lane, most: int) -> list[tuple[list[str], list[Lane]]]:
    """Return which jobs run in which lanes, in rounds that follow each other.

    Args:
        jobs: names, the longest first.
        gpus: names of the GPUs.
        most: the most GPUs that make one job faster.

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


def schedule(hours: Sequence[float], lanes: int) -> list[tuple[int, float]]:
    """Return for each job the lane that is free first, and the hour at which the job ends there.

    >>> schedule([3, 2, 2], 2)
    [(0, 3), (1, 2), (1, 4)]
    """
    free: list[tuple[float, int]] = [(0, lane) for lane in range(lanes)]
    ends = []
    for needed in hours:
        start, lane = heapq.heappop(free)
        heapq.heappush(free, (start + needed, lane))
        ends.append((lane, start + needed))
    return ends


def plan_lines(planned: Sequence[tuple[list[str], list[Lane]]], hours: Mapping[str, float]) -> list[str]:
    """Return lines that say which job runs on which GPU, and until when if the hours of all jobs are known.

    Args:
        planned: what :func:`rounds` returns.
        hours: by job, on one GPU. A job on several takes as long: how much faster it is there is not known.
    """
    jobs = [name for names, _ in planned for name in names]
    known = all(name in hours for name in jobs)
    lines, whole = [], 0.0
    for names, lanes in planned:
        ends = schedule([hours[name] if known else 1.0 for name in names], len(lanes))
        for number, lane in enumerate(lanes):
            own = [(name, end) for name, (where, end) in zip(names, ends, strict=True) if where == number]
            shown = [f"{name} ({hours[name]:.1f} h)" if known else name for name, _ in own]
            end = f"; until hour {whole + own[-1][1]:.1f}" if known and own else ""
            lines.append(f"GPU {'+'.join(lane)}: {', '.join(shown)}{end}")
        whole += max(end for _, end in ends)
    total = "; --rehearse estimates the hours"
    if known:
        total = f": about {whole:.1f} h (one after the other {sum(hours[name] for name in jobs):.1f} h)"
    return [f"{len(jobs)} side by side{total}", *lines]


def hours_file(run: "Run") -> Path:
    """Return the file in which a rehearsal leaves the hours of each job, beside the run's experiments."""
    return run.expdir.with_name(f"{run.expdir.name}.hours.json")


def hours_known(run: "Run", jobs: Iterable[str]) -> dict[str, float]:
    """Return the hours of jobs on one GPU, as far as a rehearsal or, at full scale, the recipe's settings have them.

    A job of another seed takes as long.
    """
    path, usual = hours_file(run), None
    if run.scale == "full":
        usual = run.sections.get("settings", {}).get("hours")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    named = {name: found.get(seedless(name), usual) for name in jobs}
    return {name: value for name, value in named.items() if value is not None}


def seedless(name: str) -> str:
    """Return the name of a job without its seed.

    >>> seedless("lm/seed1/gpt2"), seedless("baseline/seed12")
    ('lm/gpt2', 'baseline')
    """
    return re.sub(r"/seed\d+", "", name)


def run_side_by_side(run: "Run", jobs: Mapping[str, Make], *, trains: bool = True, shards: bool = False) -> None:
    """Run a chain of steps for each job: several in parallel on processors, or one on each GPU.

    Trainings that ``cmd.sh`` starts elsewhere have all GPUs and run one by one, and so does work on a cluster.

    Args:
        run: has the options.
        jobs: name -> what makes the chain.
        trains: whether the jobs are trainings, whose hours are known.
        shards: whether the jobs' work is in shards, which ``--parallel`` sends to a cluster; they are no trainings.
    """
    if not run.ngpu or (run.parallel if shards else run.launch or run.train_options):
        limit = 1 if run.ngpu else max(1, min(len(jobs), run.nj))
        run_jobs((make(run, max(1, run.nj // limit)) for make in jobs.values()), limit)
        return
    gpus = visible_gpus(run)
    trains = trains and not shards
    hours = hours_known(run, jobs) if trains else {}
    longest_first = sorted(jobs, key=lambda name: -hours.get(name, 0.0))
    most = len(gpus) if shards else run.sections.get("settings", {}).get("training_gpus") or len(gpus)
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
