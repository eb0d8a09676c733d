"""What a user sees of a step's log: its last line, and its end after a failure."""

import errno
import os
import shutil
from pathlib import Path

WARNINGS = 5  # so many of a step are shown
# In lines that do not say how far a step is: of ESPnet's import, and of the MP3 decoder
# about frames nobody reads.
ASIDE = ("Failed to import Flash Attention", "libmpg123")
_END = 16_000  # bytes of a log, in which its last line is sought
# bytes: with less, a disk counts as full, though a last file that is small still fits
LEAST_FREE = 256 * 1024


def find_last_line(log: Path) -> str:
    """Return the last line of a log that says how far its step is, cut to fit.

    Lines that begin with # or contain one of ``ASIDE`` say nothing of it.
    """
    # a progress bar writes over its line, after a carriage return
    lines = tail(log, _END).replace("\r", "\n").splitlines()
    if len(lines) > 1 and log.stat().st_size > _END:
        del lines[0]  # the end of a line, which does not show what the line is
    for line in reversed(lines):
        is_aside = line.startswith("#") or any(aside in line for aside in ASIDE)
        if line.strip() and not is_aside:
            return line[:120]
    return ""


def list_warnings(log: Path) -> list[str]:
    """Return the lines of a log that begin with ``warning:``, of many the first few."""
    if not log.is_file():
        return []
    with open(log, encoding="utf-8", errors="replace") as file:
        found = [line.rstrip() for line in file if line.startswith("warning: ")]
    shown = found[:WARNINGS]
    if len(found) > WARNINGS:
        shown.append(f"and {len(found) - WARNINGS:,} more warnings in {log}")
    return shown


def describe_failure(name: str, log: Path, status: int) -> str:
    """Say how the step ``name`` ended, the last lines of its log, and what to do."""
    lines = [f"\n{name}: {_describe_exit(status)}. The end of its log:"]
    text = tail(log, 20_000)
    written = [line for line in text.splitlines() if line.strip()]
    for line in written[-15:]:
        # an error is shown in full, however long its paths are; other lines are cut
        shown = line if line.startswith("error: ") else line[:300]
        lines.append(f"   | {shown}")
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
    """Return why a step failed: the last error in its log, or how it ended."""
    lines = tail(log, 20_000).splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    if errors:
        return errors[-1].removeprefix("error: ")
    return _describe_exit(status)


def _describe_exit(status: int) -> str:
    # as Python's processes have it, below zero
    if status < 0:
        return f"killed by signal {-status}"
    return f"failed with status {status}"


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
    folder = folder.absolute()
    # the folder itself may not be made yet
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free < LEAST_FREE


def tail(path: Path, count: int) -> str:
    """Return the end of a file, at most ``count`` bytes; it may begin within a line."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - count))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
