"""How results were made: command, commit, versions, hardware and date. Imports no
torch.
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
    *(
        "espnet_ext",
        "espnet",
        "torch",
        "torchaudio",
        "lhotse",
        "kaldialign",
        "numpy",
        "sentencepiece",
    ),
    *("transformers", "ctranslate2"),
)
# git's patterns of what a run reads of a checkout
READ = (":(top,glob)**/*.py", ":(top,glob)**/*.sh", ":(top,glob)**/conf/**")


def write_record(
    path: str | Path, about: str, command: str, values: dict[str, Any]
) -> None:
    """Write measured values as JSON, with what they are (``about``, a sentence) and how
    they were made.
    """
    write_json(
        path,
        {
            "about": about,
            **collect_meta(command, Path(__file__).parent),
            "values": values,
        },
    )


def collect_meta(command: str, repository: str | Path) -> dict[str, Any]:
    """Return how results were made, as their ``meta`` holds it.

    ``git`` has the commit, and whether code or configs differ from it; null outside a
    git checkout.
    """
    return {
        "command": command,
        "git": _describe_checkout(repository),
        "versions": list_versions(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "hardware": describe_hardware(),
    }


def _describe_checkout(repository: str | Path) -> dict[str, Any] | None:
    """Return the commit of a checkout, and whether a run may differ from it: by a file
    that was changed, or by new code or configs.

    Other new files, such as what commands have written here, change no result.
    """
    git = ("git", "-C", str(repository))
    commit = _output(*git, "rev-parse", "HEAD")
    changed = _output(*git, "status", "--porcelain", "--untracked-files=no")
    new = _output(*git, "ls-files", "--others", "--exclude-standard", "--", *READ)
    if commit is None or changed is None or new is None:
        return None
    return {"commit": commit, "dirty": bool(changed or new)}


def list_versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that results depend on (null:
    not installed).
    """
    there = {
        name: next(iter(metadata.distributions(name=name)), None) for name in PACKAGES
    }
    return {"python": platform.python_version()} | {
        name: each.version if each else None for name, each in there.items()
    }


def describe_hardware() -> dict[str, Any]:
    """Return the processor, cores that this process may use, memory in GiB, and the
    names of Nvidia's GPUs.
    """
    cpuinfo = Path("/proc/cpuinfo")
    lines = (
        cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    )
    models = (
        line.partition(":")[2].strip()
        for line in lines
        if line.startswith("model name")
    )
    gpus = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return {
        "cpu": next(models, platform.processor() or platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1
        ),
        "gpu": gpus.splitlines() if gpus else [],
    }


def _output(*command: str) -> str | None:
    """Return the output of a command, stripped; None if it is missing, fails or takes
    over 20 s.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
