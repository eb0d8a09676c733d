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

# Exit statuses of a step's process; Python itself ends with none but 0, 1, 2 and 120.
FAILED = 1
DONE_BY_ANOTHER = 75
NOT_BEGUN = 76  # the process has said why, in the terminal instead of the log
# in a folder whose work is resumed: the key under which it was started
BEGUN = ".begun.json"
PARAMETERS = (".pth", ".pt", ".bin", ".safetensors")  # how files of models end
SHOW_SECONDS = 10.0
# A killed run.sh is noticed this soon, and a step that ends at once.
POLL_SECONDS = 0.2


Lane = tuple[str, ...]  # the GPUs that one chain of steps sees


class StepFailed(InputError):
    """A step failed, and the end of its log was shown."""


@dataclass(frozen=True)
class Step:
    """A call of a module's top-level function that writes its result to disk."""

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
    # files that must exist; otherwise the step is not done, whatever its note says
    outputs: Sequence[Path] = ()
    # a folder with incomplete work that the function resumes, unless of another key
    resumes: Path | None = None
    # modules that the stages' process imports first, so that steps share them (unless
    # GPUs are used: ESPnet starts CUDA)
    preload: Sequence[str] = ()
    # what starts the function's process on another machine, such as ``queue.pl``
    launch: Sequence[str] = ()
    # what it runs, to be copied into a shell; it is shown as the step begins
    command: str = ""
    # makes a short line from the log, shown every ten seconds
    progress: Callable[[Path], str] = find_last_line

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
        # arguments name outputs, too: with them a step that has run would never be done
        files.difference_update(Path(path) for path in self.outputs)
        return make_key(self.function, self.arguments, self.depends, sorted(files))

    def is_done(self, key: StepKey) -> bool:
        """Return whether it was done under this key, and all its outputs exist."""
        return once.read_key(self.note) == key.key and all(
            Path(path).exists() for path in self.outputs
        )


def run_steps(*steps: Step) -> None:
    """Run steps one after the other; StepFailed after the first that fails."""
    run_jobs([steps])


@dataclass
class Watch:
    """What a rehearsal does with the steps of a run: it notes failures, and goes on.

    ``ended`` is called with a step, its GPUs, its seconds, and what failed (empty:
    nothing); ``failed`` with what keeps a step from beginning.
    """

    ended: Callable[[Step, Lane, float, str], object]
    failed: Callable[[str], object]


watches: list[Watch] = []  # the last one is told of all steps


def run_jobs(
    jobs: Iterable[Iterable[Step]],
    side_by_side: int = 1,
    lanes: Sequence[Lane] = (),
) -> None:
    """Run chains of steps, ``side_by_side`` of them in parallel, or one in each lane.

    A lane names the GPUs that the steps in it see. A chain may be a generator: its code
    between two steps runs in this process, after the first of them is done. After a
    failure (StepFailed) no further step starts, and those that are running are waited
    for; in lanes, where that may be days, the other chains go on. Raises InputError: an
    input is missing, or a folder has work of another config or other data.
    """
    # without GPUs a lane is a place to run in, and shows a step those of this process
    places = list(lanes) or [()] * max(1, side_by_side)
    schedule = _Schedule(iter(jobs), places, goes_on=bool(lanes))
    try:
        schedule.start_steps()
        while schedule.running:
            schedule.wait_for_steps()
            check_parent()
            for started in schedule.running.values():
                started.show_progress()
            schedule.start_steps()
    finally:
        # a step that this process leaves running would write beside the next run's
        for started in schedule.running.values():
            kill_group(started.process.pid)
            started.process.join()
    if schedule.failures:
        raise join_errors(schedule.failures)


