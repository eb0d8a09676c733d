"""Steps of a stage: skipped when done, resumed when killed, several in parallel.

A step runs in a process of its own: forked from that of the stages, which has its
imports, or a new one if GPUs are used (:mod:`espnet_ext.work.gpus`). It is done when
the note beside its log holds its key, of the function's arguments and of the contents
of those that are files (:mod:`espnet_ext.recipe.step_keys`).
"""

import inspect
import io
import logging
import math
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, say
from espnet_ext.recipe.call import launch_call
from espnet_ext.recipe.guard import end_with_parent, kill_group
from espnet_ext.recipe.scripts import pickle_with_scripts
from espnet_ext.recipe.step_keys import StepKey, make_key, refuse_other_work
from espnet_ext.recipe.step_logs import (
    describe_failure,
    explain_write_failure,
    find_failure_reason,
    find_last_line,
    list_warnings,
)
from espnet_ext.upstream.own_process import (
    defer_type_checks,
    prepare_forks,
    prepare_imports,
)
from espnet_ext.work import gpus, once
from espnet_ext.work.files import list_files_below
from espnet_ext.work.launch import LAUNCHED

FAILED, DONE_BY_ANOTHER, NOT_BEGUN = 1, 75, 76  # exit statuses of a step's process
# in a folder whose work is resumed: the key under which it was started
BEGUN = ".begun.json"
PARAMETERS = (".pth", ".pt", ".bin", ".safetensors")  # how files of models end
SHOW_SECONDS = 10.0
POLL_SECONDS = 0.2


class StepFailed(InputError):
    """A step failed, and the end of its log was shown."""


@dataclass(frozen=True)
class Step:
    """A call of a function, at the top level of a module, that writes its result to
    disk.
    """

    name: str
    # of the function's output; its lines ``warning: ...`` are shown after the step
    log: Path
    function: Callable[..., object]
    # determine the result, files by their contents
    arguments: Mapping[str, Any] = field(default_factory=dict)
    # more, which do not change the result
    free: Mapping[str, Any] = field(default_factory=dict)
    # other values that the result depends on, such as the stamps of a corpus's files
    depends: object = None
    # files that the result depends on, made by an earlier stage
    inputs: Sequence[Path] = ()
    outputs: Sequence[
        Path
        # files that must exist; otherwise the step is not done, whatever its note says
    ] = ()
    resumes: Path | None = (
        # a folder with incomplete work that the function resumes, unless of another key
        None
    )
    preload: Sequence[
        str
    ] = ()  # modules that the stages' process imports first, so that steps share them
    # (unless GPUs are used: ESPnet starts CUDA)
    # what starts the function's process on another machine, such as ``queue.pl``
    launch: Sequence[str] = ()
    command: str = (
        ""  # what it runs, to be copied into a shell; it is shown as the step begins
    )
    progress: Callable[[Path], str] = (
        find_last_line  # makes a short line from the log, shown every ten seconds
    )

    @property
    def note(self) -> Path:
        """The file that holds the step's key when it is done."""
        return self.log.with_suffix(".done")

    @property
    def uses_gpu(self) -> bool:
        """Whether the function is told to use a GPU, by its argument ``ngpu``."""
        return bool({**self.arguments, **self.free}.get("ngpu"))

    def key(self) -> StepKey:
        """Return the key of everything that the result depends on."""
        files = {Path(path) for path in self.inputs}
        files.update(path for path in find_paths(self.arguments) if path.is_file())
        files.difference_update(Path(path) for path in self.outputs)
        return make_key(self.function, self.arguments, self.depends, sorted(files))

    def is_done(self, key: StepKey) -> bool:
        """Return whether it was done under this key, and all its outputs exist."""
        return once.read_key(self.note) == key.key and all(
            Path(path).exists() for path in self.outputs
        )


def run_steps(*steps: Step) -> None:
    """Run steps one after the other; StepFailed if one has failed: those after it did
    not run.
    """
    run_jobs([steps])


@dataclass
class Watch:
    """What a rehearsal does with the steps of a run: failures are noted, and the other
    jobs go on.

    ``ended`` is called with a step, its GPUs, its seconds, and what failed (empty:
    nothing); ``failed`` with what keeps a step from beginning.
    """

    ended: Callable[[Step, tuple[str, ...], float, str], object]
    failed: Callable[[str], object]


watches: list[Watch] = []  # the last one is told of all steps


