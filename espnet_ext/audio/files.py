"""Audio files: written so that a full disk is named, and checked before anything is
made from them.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from tqdm import tqdm

from espnet_ext.audio.ends import (
    MOST_FRAMES,
    MP3_SLACK,
    goes_on,
    is_cut,
    second_file,
)
from espnet_ext.audio.levels import frame_size, measure
from espnet_ext.audio.mp3 import Mp3, scan_mp3

# Decoding a thousand hours takes an hour, so of this many files and more only the
# headers are read by default.
FULL_CHECK_FILES = 10_000
CHECKS = ("auto", "header", "full")
# Endings of audio files that libsndfile reads, and of those that PyAV reads.
SUFFIXES = (
    ".wav",
    ".flac",
    ".mp3",
    ".ogg",
    ".oga",
    ".opus",
    ".sph",
    ".aiff",
    ".aif",
    ".au",
)
CONVERTED_SUFFIXES = (
    ".m4a",
    ".m4b",
    ".mp4",
    ".aac",
    ".webm",
    ".mov",
    ".mkv",
    ".avi",
    ".wma",
    ".amr",
    ".3gp",
)
ALL_SUFFIXES = (*SUFFIXES, *CONVERTED_SUFFIXES)
MACOS = "._"  # begins the names of what macOS leaves beside files

_MORE = "more audio follows the end that ESPnet (soundfile) finds, in the audio of"
_WRITE_BLOCK = (
    1 << 17
)  # samples written at once: libsndfile's Vorbis encoder crashes on minutes in one call
_BLOCK_FRAMES = 1500  # frames whose level is measured at once: half a minute
_LARGEST_HEADER = 4096  # bytes, of WAV files without samples
_READ_BLOCK = 1 << 20  # samples read at once
_LEAST_ROOM = (
    1 << 20
)  # bytes; by the time that we look, other processes may have freed some


def save_audio(
    path: str | Path, samples: np.ndarray, rate: int, **options: Any
) -> None:
    """Write samples, (T,) or (T, channels), by ``soundfile.write`` in blocks, with its
    options; remove what is not whole.

    Raises OSError if the disk is full, which libsndfile calls a system error, and
    soundfile.LibsndfileError else.
    """
    try:
        with soundfile.SoundFile(
            path, "w", rate, 1 if samples.ndim == 1 else samples.shape[1], **options
        ) as file:
            for start in range(0, len(samples), _WRITE_BLOCK):
                file.write(samples[start : start + _WRITE_BLOCK])
    except soundfile.LibsndfileError:
        disk = os.statvfs(Path(path).parent)
        Path(path).unlink(missing_ok=True)
        if disk.f_bavail * disk.f_frsize < max(_LEAST_ROOM, samples.nbytes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
        raise


def is_audio(path: Path) -> bool:
    """Return whether a file is called like audio, and is not what macOS leaves beside
    files.
    """
    return path.suffix.lower() in ALL_SUFFIXES and not path.name.startswith(MACOS)


def decodes(check: str, files: int) -> bool:
    """Return whether a check (``auto``, ``header`` or ``full``) of this many files
    decodes them.
    """
    if check not in CHECKS:
        raise ValueError(f"unknown check {check!r}")
    return check == "full" or (check == "auto" and files < FULL_CHECK_FILES)


class Inspected(NamedTuple):
    """What is known of an audio file after it was opened once: rate in Hz, length in
    samples, and its fault.

    All are 0 if the file cannot be opened. The fault is in words that the file's name
    follows.
    """

    rate: int = 0
    frames: int = 0
    channels: int = 0
    fault: str | None = None

    @property
    def seconds(self) -> float:
        """The length; 0 if the file cannot be opened."""
        return self.frames / self.rate if self.rate else 0.0


def inspect_files(
    files: Sequence[tuple[str, Path]],
    rate: int | None = None,
    *,
    decode: bool,
    num_jobs: int = 1,
) -> dict[str, Inspected]:
    """Open each audio file once, in ``num_jobs`` threads; see :func:`inspect_audio`.
    Returns id -> what was found.

    If a ``rate`` in Hz is given, every file must have it, and one channel.
    """

    def inspect(part: Sequence[tuple[str, Path]]) -> list[tuple[str, Inspected]]:
        return [
            (key, inspect_audio(path, decode=decode, rate=rate, mono=rate is not None))
            for key, path in part
        ]

    shown = tqdm(
        desc="audio check",
        total=len(files),
        unit=" files",
        mininterval=5,
        maxinterval=5,
        smoothing=0,
    )
    found: dict[str, Inspected] = {}
    with ThreadPoolExecutor(num_jobs) as pool, shown:
        # batches, since a call of its own for each header costs more than the header;
        # small, so that the bar moves
        for batch in pool.map(inspect, batched(files, 8 if decode else 256)):
            found.update(batch)
            shown.update(len(batch))
    return found


def inspect_audio(
    path: str | Path, *, decode: bool = True, rate: int | None = None, mono: bool = True
) -> Inspected:
    """Open an audio file once: what is in it, and its fault. Raises nothing for bad
    audio.

    ``decode`` reads it to its end, which finds compressed files that are cut off,
    corrupt ones, and NaN or infinite samples; of WAV, SPHERE and Ogg the headers tell
    what is cut off. ``rate`` in Hz is the one that it must have, ``mono`` whether it
    must have one channel.
    """
    mp3 = scan_mp3(path) if decode and Path(path).is_file() else None
    if mp3 is not None and (reason := _find_mp3_fault(mp3)):
        return Inspected(mp3.rate, mp3.samples, mp3.channels, reason)
    try:
        with soundfile.SoundFile(path) as file:
            header = Inspected(file.samplerate, file.frames, file.channels)
            return header._replace(fault=_fault(file, decode, rate, mono))
    except (soundfile.SoundFileError, OSError):
        return Inspected(fault=_why_closed(Path(path), decode))


def _fault(
    file: soundfile.SoundFile, decode: bool, rate: int | None, mono: bool
) -> str | None:
    if not 0 < file.frames < MOST_FRAMES:
        # Written to a pipe. Of such WAV files soundfile, with which ESPnet reads, finds
        # nothing; of FLAC it fails.
        piped = file.frames or (
            file.format == "WAV" and Path(file.name).stat().st_size > _LARGEST_HEADER
        )
        if piped:
            return (
                "no length in the header, without which ESPnet (soundfile) cannot "
                "read the audio of"
            )
        return "no samples in the audio of"
    if mono and file.channels != 1:
        return f"{file.channels} channels instead of one in the audio of"
    if rate and file.samplerate != rate:
        return f"sampling rate {file.samplerate} Hz, not {rate} Hz, of"
    if is_cut(file):
        return "the audio breaks off before its end, of"
    if not decode:
        return None
    frames, loudest = 0, 0.0
    for block in _blocks(file, _READ_BLOCK // file.channels):
        frames += len(block)
        loudest = max(loudest, float(np.abs(block).max()))
        if not np.isfinite(block).all():
            return "NaN or infinite samples in the audio of"
    if loudest > 1:  # which integers cannot be
        file.seek(0)
        parts = _blocks(file, _BLOCK_FRAMES * frame_size(file.samplerate))
        level = measure(parts, file.samplerate)
        if level.bad:
            return f"a sample of {loudest:.2g} at {level.bad[0]:.2f} s in the audio of"
    mp3 = scan_mp3(file.name)
    if mp3 is not None and mp3.promised is None:
        # Its length is a guess by the first frame, at which soundfile ends.
        return _MORE if mp3.samples - frames > MP3_SLACK else None
    if file.frames - frames > (MP3_SLACK if file.format == "MP3" else 0):
        return "the audio breaks off before its end, of"
    return _MORE if second_file(file.name) or goes_on(file) else None


def _blocks(file: soundfile.SoundFile, size: int) -> Iterator[np.ndarray]:
    """Yield all that follows in an open file, in parts of so many samples."""
    while len(block := file.read(size, dtype="float32", always_2d=True)):
        yield block


def _find_mp3_fault(mp3: Mp3) -> str | None:
    """Say what soundfile would not read of an MP3 file, before it is opened: its
    library prints warnings of its own.
    """
    if mp3.cut:
        return "the audio breaks off before its end, of"
    if mp3.hole is not None:
        return f"audio that cannot be decoded, at {mp3.hole:.1f} s, in that of"
    if not mp3.uniform:
        return "several sampling rates or numbers of channels in the audio of"
    if mp3.joined or (mp3.promised is not None and mp3.promised < mp3.samples):
        return _MORE
    if mp3.promised is not None and mp3.promised > mp3.samples:
        return "a wrong length in the header of the audio of"
    return None


def _why_closed(path: Path, decode: bool) -> str:
    if not path.is_file():
        return "no audio file for"
    if not path.stat().st_size:
        return "an empty audio file (0 bytes) for"
    return (
        "corrupt audio "
        f"({'it cannot be decoded' if decode else 'its header cannot be read'}) of"
    )
