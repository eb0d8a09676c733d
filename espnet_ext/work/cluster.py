"""Start and stop the Dask cluster of ``--parallel``: local processes or batch jobs.

ESPnet makes it (``espnet3.parallel.parallel.build_client``) from the options of the
file, as they are.
"""

import logging
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.work.settings import Count, StrictMapping, Text, check_settings
from espnet_ext.work.yaml_files import read_yaml

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# A shard may lose this many workers. After one more it counts as failed.
ALLOWED_FAILURES = 3
CLOSE_SECONDS = 20


class ClusterSettings(StrictMapping):
    """The settings in ``conf/parallel/*.yaml``."""

    env: Text  # ESPnet's name of the kind of cluster, such as slurm
    n_workers: Count | None = None
    options: dict[str, Any] | None = None  # arguments of the Dask cluster class


def read_settings(path: str | Path) -> ClusterSettings:
    """Read ``conf/parallel/*.yaml``; InputError names what is wrong there."""
    return check_settings(ClusterSettings, read_yaml(path), str(path))


@contextmanager
def start_cluster(
    settings: ClusterSettings, workers: int
) -> Iterator[tuple[Any, list[str]]]:
    """Yield a client on a new cluster, and the list of what fails there.

    Processes and jobs end with the block.
    """
    # The imports bring dask_jobqueue, whose handler of SIGINT must not stay.
    with exit_on_signals():
        import dask
        from espnet3.parallel.parallel import build_client
        from omegaconf import OmegaConf

    config = OmegaConf.create(
        {"env": settings.env, "n_workers": workers, "options": settings.options or {}}
    )
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    changes = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        # Tasks do not queue on a worker, so a lost worker counts only against the shard
        # that it was running.
        "distributed.scheduler.worker-saturation": 1.0,
        # Those before the spawn would be set in this process, too.
        "distributed.nanny.pre-spawn-environ": {},
        "distributed.nanny.environ": {
            name: os.environ.get(name) or threads for name in THREAD_VARIABLES
        },
    }
    # Those that are there before are not the cluster's, and stay.
    children = set(multiprocessing.active_children())
    client = None
    with exit_on_signals(), _hide_log() as errors, dask.config.set(changes):
        try:
            try:
                with _block_interrupt():
                    client = build_client(config)
            except (TypeError, ValueError, RuntimeError, ImportError) as error:
                raise InputError(
                    f"env {settings.env}: the cluster does not start: "
                    f"{_write_cause(error)}"
                ) from error
            yield client, errors
        finally:
            # A worker in the middle of a shard does not answer; its process is killed
            # below.
            for part in (client, getattr(client, "cluster", None)):
                if part is not None:
                    with suppress(Exception):
                        part.close(timeout=CLOSE_SECONDS)
            for process in set(multiprocessing.active_children()) - children:
                process.kill()
                process.join()


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that workers are ended.

    Both handlers are restored at the end.

    Importing dask_jobqueue replaces the handler of SIGINT with one that exits with
    status 0, which looks like success.
    """
    # Python lets only the main thread set handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    # Another handler is the caller's, and stays.
    if before[signal.SIGTERM] is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _block_interrupt() -> Iterator[None]:
    """Block SIGINT here and in what is started.

    A terminal sends Ctrl-C to all of them, but this process ends its workers.
    """
    # It unblocks SIGINT in the thread that starts it, so it must run before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _hide_log() -> Iterator[list[str]]:
    """Hide Dask's log, and yield a list of the errors in it.

    A failed submission is reported nowhere else.
    """
    handler = _ErrorHandler()
    # asyncio and tornado, in which Dask runs, log the errors that nobody handles.
    levels = {
        "distributed": logging.CRITICAL,
        "asyncio": logging.ERROR,
        "tornado": logging.ERROR,
    }
    before = []
    for name, level in levels.items():
        logger = logging.getLogger(name)
        before.append((logger, logger.level, logger.handlers, logger.propagate))
        logger.setLevel(level)
        logger.handlers = [handler]
        logger.propagate = False
    try:
        with warnings.catch_warnings(action="ignore"):
            yield handler.errors
    finally:
        for logger, level, handlers, propagate in before:
            logger.setLevel(level)
            logger.handlers = handlers
            logger.propagate = propagate


class _ErrorHandler(logging.Handler):
    """Collects the messages of exceptions that are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note the cause of an exception."""
        if record.exc_info and record.exc_info[1]:
            self.errors.append(_write_cause(record.exc_info[1]))


def _write_cause(error: BaseException) -> str:
    """Write the message of the first cause; Dask wraps it in other exceptions."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())
