"""Ends all processes of a run when the run ends, even if it is killed."""

import ctypes
import os
import select
import signal
from contextlib import suppress

POLL_SECONDS = 0.3
PR_SET_PDEATHSIG = 1  # of Linux's prctl


def end_at_once_with_parent() -> None:
    """Have Linux kill this process as soon as its parent is gone, even during a long import. Elsewhere nothing happens.

    Processes that are forked later do not inherit this; they call :func:`end_with_parent`.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent(parent: int) -> None:
    """Kill the process group of this process as soon as ``parent`` is gone, even if that was killed by SIGKILL.

    A small process watches both. It has its own session and keeps no file of this process open: not its output, for
    which the reader of a pipe would wait, and not its locks.

    Args:
        parent: the process id of the parent. It must not be in the process group of this process.
    """
    leader = os.getpid()
    pipe = os.pipe()
    if os.fork():
        os.close(pipe[1])
        os.read(pipe[0], 1)  # waits until the watcher has closed the files of this process
        os.close(pipe[0])
        return
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.close(pipe[0])
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.closerange(3, pipe[1])
        os.closerange(pipe[1] + 1, os.sysconf("SC_OPEN_MAX"))
        os.close(pipe[1])
        while _exists(parent) and _exists(leader):
            select.select([], [], [], POLL_SECONDS)
        if not _exists(parent):
            kill_group(leader)
    finally:
        os._exit(0)


def kill_group(leader: int | None) -> None:
    """Kill all processes of a group, if there are any."""
    if leader:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _exists(process: int) -> bool:
    """Does the process exist? One that has ended, but that its parent has not waited for, counts as gone."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except FileNotFoundError:
        return False
    except OSError:  # no /proc
        try:
            os.kill(process, 0)
        except OSError:
            return False
        return True
