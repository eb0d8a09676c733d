"""How results were made: command, commit, versions, hardware and date. Imports no torch."""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from espnet_ext.work.files import write_json

PACKAGES = (
    *("espnet_ext", "espnet", "torch", "torchaudio", "lhotse", "kaldialign", "numpy", "sentencepiece"),
    *("transformers", "ctranslate2"),
)


def write_record(path: str | Path, about: str, command: str, values: dict[str, Any]) -> None:
    """Write measured values as JSON, with what they are (``about``, a sentence) and how they were made."""
    write_json(path, {"about": about, **collect_meta(command, Path(__file__).parent), "values": values})


def read_record(path: str | Path) -> dict[str, Any]:
    """Read what :func:`write_record` has written."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def collect_meta(command: str, repository: str | Path) -> dict[str, Any]:
    """Return how results were made, as their ``meta`` holds it.

    ``git`` is null outside a git checkout; ``hardware.gpu`` is a list of names, empty without an Nvidia driver.
    """
    return {
        "command": command,
        "git": git_state(repository),
        "versions": versions(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "hardware": hardware(),
    }


def git_state(folder: str | Path) -> dict[str, Any] | None:
    """Return the current commit of a checkout, and whether the tree differs from it."""
    commit = _output(["git", "-C", str(folder), "rev-parse", "HEAD"])
    status = _output(["git", "-C", str(folder), "status", "--porcelain"])
    return None if commit is None or status is None else {"commit": commit, "dirty": bool(status)}


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that results depend on (null: not installed)."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def hardware() -> dict[str, Any]:
    """Processor, cores that this process may use, memory in GiB, and graphics processors."""
    gpus = _output(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpu": gpus.splitlines() if gpus else [],
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _output(command: Sequence[str]) -> str | None:
    """Return the output of a command, stripped; None if it is missing, fails or takes over 20 s."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
