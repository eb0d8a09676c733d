"""Start and stop the Dask cluster of :mod:`espnet_ext.work.parallel`: local processes or jobs of a batch system.

ESPnet makes the cluster (``espnet3.parallel.parallel.build_client``), so everything that it supports works here: local,
local_gpu, slurm, sge, pbs, lsf, moab, oar, htcondor, ssh, kube.
"""

import logging
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from pathlib import Path
from shlex import quote
from typing import Any, Self

from espnet_ext.errors import InputError
from espnet_ext.work.yaml_files import read_yaml

# Batch system -> command that submits a job.
SUBMIT = {
    "slurm": "sbatch",
    "sge": "qsub",
    "pbs": "qsub",
    "lsf": "bsub",
    "moab": "msub",
    "oar": "oarsub",
    "htcondor": "condor_submit",
}
ENVS = ("local", "local_gpu", *SUBMIT, "ssh", "kube")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Which instructions of the processor are used (utils/path.sh): workers round as the process that asks them does.
INSTRUCTION_VARIABLES = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
# A shard may lose this many workers. After one more it counts as failed.
ALLOWED_FAILURES = 3
CLOSE_SECONDS = 20


@dataclass(frozen=True)
class ClusterSettings:
    """The settings in ``conf/parallel/*.yaml``. ``options`` are the arguments of the Dask cluster class."""

    env: str
    n_workers: int
    options: dict[str, Any] = field(default_factory=dict)

    def limited(self, shards: int) -> Self:
        """Return the settings with no more workers than there are shards."""
        return replace(self, n_workers=min(self.n_workers, shards))


def read_config(path: str | Path, nj: int) -> ClusterSettings:
    """Read ``conf/parallel/*.yaml``. If the file has no ``n_workers``, there are ``nj`` workers.

    Raises:
        InputError: no such file, not a YAML mapping, an unknown key or ``env``, a bad ``n_workers``, or a batch system
            whose submit command is not on PATH.
    """
    config = read_yaml(path)
    unknown = sorted(set(map(str, config)) - {"env", "n_workers", "options"})
    if unknown:
        raise InputError(f"{path}: unknown key {unknown[0]}: only env, n_workers and options are known")
    env = config.get("env")
    if env not in ENVS:
        raise InputError(f"{path}: env {env!r} is not one of {', '.join(ENVS)}")
    n_workers = nj if config.get("n_workers") is None else config["n_workers"]
    if not isinstance(n_workers, int) or isinstance(n_workers, bool) or n_workers < 1:
        raise InputError(f"{path}: n_workers must be a whole number of at least 1, not {n_workers!r}")
    options = config.get("options") or {}
    if not isinstance(options, dict):
        raise InputError(f"{path}: options must be a mapping, not {options!r}")
    if env in SUBMIT and not shutil.which(SUBMIT[env]):
        raise InputError(
            f"{path}: env {env} needs the command {SUBMIT[env]}, which is not on PATH: run on a submit host"
        )
    return ClusterSettings(env, n_workers, options)


@dataclass(frozen=True)
class RunningCluster:
    """A Dask client, the errors of its cluster (oldest first), and its settings."""

    client: Any
    errors: list[str]
    settings: ClusterSettings

    def replace_lost_jobs(self) -> None:
        """Submit new jobs for those of a batch system that have ended: cancelled, preempted, or out of walltime.

        Dask forgets a job some seconds (``distributed.deploy.lost-worker-timeout``) after its worker is lost, and
        submits another only when it is told the number of workers again.
        """
        if self.settings.env not in SUBMIT:
            return
        cluster = self.client.cluster
        if set(cluster.worker_spec) - set(cluster.workers):
            cluster.scale(self.settings.n_workers)