class _Schedule:
    """Which chains run, each in its lane from its first step to its last."""

    def __init__(
        self, jobs: Iterator[Iterable[Step]], lanes: list[Lane], *, goes_on: bool
    ) -> None:
        self.jobs = jobs  # that have not begun
        self.free = lanes
        self.goes_on = goes_on  # after a failure
        # chains that have begun, none of whose steps is running, with their lanes
        self.between: list[tuple[Iterator[Step], Lane]] = []
        self.running: dict[Any, _Started] = {}  # by the sentinel of the process
        self.failures: list[Exception] = []

    def start_steps(self) -> None:
        """Start steps until all lanes are taken, or nothing is left to be started."""
        while self.goes_on or not self.failures:
            # chains that have begun go on before others begin, in the lane they hold
            if not self.between and not self._begin_job():
                return
            chain, lane = self.between.pop(0)
            try:
                started = _start_next_step(chain, lane)
            except Exception as error:
                started = None
                self._note_failure(error)
            if started:
                self.running[started.process.sentinel] = started
            else:
                self.free.append(lane)

    def _begin_job(self) -> bool:
        """Give the next job a free lane; return False if one of them is missing."""
        if not self.free:
            return False
        try:
            job = next(self.jobs, None)
        except Exception as error:  # of the code that makes the job
            self._note_failure(error)
            return False
        if job is None:
            return False
        self.between.append((iter(job), self.free.pop(0)))
        return True

    def _note_failure(self, error: Exception) -> None:
        if watches:
            watches[-1].failed(describe_error(error))
        else:
            self.failures.append(error)

    def wait_for_steps(self) -> None:
        """Wait a moment for steps to end, and report those that have."""
        for sentinel in connection.wait(list(self.running), timeout=POLL_SECONDS):
            started = self.running.pop(sentinel)
            try:
                started.finish()
                self.between.append((started.chain, started.lane))
            except Exception as error:
                self.free.append(started.lane)
                if not watches:  # which ``finish`` has told
                    self.failures.append(error)


def join_errors(failures: Sequence[Exception]) -> Exception:
    """Return the error that ends a run: the only failure, a fault, or one of all."""
    for error in failures:
        # a fault of the program ends in a traceback, which must be that of the fault
        if not isinstance(error, InputError):
            return error
    if len(failures) == 1:
        return failures[0]
    return StepFailed("; ".join(map(str, failures)))


