"""Which GPUs each training and each decoding of a run gets, when ``--ngpu`` gives several.

As many trainings as GPUs are fastest side by side, with one each. What is left over shares the GPUs evenly, as far as
several make a training faster (the setting ``training_gpus`` of a recipe).
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import batched, takewhile
from typing import TYPE_CHECKING

from espnet_ext.errors import InputError
from espnet_ext.recipe.steps import Step, joined, run_jobs

if TYPE_CHECKING:
    from espnet_ext.recipe.run import Run

NO_GPU = ("", "-1", "NoDevFiles")  # the last one is Slurm's
Lane = tuple[str, ...]  # the GPUs that one chain of steps sees
Make = Callable[["Run", int], Iterable[Step]]  # makes a chain from a run and the number of processes it may use


def gpu_names(count: int, visible: str | None) -> Lane:
    """Return the names of the first ``count`` GPUs, of those in ``CUDA_VISIBLE_DEVICES`` if that is set.

    As CUDA does, this takes none from the first on that is no GPU.
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


def rounds(jobs: Sequence[str], gpus: Lane, most: int) -> list[tuple[list[str], list[Lane]]]:
    """Return which jobs run in which lanes, in rounds that follow each other.

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


def run_side_by_side(run: "Run", jobs: Mapping[str, Make], *, shards: bool = False) -> None:
    """Run a chain of steps for each job: several in parallel on processors, or one on each GPU.

    What ``cmd.sh`` (trainings) or ``--parallel`` (``shards``) starts elsewhere runs one by one, with all GPUs.
    """
    if not run.ngpu or (run.parallel if shards else run.launch or run.train_options):
        limit = 1 if run.ngpu else max(1, min(len(jobs), run.nj))
        run_jobs((make(run, max(1, run.nj // limit)) for make in jobs.values()), limit)
        return
    gpus = visible_gpus(run)
    most = len(gpus) if shards else run.sections.get("settings", {}).get("training_gpus") or len(gpus)
    failures: list[Exception] = []
    for names, lanes in rounds(list(jobs), gpus, most):
        own = replace(run, options={**run.options, "ngpu": str(len(lanes[0]))})
        nj = max(len(lanes[0]), run.nj // len(lanes))
        try:
            run_jobs((jobs[name](own, nj) for name in names), lanes=lanes)
        except InputError as error:  # the next round has other jobs
            failures.append(error)
    if failures:
        raise joined(failures)
