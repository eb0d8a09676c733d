"""One process per GPU."""

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO

_held: list[IO[str]] = []  # locked until this process ends


def own_gpu(count: int) -> str:
    """A GPU of this machine that no other process has got from this function, as ``cuda:1``.

    It stays this process's own until the process ends; later calls return the same. If all are taken, the first is
    shared.

    Args:
        count: number of GPUs, ``torch.cuda.device_count()``.
    """
    if _held:
        return _name(_held[0])
    for number in range(count):
        file = open(Path(tempfile.gettempdir()) / f"espnet_ext_gpu.{os.getuid()}.{number}", "w")  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            continue
        _held.append(file)
        return _name(file)
    return "cuda:0"


def _name(file: IO[str]) -> str:
    return f"cuda:{file.name.rpartition('.')[2]}"
