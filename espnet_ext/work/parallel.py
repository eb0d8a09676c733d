"""Map a function over shards of work: here, in several processes, or on a cluster.

A shard is a small value that can be pickled (a dict or dataclass, with a ``name`` for
messages). The function writes files and returns something small. If a worker dies, only
the shard that it was running is lost, and runs again.
"""

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from espnet_ext.errors import InputError, escape_controls
from espnet_ext.work import cluster, gpus, kaldi_jobs
from espnet_ext.work.calls import Failure, ShardError, call_on_shard

PROGRESS_SECONDS = 8.0
POLL_SECONDS = 0.2
LOST = "lost 1 worker process: what it worked on runs again"
DIED = (
    f"its worker process died {cluster.ALLOWED_FAILURES + 1} times while running "
    "it (out of memory? killed?): look at the log, give it more memory or fewer jobs, "
    "and run again"
)
# Where shards run: the YAML of a Dask cluster, or a wrapper; None: on this machine.
type Place = Path | kaldi_jobs.Wrapper


def map_shards[Shard, Result](
    function: Callable[[Shard], Result],
    shards: Sequence[Shard],
    *,
    nj: int,
    ngpu: int = 0,
    config: str | Place | None = None,
    describe: str = "decode",
) -> list[Result]:
    """Return ``[function(shard) for shard in shards]``, computed by ``nj`` workers.

    Workers are in the same working directory. ``function`` must be at the top level of
    a module that workers can import. ``config`` is the YAML of a Dask cluster
    (:class:`~espnet_ext.work.cluster.ClusterSettings`), or a wrapper of Kaldi's with
    ``nj`` jobs (:mod:`~espnet_ext.work.kaldi_jobs`). Without it the workers are
    processes of this machine, and with ``nj=1`` or one shard everything runs in this
    process. With ``ngpu`` 1 each worker sees one GPU, and all are shared evenly; with 0
    it sees none. ``describe`` names the work in messages. InputError is that of the
    first shard that raised one; ShardError: a shard raised another exception, or its
    worker died several times.
    """
    if nj < 1:
        raise InputError(f"{describe}: the number of jobs must be at least 1, not {nj}")
    wrapper = config if isinstance(config, kaldi_jobs.Wrapper) else None
    settings = None
    if config and not isinstance(config, kaldi_jobs.Wrapper):
        settings = cluster.read_settings(config)
    if not shards:
        return []
    with _Progress(describe, shards) as progress:
        if settings is not None and settings.n_workers:
            nj = settings.n_workers
        workers = min(nj, len(shards))
        # Jobs of a cluster begin in folders of their own; paths count from this one.
        here = os.getcwd()
        if wrapper is not None:
            calls = [partial(call_on_shard, function, shard, here) for shard in shards]
            with cluster.exit_on_signals():
                kaldi_jobs.run_calls(
                    wrapper, calls, workers, ngpu, progress.take_outcome, describe
                )
        elif settings is not None:
            with cluster.start_cluster(settings, workers) as (client, errors):
                _map_on(client, errors, workers, function, progress)
        elif workers > 1:
            with cluster.exit_on_signals():
                _map_here(function, workers, _choose_context(ngpu), progress)
        else:
            for index, shard in enumerate(shards):
                progress.take_outcome(index, call_on_shard(function, shard, here))
        # Outcomes have come in any order.
        return [progress.results[index] for index in range(len(shards))]


def _choose_context(ngpu: int) -> BaseContext:
    """Choose how workers are started: as forks, or as new processes.

    Forks have what is imported here, which takes seconds. Workers are new processes if
    they use a GPU, or CUDA has started here, which a fork does not survive.
    """
    if ngpu:
        return gpus.NewWorkers(gpus.list_gpus())
    if gpus.has_cuda_started():
        return gpus.NewWorkers(())
    return get_context("fork")


def _map_here(
    function: Callable, workers: int, context: BaseContext, progress: "_Progress"
) -> None:
    """Work in processes of this machine."""
    from pebble import ProcessExpired, ProcessPool

    deaths = [0] * len(progress.shards)
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    forked = True
    sharing = 1
    if isinstance(context, gpus.NewWorkers):
        forked = False
        sharing = context.count_sharing(workers)
    pool = ProcessPool(
        workers,
        context=context,
        initializer=_begin_worker,
        initargs=(threads, forked, sharing),
    )
    calls = [(function, shard, os.getcwd()) for shard in progress.shards]
    try:
        waiting: dict[Any, int] = {
            pool.schedule(call_on_shard, args=call): index
            for index, call in enumerate(calls)
        }
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                index = waiting.pop(future)
                try:
                    progress.take_outcome(index, future.result())
                # The worker has died. Pebble starts another, and fails no other shard.
                except ProcessExpired:
                    deaths[index] += 1
                    progress.print(LOST)
                    if deaths[index] > cluster.ALLOWED_FAILURES:
                        progress.take_outcome(index, Failure(DIED))
                    again = pool.schedule(call_on_shard, args=calls[index])
                    waiting[again] = index
    finally:
        pool.stop()
        pool.join()


