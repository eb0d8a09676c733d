"""Write how results were made: command, commit, versions, hardware and date.

Imports no torch.
"""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from espnet_ext.work.files import write_json

PACKAGES = (
    "espnet_ext",
    "espnet",
    "torch",
    "torchaudio",
    "lhotse",
    "kaldialign",
    "numpy",
    "sentencepiece",
    "transformers",
    "ctranslate2",
)
# A variable of utils/path.sh, and what it is unless the user sets it.
INSTRUCTIONS = "CPU_INSTRUCTIONS"
USUAL_INSTRUCTIONS = "avx2"
# git's patterns of what a run reads of a checkout.
READ = (":(top,glob)**/*.py", ":(top,glob)**/*.sh", ":(top,glob)**/conf/**")


def write_record(
    path: str | Path, about: str, command: str, values: dict[str, Any]
) -> None:
    """Write measured values as JSON, with how they were made.

    ``about`` is a sentence that says what they are.
    """
    meta = collect_meta(command, Path(__file__).parent)
    write_json(path, {"about": about, **meta, "values": values})


def collect_meta(command: str, repository: str | Path) -> dict[str, Any]:
    """Return how results were made, as their ``meta`` holds it.

    ``git`` has the commit, and whether code or configs differ from it; null outside a
    git checkout. The command begins with the instructions that ``utils/path.sh`` was
    asked to leave to the processor, on which the numbers depend.
    """
    instructions = os.environ.get(INSTRUCTIONS, USUAL_INSTRUCTIONS)
    if instructions != USUAL_INSTRUCTIONS:
        command = f"{INSTRUCTIONS}={instructions} {command}"
    return {
        "command": command,
        "git": _describe_checkout(repository),
        "versions": list_versions(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "hardware": describe_hardware(),
    }


def _describe_checkout(repository: str | Path) -> dict[str, Any] | None:
    """Return the commit of a checkout, and whether a run may differ from it.

    It may by a file that was changed, or by new code or configs. Other new files, such
    as what commands have written here, change no result.
    """
    git = ("git", "-C", str(repository))
    commit = _read_output(*git, "rev-parse", "HEAD")
    changed = _read_output(*git, "status", "--porcelain", "--untracked-files=no")
    new = _read_output(*git, "ls-files", "--others", "--exclude-standard", "--", *READ)
    if commit is None or changed is None or new is None:
        return None
    return {"commit": commit, "dirty": bool(changed or new)}


def list_versions() -> dict[str, str | None]:
    """List the versions of Python and of the packages that results depend on.

    That of a package that is not installed is None.
    """
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        found = next(iter(metadata.distributions(name=name)), None)
        versions[name] = found.version if found else None
    return versions


def describe_hardware() -> dict[str, Any]:
    """Describe the processor, memory in GiB, and the names of Nvidia's GPUs.

    Of the processor's cores those count that this process may use.
    """
    # Not torch.cuda, whose import takes seconds and which would start CUDA here.
    gpus = _read_output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _read_cpu_model() or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "gpu": gpus.splitlines() if gpus else [],
    }


def _read_cpu_model() -> str | None:
    """Read the processor's name as Linux has it; other machines have none there."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.is_file():
        return None
    for line in cpuinfo.read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def _read_output(*command: str) -> str | None:
    """Return a command's output, stripped; None if it is missing, fails or hangs."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
