"""Kaldi's ark files: vectors and matrices, read and written by ``kaldiio``."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import is_command
from espnet_ext.work.files import atomic_write

_POSITION = re.compile(r"(?P<file>.+?)(?::(?P<offset>\d+))?(?:\[[\d:, ]*\])?")


def write_arrays(ark: Path, arrays: Mapping[str, np.ndarray], *, renamed: Path | None = None) -> dict[str, str]:
    """Write arrays to an ark file, whole or not at all; return their positions for an scp file (``<file>:<offset>``).

    Args:
        ark: the file.
        arrays: id -> vector or matrix, float or int32.
        renamed: where the file will be in the end, if its folder is about to be renamed.
    """
    import kaldiio

    target = (renamed or ark).resolve()
    positions = {}
    with atomic_write(ark, "wb") as file:
        for key, array in arrays.items():
            positions[key] = f"{target}:{file.tell() + len(f'{key} '.encode())}"  # the array follows id and space
            kaldiio.save_ark(file, {key: array})
    return positions


def read_array(position: str) -> np.ndarray:
    """Read the vector or matrix at a position as scp files have it, such as ``feats.ark:1234``.

    Raises:
        InputError: a command, or a pickle: kaldiio would run the code of either.
        Exception: the file is missing or broken; each way of being broken raises another exception.
    """
    import kaldiio

    found = _POSITION.fullmatch(position)
    if found is None or is_command(position) or position.startswith("|"):
        raise InputError(f"{position!r} is no position in an ark file; commands are not run")
    with open(found["file"], "rb") as file:
        file.seek(int(found["offset"] or 0))
        if file.read(3) == b"PKL":
            raise InputError(f"{position}: a pickle, which is not loaded because it may run code: write it as a matrix")
    return np.asarray(kaldiio.load_mat(position))
