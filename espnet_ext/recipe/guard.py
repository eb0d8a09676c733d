"""No process outlives the run that started it, however the run ends."""

import os
import select
import signal
from contextlib import suppress

POLL_SECONDS = 0.3


def end_with_parent(parent: int) -> None:
    """Have the process group of this process killed as soon as ``parent`` is gone, even by SIGKILL.

    A small process watches both. It has a session of its own, and holds no file of this process open: neither its
    output, on which a pipe would wait, nor its locks.

    Args:
        parent: the process id of this process's parent, which must lead no group with it.
    """
    leader = os.getpid()
    pipe = os.pipe()
    if os.fork():
        os.close(pipe[1])
        os.read(pipe[0], 1)  # until the watcher has closed what it must not hold
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
    """Kill all processes of a group; that there are none is no error."""
    if leader:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _exists(process: int) -> bool:
    """Is there such a process? One that has ended and that nobody has waited for yet counts as gone."""
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
