"""Audio files: written so that a full disk is named, and checked before anything is made from them."""

import errno
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from tqdm import tqdm

# Decoding a thousand hours takes an hour, so of this many files and more only the headers are read by default.
FULL_CHECK_FILES = 10_000
CHECKS = ("auto", "header", "full")

_WRITE_BLOCK = 1 << 17  # samples written at once: libsndfile's Vorbis encoder crashes on minutes in one call
_READ_BLOCK = 1 << 20  # frames read at once
_LEAST_ROOM = 1 << 20  # bytes; by the time that we look, other processes may have freed some


def save_audio(path: str | Path, samples: np.ndarray, rate: int, **options: Any) -> None:
    """``soundfile.write`` block by block, with its options. A file that cannot be written to its end is removed.

    Args:
        samples: (T,) or (T, channels).
        rate: in Hz.

    Raises:
        OSError: the disk is full, which libsndfile calls a system error.
        soundfile.LibsndfileError: another reason.
    """
    try:
        with soundfile.SoundFile(path, "w", rate, 1 if samples.ndim == 1 else samples.shape[1], **options) as file:
            for start in range(0, len(samples), _WRITE_BLOCK):
                file.write(samples[start : start + _WRITE_BLOCK])
    except soundfile.LibsndfileError:
        disk = os.statvfs(Path(path).parent)
        Path(path).unlink(missing_ok=True)
        if disk.f_bavail * disk.f_frsize < max(_LEAST_ROOM, samples.nbytes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
        raise


def decodes(check: str, files: int) -> bool:
    """Whether a check (``auto``, ``header`` or ``full``) of this many files decodes them.

    >>> decodes("auto", 120), decodes("auto", 281_241), decodes("full", 281_241)
    (True, False, True)
    """
    if check not in CHECKS:
        raise ValueError(f"unknown check {check!r}")
    return check == "full" or (check == "auto" and files < FULL_CHECK_FILES)


def audio_faults(
    files: Sequence[tuple[str, Path]], sampling_rate: int, *, decode: bool, num_jobs: int = 1
) -> list[str]:
    """Check audio files, ``num_jobs`` at a time. Returns the faults in the order of ``files``; each names its file.

    Args:
        files: Utterance ids with their audio files.
        sampling_rate: In Hz; every file must have it.
        decode: Also decode each file to its end, which finds files that are cut off, corrupt inside, NaN or infinite.
        num_jobs: Threads.
    """
    with ThreadPoolExecutor(num_jobs) as pool:
        checks = pool.map(lambda file: audio_fault(file[1], sampling_rate, decode=decode), files)
        shown = tqdm(checks, desc="audio check", total=len(files), unit=" files", mininterval=5)
        return [f"{fault} {key} ({path})" for (key, path), fault in zip(files, shown, strict=True) if fault]


def audio_fault(path: Path, sampling_rate: int, *, decode: bool) -> str | None:
    """The fault of one file, in words that its name follows; None if there is none. Raises nothing for bad audio."""
    if not path.is_file():
        return "no audio file for"
    if not path.stat().st_size:
        return "an empty audio file (0 bytes) for"
    if decode:
        rate, _, fault = inspect_audio(str(path))
    else:
        rate, fault = _inspect_header(path)
    if not fault and rate != sampling_rate:
        fault = f"sampling rate {rate} Hz, not {sampling_rate} Hz, of"
    return fault


def _inspect_header(path: Path) -> tuple[int, str | None]:
    try:
        header = soundfile.info(path)
    except (soundfile.SoundFileError, OSError):
        return 0, "corrupt audio (its header cannot be read) of"
    if not header.frames:
        return header.samplerate, "no samples in the audio of"
    if header.channels != 1:
        return header.samplerate, f"{header.channels} channels instead of one in the audio of"
    return header.samplerate, None


def inspect_audio(path: str) -> tuple[int, float, str | None]:
    """Decode a file: its sampling rate in Hz, its length in seconds, and its fault (None: there is none).

    Rate and length are 0 if the file cannot be opened. Raises nothing for bad audio.
    """
    try:
        with soundfile.SoundFile(path) as file:
            header = file.samplerate, file.frames / file.samplerate
            if not file.frames:
                return *header, "no samples in the audio of"
            if file.channels != 1:
                return *header, f"{file.channels} channels instead of one in the audio of"
            frames = 0
            while len(block := file.read(_READ_BLOCK, dtype="float32")):
                frames += len(block)
                if not np.isfinite(block).all():
                    return *header, "NaN or infinite samples in the audio of"
            if frames != file.frames or _is_cut(file.extra_info):
                return *header, "the audio breaks off before its end, of"
            return *header, None
    except (soundfile.SoundFileError, OSError):
        return 0, 0.0, "corrupt audio (it cannot be decoded) of"


def _is_cut(log: str) -> bool:
    # libsndfile quietly takes what is left of a WAV, and only its log tells the length that the header promised.
    # A header written to a pipe promises a length near 2 or 4 GiB, which says nothing.
    lengths = re.search(r"^data : (\d+) \(should be (\d+)\)", log, re.MULTILINE)
    return lengths is not None and int(lengths[2]) < int(lengths[1]) < 0x7FFF0000
