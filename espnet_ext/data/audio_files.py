"""Audio files as they are written: a full disk is named, which libsndfile calls a system error."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

_BLOCK = 1 << 17  # samples written at once: libsndfile's Vorbis encoder crashes on minutes in one call
_LEAST_ROOM = 1 << 20  # bytes; by the time that one looks, other processes may have cleared some


def save_audio(path: str | Path, samples: np.ndarray, rate: int, **options: Any) -> None:
    """``soundfile.write`` block by block, with its options; what is left of a file that it could not write is removed.

    Args:
        samples: (T,) or (T, channels).
        rate: in Hz.

    Raises:
        OSError: the disk is full.
        soundfile.LibsndfileError: another reason.
    """
    try:
        with soundfile.SoundFile(path, "w", rate, 1 if samples.ndim == 1 else samples.shape[1], **options) as file:
            for start in range(0, len(samples), _BLOCK):
                file.write(samples[start : start + _BLOCK])
    except soundfile.LibsndfileError:
        disk = os.statvfs(Path(path).parent)
        Path(path).unlink(missing_ok=True)
        if disk.f_bavail * disk.f_frsize < max(_LEAST_ROOM, samples.nbytes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
        raise
