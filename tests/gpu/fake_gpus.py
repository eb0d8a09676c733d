"""A machine with GPUs where there is none, for PyTorch's own host code
(``stand_in/runtime.c``).
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

SOURCES = Path(__file__).parent / "stand_in"
LOG = "FAKE_GPU_LOG"
FORKED = "Cannot re-initialize CUDA in forked subprocess"


@dataclass(frozen=True)
class Use:
    """What a process did with GPUs: it started CUDA, or allocated memory there."""

    what: str
    pid: int
    visible: str  # its CUDA_VISIBLE_DEVICES; "all" if there is none


def missing() -> str:
    """Return what is lacking to build the stand-in; empty: nothing."""
    if not shutil.which("gcc"):
        return "gcc is not installed"
    if not list(_headers("cuda_runtime_api.h", "crt/host_defines.h")):
        return "PyTorch's wheels have brought no CUDA headers"
    return ""


def _headers(*names: str) -> Iterator[Path]:
    """Find the folders that hold headers of CUDA, of the wheels that PyTorch needs."""
    for package in ("nvidia", "triton"):
        spec = find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            for name in names:
                for found in Path(place).rglob(name):
                    yield Path(str(found).removesuffix(name))


@cache
def _build() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fake_gpus"))
    includes = [
        f"-I{path}" for path in _headers("cuda_runtime_api.h", "crt/host_defines.h")
    ]
    library = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    targets = {
        "runtime.c": "runtime.so",
        "driver.c": "driver/libcuda.so.1",
        "nvml.c": "nvml/libnvidia-ml.so.1",
    }
    for source, target in targets.items():
        (folder / target).parent.mkdir(exist_ok=True)
        command = [*library, *includes, "-o", folder / target, SOURCES / source]
        subprocess.run(command, check=True)
    return folder


def environment(
    number: int = 1, nvml: bool = True, log: Path | None = None
) -> dict[str, str]:
    """Return the environment of a process that sees so many GPUs, with or without NVML;
    ``log`` is the file that :func:`read_uses` reads.
    """
    folder = _build()
    libraries = [folder / "driver", *([folder / "nvml"] if nvml else [])]
    found = os.environ | {
        "FAKE_GPUS": str(number),
        "LD_PRELOAD": str(folder / "runtime.so"),
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
    }
    found.pop("CUDA_VISIBLE_DEVICES", None)  # a test of a command may have set it
    return found | ({LOG: str(log)} if log else {})


def read_uses(log: Path) -> list[Use]:
    """Return what all processes did with GPUs, in the order in which they did it."""
    if not log.exists():
        return []
    words = [line.split(" ", 2) for line in log.read_text().splitlines()]
    return [Use(what, int(pid), visible) for what, pid, visible in words]