@contextmanager
def start(
    settings: ClusterSettings, *, local_directory: str | Path | None = None, log_dir: str | Path | None = None
) -> Iterator[RunningCluster]:
    """Yield a client on a new cluster. The cluster's processes and jobs end with the block, also after an error.

    Raises:
        InputError: the cluster does not start, for example because of wrong options.
    """
    with exit_on_signals():
        import dask
        from espnet3.parallel.parallel import build_client
        from omegaconf import OmegaConf

    threads = max(1, len(os.sched_getaffinity(0)) // settings.n_workers)
    children = set(multiprocessing.active_children())
    client = None
    if local_directory is not None:
        Path(local_directory).mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="espnet_ext_", dir=local_directory, ignore_cleanup_errors=True) as scratch,
        exit_on_signals(),
        _thread_limit(threads),
        _quiet() as errors,
        dask.config.set(
            {
                "temporary-directory": scratch,
                "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
                # Tasks do not queue on a worker, so a lost worker counts only against the shard that it was running.
                "distributed.scheduler.worker-saturation": 1.0,
            }
        ),
    ):
        options = _options(settings, scratch, log_dir)
        config = OmegaConf.create({"env": settings.env, "n_workers": settings.n_workers, "options": options})
        try:
            try:
                with _no_interrupt():
                    client = build_client(config)
            except (TypeError, ValueError, RuntimeError) as error:
                raise InputError(f"env {settings.env}: the cluster does not start: {_cause(error)}") from error
            yield RunningCluster(client, errors, settings)
        finally:
            _close(client, children)


def _options(settings: ClusterSettings, scratch: str, log_dir: str | Path | None) -> dict[str, Any]:
    given = settings.options
    if settings.env == "local":
        defaults = {
            "processes": True,
            "threads_per_worker": 1,
            "dashboard_address": None,
            "memory_limit": 0,
            "local_directory": scratch,
            "silence_logs": logging.CRITICAL,
        }
        return defaults | given
    if settings.env not in SUBMIT:
        return dict(given)
    processes = given.get("processes") or 1
    threads = max(1, int(given.get("cores") or 1) // processes)
    exports = [f"export {name}={threads}" for name in THREAD_VARIABLES]
    exports += [f"export {name}={quote(os.environ[name])}" for name in INSTRUCTION_VARIABLES if name in os.environ]
    defaults = {"python": quote(sys.executable), "processes": 1, "silence_logs": "critical"}
    if log_dir is not None:
        defaults["log_directory"] = str(Path(log_dir).absolute())
    return (
        defaults
        | given
        | {
            "job_script_prologue": [f"cd {quote(os.getcwd())}", *exports, *(given.get("job_script_prologue") or [])],
            # One shard at a time in a process: the other cores are for the threads of that shard.
            "worker_extra_args": [*(given.get("worker_extra_args") or []), "--nthreads", "1"],
        }
    )


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that the cluster is closed. Restore both handlers at the end.

    Importing dask_jobqueue replaces the handler of SIGINT with one that exits with status 0, which looks like success.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGTERM] is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Block SIGINT in this thread, and so in the threads and processes that it starts. A Ctrl-C is handled afterwards.

    A terminal sends Ctrl-C to all its processes. Workers ignore it: this process ends them.
    """
    resource_tracker.ensure_running()  # unblocks SIGINT in the thread that starts it, so it must run before
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _thread_limit(threads: int) -> Iterator[None]:
    """Limit local workers to ``threads`` threads each, also workers that later replace dead ones."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    for name, value in before.items():
        os.environ[name] = str(min(threads, int(value)) if value and value.isdigit() and int(value) else threads)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """Hide Dask's log and yield a list of unhandled errors. :mod:`espnet_ext.work.parallel` reports what matters.

    A failed submission is reported nowhere but in the log of the event loop.
    """
    errors: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1]:
                errors.append(" ".join(str(record.exc_info[1]).split()))

    loggers = [logging.getLogger(name) for name in ("distributed", "asyncio", "tornado")]
    before = [(logger.level, logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL if logger.name == "distributed" else logging.ERROR)
        logger.handlers, logger.propagate = [Collect()], False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield errors
    finally:
        for logger, (level, handlers, propagate) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.handlers, logger.propagate = handlers, propagate


def _cause(error: BaseException) -> str:
    """Return the message of the first cause; Dask wraps it in other exceptions."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())


def _close(client: Any, children: set) -> None:
    # A worker in the middle of a shard does not answer; its process is killed below.
    for part in (client, getattr(client, "cluster", None)):
        if part is not None:
            with suppress(Exception):
                part.close(timeout=CLOSE_SECONDS)
    for process in set(multiprocessing.active_children()) - children:
        process.kill()
        process.join()
