"""Run a command, and end it when the process that started this one is gone.

``python -I supervise.py COMMAND...`` has a session of its own: a signal that kills the
group of its parent does not reach it. The command gets SIGTERM first, at which ``srun``
and Kaldi's wrappers cancel their jobs.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

POLL_SECONDS = 0.3
END_SECONDS = 10.0  # that a command has to cancel its jobs, before it is killed


def main(words: list[str]) -> int:
    """Run a command and return its status; 128 plus the signal if one ended it."""
    # Who is orphaned gets another parent, such as init.
    parent = os.getppid()
    process = subprocess.Popen(words, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        while os.getppid() == parent:
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(POLL_SECONDS)
                return status if status >= 0 else 128 - status
        return 128 + signal.SIGTERM
    finally:
        end_group(process)


def end_group(process: subprocess.Popen) -> None:
    """End all processes of the group that a process leads, those that it left too."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + END_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS / 3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
