"""Ends all processes of a run when the run ends, even if it is killed."""

import ctypes
import os
import signal
import time
from contextlib import suppress
from threading import Thread

POLL_SECONDS = 0.3
PR_SET_PDEATHSIG = 1  # of Linux's prctl


def end_at_once_with_parent() -> None:
    """Have Linux kill this process as soon as its parent is gone, even in an import.

    Processes that it forks do not inherit that.
    """
    # elsewhere there is no prctl
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent(parent: int) -> None:
    """Kill this process's group as soon as ``parent`` is gone, even by SIGKILL.

    The parent is of another group.
    """

    # A thread, since prctl's signal reaches this process alone, not its children.
    def watch() -> None:
        while os.getppid() == parent:  # orphans get another parent at once
            time.sleep(POLL_SECONDS)
        kill_group(os.getpid())

    Thread(target=watch, daemon=True).start()


def kill_group(leader: int | None) -> None:
    """Kill all processes of a group, if there are any."""
    if leader:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