def run_jobs(
    jobs: Iterable[Iterable[Step]],
    side_by_side: int = 1,
    lanes: Sequence[tuple[str, ...]] = (),
) -> None:
    """Run jobs, each a chain of steps, ``side_by_side`` of them in parallel, or one in
    each of ``lanes`` (of GPUs).

    A chain may be a generator: its code between two steps runs in this process, after
    the first of them is done. After a failure (StepFailed) no further step starts, and
    those that are running are waited for; on GPUs, where that may be days, the other
    chains go on. InputError: an input is missing, or a folder has work of another
    config or other data.
    """
    waiting = iter(jobs)
    free = list(lanes) or [()] * max(1, side_by_side)
    chains: list[tuple[Iterator[Step], tuple[str, ...]]] = []
    running: dict[Any, _Started] = {}
    failures: list[Exception] = []
    try:
        while True:
            while (lanes or not failures) and (chains or free):
                lane: tuple[str, ...] = ()
                try:
                    if not chains:
                        job = next(waiting, None)
                        if job is None:
                            break
                        chains.append((iter(job), free.pop(0)))
                    chain, lane = chains.pop(0)
                    if _start_next_step(chain, lane, running):
                        continue
                except Exception as error:
                    if watches:
                        watches[-1].failed(describe_error(error))
                    else:
                        failures.append(error)
                free.append(lane)
            if not running:
                if failures:
                    raise join_errors(failures)
                return
            for sentinel in connection.wait(list(running), timeout=POLL_SECONDS):
                started = running.pop(sentinel)
                try:
                    started.finish()
                    chains.append((started.chain, started.lane))
                except Exception as error:
                    free.append(started.lane)
                    failures += [] if watches else [error]
            check_parent()
            for started in running.values():
                started.show_progress()
    finally:
        for started in running.values():
            kill_group(started.process.pid)
            started.process.join()


def join_errors(failures: Sequence[Exception]) -> Exception:
    """Return the error that ends a run, of one or several failures; of a fault of the
    program, that one.
    """
    faults = [error for error in failures if not isinstance(error, InputError)]
    return (
        [*faults, *failures][0]
        if faults or len(failures) == 1
        else StepFailed("; ".join(map(str, failures)))
    )


def describe_error(error: BaseException) -> str:
    """Return what an error says: its message, after its type if it is a fault of the
    program.
    """
    return (
        str(error)
        if isinstance(error, InputError)
        else f"{type(error).__name__}: {error}"
    )


def _start_next_step(
    chain: Iterator[Step], lane: tuple[str, ...], running: "dict[Any, _Started]"
) -> bool:
    """Start the next step of a chain that is not done, and say whether there is one."""
    for step in chain:
        for path in step.inputs:
            if not os.access(path, os.R_OK):
                raise InputError(
                    f"{step.name}: {path} is missing: run the earlier stages first"
                )
        key = step.key()
        if step.is_done(key):
            show(f"{step.name}: done before")
            _show_warnings(step)
            continue
        if step.resumes is not None:
            _refuse_other_work(step, step.resumes, key)
        new = bool(step.preload) and not gpus.are_hidden()
        if not new:
            _preload(step)
        check_parent()
        if step.command:
            seen = f"CUDA_VISIBLE_DEVICES={','.join(lane)} " if lane else ""
            show(f"{step.name}: {seen}{step.command}")
        sys.stdout.flush()
        sys.stderr.flush()
        process = _make_process(step, key, lane, new)
        process.start()
        running[process.sentinel] = _Started(step, process, chain, lane)
        return True
    return False


def _preload(step: Step) -> None:
    """Import what a step needs, for it and others that are forked from this process."""
    # ESPnet names all packages that it lacks
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        defer_type_checks()
        for module in step.preload:
            with suppress(ImportError):  # the step itself will say what is missing
                import_module(module)
        prepare_forks()


def _make_process(
    step: Step, key: StepKey, lane: tuple[str, ...], new: bool
) -> BaseProcess:
    """Make the process of a step, a ``new`` one or a fork of this one. It sees the GPUs
    of its lane, and those of this process without one; none if it uses none.
    """
    own = (lane or None) if step.uses_gpu else ()
    if new:
        work = pickle_with_scripts((step, key))
        return gpus.NewProcess(target=_run_new, args=(work, os.getpid()), gpus=own)
    fork = get_context("fork")
    return fork.Process(target=_run_forked, args=(step, key, own, os.getpid()))


class _Started:
    """A step that is running, in the process of the stage."""

    def __init__(
        self, step: Step, process: Any, chain: Iterator[Step], lane: tuple[str, ...]
    ):
        self.step, self.process, self.chain, self.lane = step, process, chain, lane
        self.began = self.shown = time.monotonic()

    def show_progress(self) -> None:
        now = time.monotonic()
        if now - self.shown < SHOW_SECONDS or not self.step.log.exists():
            return
        self.shown = now
        text = self.step.progress(self.step.log)
        show(f"{self.step.name}: {now - self.began:.0f} s{', ' + text if text else ''}")

    def finish(self) -> None:
        """Report how the step ended; StepFailed if it failed."""
        self.process.join()
        status = self.process.exitcode
        seconds = time.monotonic() - self.began
        kill_group(self.process.pid)  # processes that it left running
        for watch in watches[-1:]:
            reason = (
                ""
                if status in (0, DONE_BY_ANOTHER)
                else find_failure_reason(self.step.log, status or 0)
            )
            watch.ended(self.step, self.lane, seconds, reason)
        if status == 0:
            show(f"{self.step.name}: done in {seconds:.0f} s")
            _show_warnings(self.step)
        elif status == DONE_BY_ANOTHER:
            show(f"{self.step.name}: done by another run")
        else:
            if status != NOT_BEGUN:
                say(
                    describe_failure(self.step.name, self.step.log, status),
                    error=True,
                )
            raise StepFailed(f"{self.step.name}: failed")


