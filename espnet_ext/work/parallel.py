"""Map a function over shards of work: in this process, in processes forked from it, or on a cluster through Dask.

A shard is a small value that can be pickled (a dict or dataclass, with a ``name`` for messages). The function writes
its output to files and returns something small. If a worker dies, only the shard that it was running is lost, and runs
again.
"""

import errno
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Self

from espnet_ext.errors import InputError
from espnet_ext.work import cluster

PROGRESS_SECONDS = 8.0
POLL_SECONDS = 0.1
# One process works on one shard at a time: shards chdir, redirect output and share one cached model.
_ONE_SHARD = Lock()
_worker: int | None = None  # number of a forked worker
_has_gpu = False  # whether this worker has chosen its GPU


class ShardError(InputError):
    """A shard failed, but not because of bad input. The message names it and has the worker's traceback.

    It is an :class:`InputError`, so that every command shows it and exits with status 1, without the traceback of the
    process that only waited for the worker.
    """


@dataclass(frozen=True)
class _Failure:
    message: str
    bad_input: bool


def map_shards[Shard, Result](
    function: Callable[[Shard], Result],
    shards: Sequence[Shard],
    *,
    nj: int,
    config: str | Path | None = None,
    describe: str = "decode",
    log_dir: str | Path | None = None,
    local_directory: str | Path | None = None,
) -> list[Result]:
    """Return ``[function(shard) for shard in shards]``, computed by ``nj`` worker processes.

    ``function`` must be at the top level of a module that workers can import. Workers run the same Python in the same
    working directory. Without ``config`` there is no Dask: workers are forked from this process, and with ``nj=1`` or
    one shard everything runs in this process.

    Args:
        nj: number of workers, unless ``config`` has ``n_workers``.
        config: YAML with ``env`` (local, slurm, sge, pbs ...), ``n_workers`` and ``options`` of the Dask cluster.
        describe: name of the work in messages.
        log_dir: where a cluster's jobs write their logs (default: the batch system's own place).
        local_directory: local disk for Dask's temporary files (default: the system's folder for temporary files).

    Raises:
        InputError: bad arguments or config; or the first shard that raised InputError, with its message.
        ShardError: a shard raised another exception, or its worker died several times.
    """
    shards = list(shards)
    if nj < 1:
        raise InputError(f"{describe}: the number of jobs must be at least 1, not {nj}")
    settings = cluster.read_config(config, nj) if config else None
    if not shards:
        return []
    with _Progress(describe, len(shards)) as progress:
        if min(nj, len(shards)) == 1 and not config:
            return _map_here(function, shards, progress)
        if settings is None:
            with cluster.exit_on_signals():
                return _map_forked(function, shards, min(nj, len(shards)), progress)
        settings = settings.limited(len(shards))
        with cluster.start(settings, local_directory=local_directory, log_dir=log_dir) as running:
            return _map_on(running, function, shards, progress)


def shard_name(shard: Any, index: int) -> str:
    """Return a shard's ``name`` (key or attribute), or its number from 1."""
    name = shard.get("name") if isinstance(shard, dict) else getattr(shard, "name", None)
    return str(name) if name else str(index + 1)


def _map_here(function: Callable, shards: list, progress: "_Progress") -> list:
    results = []
    for index, shard in enumerate(shards):
        outcome = _call(function, shard, os.getcwd())
        results.append(_value(outcome, progress.describe, shard_name(shard, index)))
        progress.advance()
    return results


def _map_forked(function: Callable, shards: list, workers: int, progress: "_Progress") -> list:
    """In processes forked from this one: modules that are imported here are not imported again."""
    from pebble import ProcessExpired, ProcessPool

    names = [shard_name(shard, index) for index, shard in enumerate(shards)]
    results: list = [None] * len(shards)
    deaths = [0] * len(shards)
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    begun = get_context("fork").Value("i", 0)
    pool = ProcessPool(
        max_workers=workers, context=get_context("fork"), initializer=_begin_worker, initargs=(threads, begun)
    )
    try:
        waiting: dict[Any, int] = {
            pool.schedule(_call, args=(function, shard, os.getcwd())): index for index, shard in enumerate(shards)
        }
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                index = waiting.pop(future)
                try:
                    outcome = future.result()
                except ProcessExpired:
                    deaths[index] += 1
                    progress.note("lost 1 worker process: what it worked on runs again")
                    if deaths[index] <= cluster.ALLOWED_FAILURES:
                        again = pool.schedule(_call, args=(function, shards[index], os.getcwd()))
                        waiting[again] = index
                        continue
                    outcome = _Failure(_died(deaths[index]), bad_input=False)
                results[index] = _value(outcome, progress.describe, names[index])
                progress.advance()
    finally:
        pool.stop()
        pool.join()
    return results


def use_own_gpu() -> None:
    """In a worker on this machine: see one GPU only, so that several workers share all of them evenly.

    Elsewhere, and after the first call, nothing changes: a batch system gives each of its jobs its own GPU. No work on
    a GPU may have been done in this process before.
    """
    global _has_gpu
    number = _local_worker()
    if number is None or _has_gpu:
        return
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        import torch

        gpus = [str(number) for number in range(torch.cuda.device_count())]
    else:
        gpus = [name for name in visible.split(",") if name.strip()]
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
    _has_gpu = True


def device_of(ngpu: int) -> str:
    """The device of this process: its own GPU, or the CPU.

    Raises:
        InputError: a GPU is asked for, and there is none.
    """
    if not ngpu:
        return "cpu"
    use_own_gpu()
    import torch

    if not torch.cuda.is_available():
        raise InputError("--ngpu 1: PyTorch finds no GPU: leave the option out")
    return "cuda"


