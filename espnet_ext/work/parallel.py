"""Map a function over shards of work: in this process, in several, or on a cluster
through Dask.

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
    "it (out of memory? killed?): "
    "look at the log, give it more memory or fewer jobs, and run again"
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
    """Return ``[function(shard) for shard in shards]``, computed by ``nj`` workers in
    the same working directory.

    ``function`` must be at the top level of a module that workers can import.
    ``config`` is the YAML of a Dask cluster
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
        workers = min(nj if settings is None else settings.n_workers or nj, len(shards))
        if wrapper is not None:
            calls = [
                partial(call_on_shard, function, shard, os.getcwd()) for shard in shards
            ]
            with cluster.exit_on_signals():
                kaldi_jobs.run_calls(
                    wrapper, calls, workers, ngpu, progress.done, describe
                )
        elif settings is not None:
            with cluster.start_cluster(settings, workers) as (client, errors):
                _map_on(client, errors, workers, function, progress)
        elif workers > 1:
            with cluster.exit_on_signals():
                _map_here(function, workers, _how_to_start(ngpu), progress)
        else:
            for index, shard in enumerate(shards):
                progress.done(index, call_on_shard(function, shard, os.getcwd()))
        return [progress.results[index] for index in range(len(shards))]


def _how_to_start(ngpu: int) -> BaseContext:
    """Return how workers are started: forked, so that they have what is imported here,
    or as new processes if they use a GPU or CUDA has started here.
    """
    if ngpu:
        return gpus.NewWorkers(gpus.list_gpus())
    return gpus.NewWorkers(()) if gpus.has_cuda_started() else get_context("fork")


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
                    progress.done(index, future.result())
                except ProcessExpired:
                    deaths[index] += 1
                    progress.print(LOST)
                    if deaths[index] > cluster.ALLOWED_FAILURES:
                        progress.done(index, Failure(DIED))
                    waiting[pool.schedule(call_on_shard, args=calls[index])] = index
    finally:
        pool.stop()
        pool.join()


def _begin_worker(threads: int, forked: bool, sharing: int) -> None:
    """Give a worker its threads, unless the environment does, and tell it how many
    share its GPU. Ctrl-C is for the main process.
    """
    if forked:
        gpus.hide_gpus()
    os.environ[gpus.SHARING] = str(sharing)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for name in cluster.THREAD_VARIABLES:
        os.environ.setdefault(name, str(threads))
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
    """Work on a Dask cluster. Lost workers are reported and replaced; one that cannot
    start any ends the work.
    """
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    watch = _Watch(client)
    futures = [
        client.submit(call_on_shard, function, shard, os.getcwd(), pure=False)
        for shard in progress.shards
    ]
    index_of = {future.key: index for index, future in enumerate(futures)}
    queue = as_completed(futures)
    while not queue.is_empty():
        time.sleep(POLL_SECONDS)
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
            progress.done(index_of[future.key], outcome)
        if errors and not watch.begun:
            raise ShardError(
                f"{progress.describe}: the cluster starts no workers: {errors[0]}"
            )
        # Dask forgets workers that are lost for some seconds, with their job or because
        # a nanny is slow, and starts others only when it is told their number again.
        # Kubernetes, without a specification, replaces them itself.
        if set(getattr(client.cluster, "worker_spec", ())) - set(
            client.cluster.workers
        ):
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
    """The results so far, and a line every few seconds. It has its own thread, as one
    shard may take minutes.
    """

    def __init__(self, describe: str, shards: Sequence) -> None:
        self.describe, self.shards = describe, shards
        self.results: dict[int, Any] = {}
        self._stream = sys.stderr  # stored, since shards may redirect sys.stderr
        self._start = time.monotonic()
        self._stop = Event()
        self._thread = Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        if exception[0] is None:
            self.print(
                f"{len(self.results)}/{len(self.shards)} shards in {self._elapsed()}"
            )

    def done(self, index: int, outcome: Any) -> None:
        """Take the outcome of a shard; raise the error of one that has failed, with its
        ``name`` or number from 1.
        """
        if isinstance(outcome, Failure):
            if outcome.bad_input:
                raise InputError(outcome.message)
            shard = self.shards[index]
            name = (
                shard.get("name")
                if isinstance(shard, dict)
                else getattr(shard, "name", None)
            )
            raise ShardError(
                f"{self.describe}: shard {name or index + 1} failed: "
                f"{outcome.message.rstrip()}"
            )
        self.results[index] = outcome

    def print(self, text: str) -> None:
        line = escape_controls(f"{self.describe}: {text}")
        print(line, file=self._stream, flush=True)

    def _tick(self) -> None:
        while not self._stop.wait(PROGRESS_SECONDS):
            done = len(self.results)
            total = len(self.shards)
            eta = self._elapsed((total - done) / done) if done else "not known yet"
            self.print(f"{done}/{total} shards, {self._elapsed()} elapsed, ETA {eta}")

    def _elapsed(self, times: float = 1.0) -> timedelta:
        return timedelta(seconds=round(times * (time.monotonic() - self._start)))