def _show_warnings(step: Step) -> None:
    for warning in list_warnings(step.log):
        show(f"{step.name}: {warning}")


def _run_new(work: bytes, parent: int) -> None:
    """Run a step in this new process, which has imported nothing for it."""
    prepare_imports()  # before the modules of the step import ESPnet
    step, key = pickle.loads(work)
    _run(step, key, parent)


def _run_forked(
    step: Step, key: StepKey, own: Sequence[str] | None, parent: int
) -> None:
    """Run a step in this process, which was forked for it; CUDA has not started."""
    with gpus.give_gpus(own):
        _run(step, key, parent)


def _run(step: Step, key: StepKey, parent: int) -> None:
    """Run a step in this process, which is its own, and exit with its status."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent(parent)
    user = os.dup(2)  # the log takes its place
    try:
        status = _run_locked(step, key)
    except InputError as error:
        os.write(user, f"error: {error}\n".encode())
        status = NOT_BEGUN
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run_locked(step: Step, key: StepKey) -> int:
    def on_wait(seconds: float) -> None:
        text = (
            "another process is running it, waiting for it to "
            f"end{f' ({seconds:.0f} s)' if seconds else ''}"
        )
        if math.isnan(seconds):
            text = (
                "this file system has no locks: make sure that no other run uses this "
                "folder"
            )
        show(f"{step.name}: {text}")

    try:
        step.log.parent.mkdir(parents=True, exist_ok=True)
        with once.hold_lock(step.log.with_suffix(".lock"), on_wait):
            if step.is_done(key):
                return DONE_BY_ANOTHER
            if step.resumes is not None:
                _claim(step, step.resumes, key)
            step.note.unlink(missing_ok=True)
            _redirect(
                step.log,
                f"# {datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}\n# "
                f"{_describe_call(step)}\n",
            )
            if not _call_function(step):
                return FAILED
            once.write_note(step.note, key.key, step=step.name)
    except OSError as error:
        raise InputError(explain_write_failure(step.name, step.log, error)) from None
    return 0


def _call_function(step: Step) -> bool:
    call = partial(step.function, **step.arguments, **step.free)
    try:
        if step.launch:
            launch_call(call, step.launch, step.log.with_suffix(LAUNCHED))
        else:
            call()
        return True
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code in (0, None):
            return True
        if isinstance(error, SystemExit) and not isinstance(error.code, str):
            return False  # what ends with a status has said why
        reason = describe_error(error)
        if not isinstance(error, InputError):
            traceback.print_exc()
        if isinstance(error, OSError):
            reason = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
    say(f"error: {reason}")
    return False


def _refuse_other_work(step: Step, folder: Path, key: StepKey) -> None:
    """Raise InputError if the work in a folder was started under another key; where no
    parameters are there yet, nothing is lost by starting anew.
    """
    given = {Path(path) for path in step.inputs}
    models = (path for path in list_files_below(folder) if path.suffix in PARAMETERS)
    if any(path not in given for path in models):
        refuse_other_work(step.name, folder, folder / BEGUN, key)


def _claim(step: Step, folder: Path, key: StepKey) -> None:
    """Note the key under which the work in a folder is started, and keep the log of
    earlier starts.
    """
    _refuse_other_work(step, folder, key)
    folder.mkdir(parents=True, exist_ok=True)
    once.write_note(folder / BEGUN, key.key, made_of=key.made_of)
    if step.log.is_file():
        with open(step.log.with_suffix(".earlier.log"), "ab") as earlier:
            earlier.write(step.log.read_bytes())


def _redirect(log: Path, head: str) -> None:
    """Send the output of this process and its children to a file; close its input."""
    with open(log, "wb") as file:
        file.write(head.encode())
        file.flush()
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    logging.getLogger().handlers.clear()  # ESPnet's commands set up logging themselves
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)


def _describe_call(step: Step) -> str:
    values = ", ".join(
        f"{name}={value!s}" for name, value in {**step.arguments, **step.free}.items()
    )
    return f"{step.function.__module__}.{step.function.__qualname__}({values})"


def find_paths(value: Any) -> Iterator[Path]:
    """Return the paths in nested lists, tuples, mappings and dataclasses."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, Mapping | list | tuple | set):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from find_paths(each)
    elif hasattr(value, "__dataclass_fields__") and not inspect.isclass(value):
        yield from find_paths(vars(value))


# run.sh gives its process id: it may have been killed before this line runs.
_PARENT = int(os.environ.get("ESPNET_EXT_SHELL") or os.getppid())


def check_parent() -> None:
    """Stop if the shell that started this process was killed: no process of a killed
    run goes on.
    """
    if os.getppid() != _PARENT:
        raise InputError("the command that started this stage was killed")


def show(text: str) -> None:
    """Print one line about progress or a result, indented under its stage."""
    say(f"   {text}")