def _local_worker() -> int | None:
    """The number of this process among the workers on this machine, forked or of Dask's cluster of local processes."""
    if _worker is not None or "distributed" not in sys.modules:
        return _worker
    from distributed import get_worker

    try:
        name = get_worker().name
    except ValueError:  # not in a worker
        return None
    return name if isinstance(name, int) else None  # a batch system's workers are named after their jobs


def _begin_worker(threads: int, begun: Any) -> None:
    """In a worker: its number, and its share of the cores, unless the environment sets the number of threads.

    A terminal sends Ctrl-C to all its processes. Workers ignore it: the main process ends them.
    """
    global _worker
    with begun.get_lock():
        _worker, begun.value = begun.value, begun.value + 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for name in cluster.THREAD_VARIABLES:
        os.environ.setdefault(name, str(threads))
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def _died(times: int) -> str:
    return (
        f"its worker process died {times} times while running it (out of memory? killed?): "
        "look at the log, give it more memory or fewer jobs, and run again"
    )


def _map_on(running: cluster.RunningCluster, function: Callable, shards: list, progress: "_Progress") -> list:
    from distributed import as_completed

    names = [shard_name(shard, index) for index, shard in enumerate(shards)]
    # Dask takes equal keys from a cache; the number distinguishes two shards with the same name.
    keys = [f"{progress.describe}-{index}-{name}" for index, name in enumerate(names)]
    futures = [
        running.client.submit(_call, function, shard, os.getcwd(), key=key, pure=False)
        for key, shard in zip(keys, shards, strict=True)
    ]
    number = {key: index for index, key in enumerate(keys)}
    results: list = [None] * len(shards)
    crew = _Crew(running, progress)
    queue = as_completed(futures)
    while not queue.is_empty():
        for future in queue.next_batch(block=False):
            index = number[future.key]
            results[index] = _value(_outcome(future, names[index]), progress.describe, names[index])
            progress.advance()
        if not queue.is_empty():
            crew.look()
            time.sleep(POLL_SECONDS)
    crew.look(at_once=True)
    return results


def _call(function: Callable, shard: Any, folder: str) -> Any:
    """Run one shard, in a worker or in this process. Exceptions are returned as text, since not all can be pickled."""
    with _ONE_SHARD:
        try:
            os.chdir(folder)  # a cluster may start its jobs elsewhere, and data dirs hold relative paths
            return function(shard)
        except InputError as error:
            bad_input = not isinstance(error, ShardError)
            return _Failure(str(error), bad_input)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return _Failure(f"{error.strerror}: make room and run again" if full else traceback.format_exc(), full)
        except (Exception, SystemExit):
            return _Failure(traceback.format_exc(), bad_input=False)


def _outcome(future: Any, name: str) -> Any:
    from distributed.scheduler import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        message = _died(error.allowed_failures + 1)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    return _Failure(message, bad_input=False)


def _value(outcome: Any, describe: str, name: str) -> Any:
    if not isinstance(outcome, _Failure):
        return outcome
    if outcome.bad_input:
        raise InputError(outcome.message)
    raise ShardError(f"{describe}: shard {name} failed: {outcome.message.rstrip()}")


class _Crew:
    """Watches the workers: reports when one is lost, and stops if the cluster cannot start any."""

    def __init__(self, running: cluster.RunningCluster, progress: "_Progress") -> None:
        self._running, self._progress = running, progress
        self._workers: set[str] = set()
        self._seen_one = False
        self._next = 0.0

    def look(self, *, at_once: bool = False) -> None:
        if not at_once and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 1.0
        workers = set(self._running.client.scheduler_info(n_workers=-1)["workers"])
        lost = self._workers - workers
        if lost:
            self._progress.note(f"lost {len(lost)} worker process(es): what they worked on runs again")
        self._workers = workers
        self._progress.workers = len(workers)
        self._seen_one |= bool(workers)
        self._running.replace_lost_jobs()
        if not self._seen_one and self._running.errors:
            raise ShardError(f"{self._progress.describe}: the cluster starts no workers: {self._running.errors[0]}")


class _Progress:
    """A line every few seconds, or a bar on a terminal. It has its own thread, as one shard may take minutes."""

    def __init__(self, describe: str, total: int) -> None:
        self.describe, self.total, self.done = describe, total, 0
        self.workers: int | None = None
        self._stream = sys.stderr  # stored, since shards may redirect sys.stderr
        self._start = time.monotonic()
        self._stop = Event()
        self._bar = None
        if self._stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc=describe, unit="shard", file=self._stream)
        self._thread = Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._bar is not None:
            self._bar.close()
        elif exception[0] is None:
            self._print(f"{self.done}/{self.total} shards in {_clock(self._elapsed())}")

    def advance(self) -> None:
        self.done += 1
        if self._bar is not None:
            self._bar.update()

    def note(self, text: str) -> None:
        with self._bar.external_write_mode(file=self._stream) if self._bar is not None else nullcontext():
            self._print(text)

    def _tick(self) -> None:
        while not self._stop.wait(1.0 if self._bar is not None else PROGRESS_SECONDS):
            if self._bar is not None:
                self._bar.refresh()
                continue
            eta = _clock(self._elapsed() / self.done * (self.total - self.done)) if self.done else "not known yet"
            waiting = ", waiting for the first worker" if self.workers == 0 else ""
            self._print(f"{self.done}/{self.total} shards, {_clock(self._elapsed())} elapsed, ETA {eta}{waiting}")

    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    def _print(self, text: str) -> None:
        print(f"{self.describe}: {text}", file=self._stream, flush=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
