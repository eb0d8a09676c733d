"""Start and stop the Dask cluster of ``--parallel``: local processes or jobs of a batch system.

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
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from espnet_ext.errors import InputError
from espnet_ext.work.settings import Count, StrictMapping, checked, one_of
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


class ClusterSettings(StrictMapping):
    """The settings in ``conf/parallel/*.yaml``. ``options`` are the arguments of the Dask cluster class."""

    env: Annotated[str, one_of(ENVS)]
    n_workers: Count | None = None
    options: dict[str, Any] | None = None


def read_config(path: str | Path) -> ClusterSettings:
    """Read ``conf/parallel/*.yaml``."""
    settings = checked(ClusterSettings, read_yaml(path), str(path))
    submit = SUBMIT.get(settings.env)
    if submit and not shutil.which(submit):
        raise InputError(
            f"{path}: env {settings.env} needs the command {submit}, which is not on PATH: run on a submit host"
        )
    return settings


@dataclass(frozen=True)
class RunningCluster:
    """A Dask client, the errors of its cluster (oldest first), its kind and its number of workers."""

    client: Any
    errors: list[str]
    env: str
    workers: int

    def replace_lost(self) -> None:
        """Start others for jobs that have ended (cancelled, preempted, out of walltime), and for local workers.

        Dask forgets a worker that has been lost for some seconds (``distributed.deploy.lost-worker-timeout``), even if
        its nanny is only slow to start it again, and starts another only when it is told their number again.
        """
        cluster = self.client.cluster
        wanted = getattr(cluster, "worker_spec", None)  # Kubernetes replaces its pods itself
        if wanted and set(wanted) - set(cluster.workers):
            cluster.scale(self.workers)


@contextmanager
def start(settings: ClusterSettings, workers: int, log_dir: str | Path | None) -> Iterator[RunningCluster]:
    """Yield a client on a new cluster. Its processes and jobs end with the block, also after an error."""
    with exit_on_signals():
        import dask
        from espnet3.parallel.parallel import build_client
        from omegaconf import OmegaConf

    children = set(multiprocessing.active_children())
    threads = str(max(1, len(os.sched_getaffinity(0)) // workers))
    client = None
    with (
        tempfile.TemporaryDirectory(prefix="espnet_ext_", ignore_cleanup_errors=True) as scratch,
        exit_on_signals(),
        _environment(threads),
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
        config = OmegaConf.create({"env": settings.env, "n_workers": workers, "options": options})
        try:
            try:
                with _no_interrupt():
                    client = build_client(config)
            except (TypeError, ValueError, RuntimeError, ImportError) as error:
                raise InputError(f"env {settings.env}: the cluster does not start: {_cause(error)}") from error
            yield RunningCluster(client, errors, settings.env, workers)
        finally:
            _close(client, children)


def _options(settings: ClusterSettings, scratch: str, log_dir: str | Path | None) -> dict[str, Any]:
    given = settings.options or {}
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
    threads = max(1, int(given.get("cores") or 1) // (given.get("processes") or 1))
    exports = [f"export {name}={threads}" for name in THREAD_VARIABLES]
    exports += [f"export {name}={quote(os.environ[name])}" for name in INSTRUCTION_VARIABLES if name in os.environ]
    logs = {} if log_dir is None else {"log_directory": str(Path(log_dir).absolute())}
    return {
        **{"python": quote(sys.executable), "processes": 1, "silence_logs": "critical", **logs},
        **given,
        "job_script_prologue": [f"cd {quote(os.getcwd())}", *exports, *(given.get("job_script_prologue") or [])],
        # One shard at a time in a process: the other cores are for the threads of that shard.
        "worker_extra_args": [*(given.get("worker_extra_args") or []), "--nthreads", "1"],
    }


@contextmanager
def _environment(threads: str) -> Iterator[None]:
    """Give local workers this many threads each, unless the environment sets their number.

    Dask's nannies set variables of this process, too. Afterwards all are as before, and never empty in between: other
    threads read them.
    """
    before = dict(os.environ)
    os.environ.update({name: before.get(name) or threads for name in THREAD_VARIABLES})
    try:
        yield
    finally:
        os.environ.update(before)
        for name in os.environ.keys() - before.keys():
            del os.environ[name]


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that workers are ended. Restore both handlers at the end.

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


class _Errors(logging.Handler):
    """Collect the messages of unhandled errors; a failed submission is reported nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1]:
            self.found.append(" ".join(str(record.exc_info[1]).split()))


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """Hide Dask's log and yield a list of unhandled errors. :mod:`espnet_ext.work.parallel` reports what matters."""
    handler = _Errors()
    loggers = [logging.getLogger(name) for name in ("distributed", "asyncio", "tornado")]
    before = [(logger.level, logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL if logger.name == "distributed" else logging.ERROR)
        logger.handlers, logger.propagate = [handler], False
    try:
        with warnings.catch_warnings(action="ignore"):
            yield handler.found
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