def _begin_worker(threads: int, forked: bool, sharing: int) -> None:
    """Give a worker its threads, unless the environment does.

    ``sharing`` is the number of workers that share its GPU.
    """
    # A fork uses no GPU (_choose_context), and must not start CUDA.
    if forked:
        gpus.hide_gpus()
    os.environ[gpus.SHARING] = str(sharing)
    # Ctrl-C reaches all processes of a terminal, but the main one ends its workers, by
    # SIGTERM, for which a fork has the main process's handler.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for name in cluster.THREAD_VARIABLES:
        os.environ.setdefault(name, str(threads))
    # In a fork, torch has read the variables before.
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def _map_on(
    client: Any,
    errors: list[str],
    workers: int,
    function: Callable,
    progress: "_Progress",
) -> None:
    """Work on a Dask cluster.

    Lost workers are reported and replaced; one that cannot start any ends the work.
    """
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    watch = _Watch(client)
    here = os.getcwd()
    # Not pure: Dask would take equal shards for one, and old results for new ones.
    futures = [
        client.submit(call_on_shard, function, shard, here, pure=False)
        for shard in progress.shards
    ]
    indices = {future.key: index for index, future in enumerate(futures)}
    queue = as_completed(futures)
    while not queue.is_empty():
        time.sleep(POLL_SECONDS)
        # Results first: whoever was lost before them has been noted by then (_Watch).
        ended = queue.next_batch(block=False)
        for _ in range(watch.take_lost()):
            progress.print(LOST)
        for future in ended:
            try:
                outcome = future.result()
            except KilledWorker:
                outcome = Failure(DIED)
            except Exception as error:
                outcome = Failure(f"{type(error).__name__}: {error}")
            progress.take_outcome(indices[future.key], outcome)
        if errors and not watch.begun:
            raise ShardError(
                f"{progress.describe}: the cluster starts no workers: {errors[0]}"
            )
        # Dask forgets workers that are lost for some seconds, with their job or because
        # a nanny is slow, and starts others only when it is told their number again.
        # Kubernetes, without a specification, replaces them itself.
        wanted = set(getattr(client.cluster, "worker_spec", ()))
        if wanted - set(client.cluster.workers):
            client.cluster.scale(workers)


class _Watch:
    """What the scheduler of a Dask cluster tells of its workers.

    It tells of a lost worker before it tells the result of what that worker ran, in one
    stream. Looking at the workers from time to time would miss one that comes and goes
    in between.
    """

    def __init__(self, client: Any) -> None:
        self._lost: deque[str] = deque()
        client.subscribe_topic("all", self._note)
        self.begun = bool(client.scheduler_info(n_workers=-1)["workers"])

    def _note(self, event: tuple[float, Any]) -> None:
        """Note an event of the scheduler. Dask calls this in a thread of its own."""
        _, message = event
        if message["action"] == "add-worker":
            self.begun = True
        elif message["action"] == "remove-worker":
            self._lost.append(message["worker"])

    def take_lost(self) -> int:
        """Return how many workers were lost since the last call."""
        count = len(self._lost)
        for _ in range(count):
            self._lost.popleft()
        return count


class _Progress:
    """The results so far, and a line every few seconds.

    The line has its own thread, as one shard may take minutes.
    """

    def __init__(self, describe: str, shards: Sequence) -> None:
        self.describe = describe
        self.shards = shards
        self.results: dict[int, Any] = {}
        self._stream = sys.stderr  # stored, since shards may redirect sys.stderr
        self._start = time.monotonic()
        self._stop = Event()
        self._thread = Thread(target=self._print_regularly, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        if exception[0] is None:
            done = f"{len(self.results)}/{len(self.shards)} shards"
            self.print(f"{done} in {self._estimate_time(1.0)}")

    def take_outcome(self, index: int, outcome: Any) -> None:
        """Take the outcome of a shard; raise the error of one that has failed.

        A ShardError has the shard's ``name``, or its number from 1.
        """
        if not isinstance(outcome, Failure):
            self.results[index] = outcome
            return
        # A message about bad input names the file, and where it was found is no matter.
        if outcome.bad_input:
            raise InputError(outcome.message)
        shard = self.shards[index]
        if isinstance(shard, dict):
            name = shard.get("name")
        else:
            name = getattr(shard, "name", None)
        raise ShardError(
            f"{self.describe}: shard {name or index + 1} failed: "
            f"{outcome.message.rstrip()}"
        )

    def print(self, text: str) -> None:
        line = escape_controls(f"{self.describe}: {text}")
        print(line, file=self._stream, flush=True)

    def _print_regularly(self) -> None:
        total = len(self.shards)
        while not self._stop.wait(PROGRESS_SECONDS):
            done = len(self.results)
            elapsed = self._estimate_time(1.0)
            eta = "not known yet"
            if done:
                eta = str(self._estimate_time((total - done) / done))
            self.print(f"{done}/{total} shards, {elapsed} elapsed, ETA {eta}")

    def _estimate_time(self, times: float) -> timedelta:
        """Return the time since the start, or a multiple of it, in whole seconds."""
        seconds = time.monotonic() - self._start
        return timedelta(seconds=round(times * seconds))
