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
    """Have Linux kill this process, but none that it forks, as soon as its parent is
    gone, even during an import.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent(parent: int) -> None:
    """Kill the process group of this process as soon as ``parent``, of another group,
    is gone, even by SIGKILL.
    """

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
