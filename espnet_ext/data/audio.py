"""Checks of audio files before anything is made from them: by their headers alone, or by decoding them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import soundfile
from tqdm import tqdm

from espnet_ext.data.data_dir_audio import inspect_audio

# Decoding a thousand hours takes an hour; so many files are decoded by default, and of more only the headers are read.
FULL_CHECK_FILES = 10_000
CHECKS = ("auto", "header", "full")


def decodes(check: str, files: int) -> bool:
    """Whether a check (``auto``, ``header`` or ``full``) of so many files decodes them.

    >>> decodes("auto", 120), decodes("auto", 281_241), decodes("full", 281_241)
    (True, False, True)
    """
    if check not in CHECKS:
        raise ValueError(f"unknown check {check!r}")
    return check == "full" or (check == "auto" and files < FULL_CHECK_FILES)


def audio_faults(
    files: Sequence[tuple[str, Path]], sampling_rate: int, *, decode: bool, num_jobs: int = 1
) -> list[str]:
    """Check audio files, ``num_jobs`` at a time. Returns what is wrong, in the order of ``files``; each names its file.

    Args:
        files: Utterance ids with their audio files.
        sampling_rate: In Hz, what every file must have.
        decode: Also decode each file to its end, which finds what is cut off, corrupt inside, NaN or infinite.
        num_jobs: Threads.
    """
    with ThreadPoolExecutor(num_jobs) as pool:
        checks = pool.map(lambda file: audio_fault(file[1], sampling_rate, decode=decode), files)
        shown = tqdm(checks, desc="audio check", total=len(files), unit=" files", mininterval=5)
        return [f"{fault} {key} ({path})" for (key, path), fault in zip(files, shown, strict=True) if fault]


def audio_fault(path: Path, sampling_rate: int, *, decode: bool) -> str | None:
    """What is wrong with one file, as words before its name; None if nothing is. Raises nothing for bad audio."""
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