def describe_error(error: BaseException) -> str:
    """Return an error's message, after its type if it is a fault of the program."""
    if isinstance(error, InputError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _start_next_step(chain: Iterator[Step], lane: Lane) -> "_Started | None":
    """Start the next step of a chain that is not done; None if there is none."""
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
        # here for the message in the terminal; the step asks again under its lock
        if step.resumes is not None:
            _refuse_other_work(step, step.resumes, key)
        # CUDA cannot be used after a fork, and importing ESPnet starts it
        new = bool(step.preload) and not gpus.are_hidden()
        if not new:
            _preload(step)
        check_parent()
        if step.command:
            seen = f"CUDA_VISIBLE_DEVICES={','.join(lane)} " if lane else ""
            show(f"{step.name}: {seen}{step.command}")
        # a fork would copy what is buffered, and both would write it
        sys.stdout.flush()
        sys.stderr.flush()
        process = _make_process(step, key, lane, new)
        process.start()
        return _Started(step, process, chain, lane)
    return None


def _preload(step: Step) -> None:
    """Import what a step needs, for it and others that are forked from this process."""
    # ESPnet names all packages that it lacks
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        defer_type_checks()
        for module in step.preload:
            with suppress(ImportError):  # the step itself will say what is missing
                import_module(module)
        prepare_forks()


def _make_process(step: Step, key: StepKey, lane: Lane, new: bool) -> BaseProcess:
    """Make the process of a step, a ``new`` one or a fork of this one.

    It sees the GPUs of its lane, and those of this process without one; none if it uses
    none.
    """
    own: Lane | None = ()
    if step.uses_gpu:
        own = lane or None
    if new:
        work = pickle_with_scripts((step, key))
        return gpus.NewProcess(target=_run_new, args=(work, os.getpid()), gpus=own)
    fork = get_context("fork")
    return fork.Process(target=_run_forked, args=(step, key, own, os.getpid()))


class _Started:
    """A step that is running, as the process of the stage sees it."""

    def __init__(
        self, step: Step, process: Any, chain: Iterator[Step], lane: Lane
    ) -> None:
        self.step = step
        self.process = process
        self.chain = chain
        self.lane = lane
        self.began = time.monotonic()
        self.shown = self.began

    def show_progress(self) -> None:
        now = time.monotonic()
        if now - self.shown < SHOW_SECONDS or not self.step.log.exists():
            return
        self.shown = now
        text = self.step.progress(self.step.log)
        more = f", {text}" if text else ""
        show(f"{self.step.name}: {now - self.began:.0f} s{more}")

    def finish(self) -> None:
        """Report how the step ended; StepFailed if it failed."""
        self.process.join()
        status = self.process.exitcode
        seconds = time.monotonic() - self.began
        kill_group(self.process.pid)  # processes that it left running
        if watches:
            reason = ""
            if status not in (0, DONE_BY_ANOTHER):
                reason = find_failure_reason(self.step.log, status or 0)
            watches[-1].ended(self.step, self.lane, seconds, reason)
        if status == 0:
            show(f"{self.step.name}: done in {seconds:.0f} s")
            _show_warnings(self.step)
        elif status == DONE_BY_ANOTHER:
            show(f"{self.step.name}: done by another run")
        else:
            if status != NOT_BEGUN:
                text = describe_failure(self.step.name, self.step.log, status)
                say(text, error=True)
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
    # a group of its own, so that all that the step starts can be killed with it
    os.setsid()
    # Ctrl-C ends the stage, which then kills this group
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
    # without the exit handlers of the process that this one was forked from
    os._exit(status)


def _run_locked(step: Step, key: StepKey) -> int:
    """Run a step unless another run does, and return the status of its process."""

    def on_wait(seconds: float) -> None:
        waited = f" ({seconds:.0f} s)" if seconds else ""
        text = f"another process is running it, waiting for it to end{waited}"
        if math.isnan(seconds):
            text = (
                "this file system has no locks: make sure that no other run uses this "
                "folder"
            )
        show(f"{step.name}: {text}")

    try:
        step.log.parent.mkdir(parents=True, exist_ok=True)
        with once.hold_lock(step.log.with_suffix(".lock"), on_wait):
            # by the run that had the lock, while this one waited for it
            if step.is_done(key):
                return DONE_BY_ANOTHER
            if step.resumes is not None:
                _claim(step, step.resumes, key)
            # killed from here on, the step is not done, whatever it was before
            step.note.unlink(missing_ok=True)
            began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            _redirect(step.log, f"# {began}\n# {_describe_call(step)}\n")
            if not _call_function(step):
                return FAILED
            once.write_note(step.note, key.key, step=step.name)
    except OSError as error:
        raise InputError(explain_write_failure(step.name, step.log, error)) from None
    return 0


def _call_function(step: Step) -> bool:
    """Call the function of a step; return whether it succeeds, after its error."""
    call = partial(step.function, **step.arguments, **step.free)
    try:
        if step.launch:
            launch_call(call, step.launch, step.log.with_suffix(LAUNCHED))
        else:
            call()
        return True
    except (Exception, SystemExit) as error:
        # ESPnet's commands end with ``sys.exit``
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
    """Raise InputError if the work in a folder was started under another key."""
    given = {Path(path) for path in step.inputs}
    models = (path for path in list_files_below(folder) if path.suffix in PARAMETERS)
    # where the step has written no parameters yet, nothing is lost by starting anew
    if any(path not in given for path in models):
        refuse_other_work(step.name, folder, folder / BEGUN, key)


def _claim(step: Step, folder: Path, key: StepKey) -> None:
    """Note under which key a folder's work starts; keep the log of earlier starts."""
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
        # the descriptors, not ``sys.stdout``: C libraries and children write there
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    # a program that asks would wait for ever behind the other steps
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    logging.getLogger().handlers.clear()  # ESPnet's commands set up logging themselves
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)


def _describe_call(step: Step) -> str:
    given = {**step.arguments, **step.free}
    values = ", ".join(f"{name}={value!s}" for name, value in given.items())
    return f"{step.function.__module__}.{step.function.__qualname__}({values})"


def find_paths(value: Any) -> Iterator[Path]:
    """Return the paths in nested lists, tuples, mappings and dataclasses."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, Mapping):
        yield from find_paths(list(value.values()))
    elif isinstance(value, list | tuple | set):
        for each in value:
            yield from find_paths(each)
    elif hasattr(value, "__dataclass_fields__") and not inspect.isclass(value):
        yield from find_paths(vars(value))


# run.sh gives its process id: it may have been killed before this line runs.
_PARENT = int(os.environ.get("ESPNET_EXT_SHELL") or os.getppid())


def check_parent() -> None:
    """Raise InputError if the shell that started this process was killed."""
    # orphans get another parent; no process of a killed run may go on writing
    if os.getppid() != _PARENT:
        raise InputError("the command that started this stage was killed")


def show(text: str) -> None:
    """Print one line about progress or a result, indented under its stage."""
    say(f"   {text}")
