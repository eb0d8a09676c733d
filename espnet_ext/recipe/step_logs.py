"""What a user sees of a step's log: its last line while it runs, its end and the way on
after a failure.
"""

import errno
import os
import shutil
from pathlib import Path

WARNINGS = 5  # so many of a step are shown
# In lines that do not say how far a step is: of ESPnet's import, and of the MP3 decoder
# about frames nobody reads.
ASIDE = ("Failed to import Flash Attention", "libmpg123")
_END = 16_000  # bytes of a log, in which its last line is sought
LEAST_FREE = 256 * 1024  # bytes: with less, a disk counts as full


def find_last_line(log: Path) -> str:
    """Return the last line of a log, to show progress, without lines that begin with #
    or contain one of ``ASIDE``.
    """
    lines = tail(log, _END).replace("\r", "\n").splitlines()
    if len(lines) > 1 and log.stat().st_size > _END:
        del lines[0]  # the end of a line, which does not show what the line is
    told = (
        line for line in reversed(lines) if line.strip() and not line.startswith("#")
    )
    return next(
        (line for line in told if not any(aside in line for aside in ASIDE)), ""
    )[:120]


def list_warnings(log: Path) -> list[str]:
    """Return the lines of a log that begin with ``warning:``, of many the first few."""
    if not log.is_file():
        return []
    with open(log, encoding="utf-8", errors="replace") as file:
        found = [line.rstrip() for line in file if line.startswith("warning: ")]
    more = (
        [f"and {len(found) - WARNINGS:,} more warnings in {log}"]
        if len(found) > WARNINGS
        else []
    )
    return found[:WARNINGS] + more


def describe_failure(name: str, log: Path, status: int) -> str:
    """Say how the step ``name`` ended, the last lines of its log, and what to do."""
    lines = [f"\n{name}: {_describe_exit(status)}. The end of its log:"]
    text = tail(log, 20_000)
    for line in [line for line in text.splitlines() if line.strip()][-15:]:
        # an error is shown in full, however long its paths are; other lines are cut
        lines.append(f"   | {line if line.startswith('error: ') else line[:300]}")
    full = any(
        words in text.lower()
        for words in ("no space left on device", "disk quota exceeded")
    )
    if full or disk_is_full(log.parent):
        lines.append(f"   the disk of {log.parent} is full: make room first")
    lines.append(f"   log:  {log}")
    lines.append(
        "   then: fix the cause and run the same command again; what is done is "
        "not repeated.\n"
    )
    return "\n".join(lines)


def find_failure_reason(log: Path, status: int) -> str:
    """Return why a step failed, in one line: the last error in its log, or how it
    ended.
    """
    errors = [
        line for line in tail(log, 20_000).splitlines() if line.startswith("error: ")
    ]
    return errors[-1].removeprefix("error: ") if errors else _describe_exit(status)


def _describe_exit(status: int) -> str:
    return (
        f"killed by signal {-status}" if status < 0 else f"failed with status {status}"
    )


def explain_write_failure(name: str, log: Path, error: OSError) -> str:
    """Say why a step cannot write its log or its note, and what to do."""
    path = Path(error.filename) if error.filename else log
    start = f"{name}: cannot write {path}: "
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or disk_is_full(log.parent):
        return (
            f"{start}the disk of {path.parent} is full: make room and run the same "
            "command again"
        )
    return f"{start}{error.strerror}: make sure that you may write there"


def disk_is_full(folder: Path) -> bool:
    """Return whether there is almost no space left on the disk of a folder."""
    folder = next(
        path
        for path in (folder.absolute(), *folder.absolute().parents)
        if path.exists()
    )
    return shutil.disk_usage(folder).free < LEAST_FREE


def tail(path: Path, count: int) -> str:
    """Return the end of a file, at most so many bytes; it may begin within a line."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - count))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
