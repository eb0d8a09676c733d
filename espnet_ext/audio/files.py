"""Audio files: writing them, and checking them before anything is made from them."""

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
    describe_rest,
    find_second_file,
    is_cut,
)
from espnet_ext.audio.levels import count_frame_samples, measure_level
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
# Samples written at once: libsndfile's Vorbis encoder crashes on minutes in one call.
_WRITE_BLOCK = 1 << 17
_BLOCK_FRAMES = 1500  # frames whose level is measured at once: half a minute
_LARGEST_HEADER = 4096  # bytes, of WAV files without samples
_READ_BLOCK = 1 << 20  # samples read at once
# Bytes; by the time that we look, other processes may have freed some.
_LEAST_ROOM = 1 << 20


def save_audio(
    path: str | Path,
    samples: np.ndarray,
    rate: int,
    **options: Any,
) -> None:
    """Write samples, (T,) or (T, channels), with the options of ``soundfile.write``.

    A file that is not whole is removed. Raises OSError if the disk is full, which
    libsndfile calls a system error, and soundfile.LibsndfileError else.
    """
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    try:
        with soundfile.SoundFile(path, "w", rate, channels, **options) as file:
            for start in range(0, len(samples), _WRITE_BLOCK):
                file.write(samples[start : start + _WRITE_BLOCK])
    except soundfile.LibsndfileError:
        # Before the file is removed, which makes room.
        disk = os.statvfs(Path(path).parent)
        Path(path).unlink(missing_ok=True)
        room = disk.f_bavail * disk.f_frsize
        if room < max(_LEAST_ROOM, samples.nbytes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
        raise


def is_audio(path: Path) -> bool:
    """Tell whether a file is called like audio, and is not one that macOS adds."""
    return path.suffix.lower() in ALL_SUFFIXES and not path.name.startswith(MACOS)


def must_decode(check: str, files: int) -> bool:
    """Tell whether a check of this number of files decodes them.

    ``check`` is ``auto``, ``header`` or ``full``.
    """
    if check not in CHECKS:
        raise ValueError(f"unknown check {check!r}")
    if check == "auto":
        return files < FULL_CHECK_FILES
    return check == "full"


class Inspected(NamedTuple):
    """What is known of an audio file after it was opened once.

    Numbers are 0 if the file cannot be opened.
    """

    rate: int = 0  # Hz
    frames: int = 0  # samples of a channel
    channels: int = 0
    fault: str | None = None  # in words that the file's name follows

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
    """Open each audio file once, in ``num_jobs`` threads: id -> what was found.

    :func:`inspect_audio` says what is looked for. If a ``rate`` in Hz is given, every
        file must have it, and one channel.
    """

    def inspect(part: Sequence[tuple[str, Path]]) -> list[tuple[str, Inspected]]:
        mono = rate is not None
        return [
            (key, inspect_audio(path, decode=decode, rate=rate, mono=mono))
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
        # Batches, since a call of its own for each header costs more than the header;
        # small ones, so that the bar moves.
        size = 8 if decode else 256
        for batch in pool.map(inspect, batched(files, size)):
            found.update(batch)
            shown.update(len(batch))
    return found


def inspect_audio(
    path: str | Path,
    *,
    decode: bool = True,
    rate: int | None = None,
    mono: bool = True,
) -> Inspected:
    """Open an audio file once: what is in it, and its fault.

    Raises nothing for bad audio.
    ``decode`` reads it to its end, which finds compressed files that are cut off,
    corrupt ones, and NaN or infinite samples; of WAV, SPHERE and Ogg the headers tell
    what is cut off. ``rate`` in Hz is the one that it must have, ``mono`` whether it
    must have one channel.
    """
    # Before it is opened, since libsndfile's library for MP3 prints warnings of its
    # own.
    mp3 = scan_mp3(path) if decode and Path(path).is_file() else None
    if mp3 is not None:
        reason = _find_mp3_fault(mp3)
        if reason:
            return Inspected(mp3.rate, mp3.samples, mp3.channels, reason)
    try:
        with soundfile.SoundFile(path) as file:
            header = Inspected(file.samplerate, file.frames, file.channels)
            return header._replace(fault=_find_fault(file, decode, rate, mono))
    except (soundfile.SoundFileError, OSError):
        return Inspected(fault=_explain_closed(Path(path), decode))


def _find_fault(
    file: soundfile.SoundFile,
    decode: bool,
    rate: int | None,
    mono: bool,
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
    return _find_sample_fault(file)


def _find_sample_fault(file: soundfile.SoundFile) -> str | None:
    """Read an open file to its end, and say what is wrong with its samples."""
    frames = 0
    loudest = 0.0
    for block in _read_blocks(file, _READ_BLOCK // file.channels):
        frames += len(block)
        loudest = max(loudest, float(np.abs(block).max()))
        if not np.isfinite(block).all():
            return "NaN or infinite samples in the audio of"
    if loudest > 1:  # which integers cannot be
        file.seek(0)
        size = _BLOCK_FRAMES * count_frame_samples(file.samplerate)
        level = measure_level(_read_blocks(file, size), file.samplerate)
        if level.bad_times:
            seconds = level.bad_times[0]
            return f"a sample of {loudest:.2g} at {seconds:.2f} s in the audio of"
    mp3 = scan_mp3(file.name)
    if mp3 is not None and mp3.promised is None:
        # Its length is a guess by the first frame, at which soundfile ends.
        return _MORE if mp3.samples - frames > MP3_SLACK else None
    slack = MP3_SLACK if file.format == "MP3" else 0
    if file.frames - frames > slack:
        return "the audio breaks off before its end, of"
    if find_second_file(file.name) or describe_rest(file):
        return _MORE
    return None


def _read_blocks(file: soundfile.SoundFile, size: int) -> Iterator[np.ndarray]:
    """Yield all that follows in an open file, in parts of ``size`` samples."""
    while True:
        block = file.read(size, dtype="float32", always_2d=True)
        if not len(block):
            return
        yield block


def _find_mp3_fault(mp3: Mp3) -> str | None:
    """Say what soundfile would not read of an MP3 file."""
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


def _explain_closed(path: Path, decode: bool) -> str:
    if not path.is_file():
        return "no audio file for"
    if not path.stat().st_size:
        return "an empty audio file (0 bytes) for"
    reason = "it cannot be decoded" if decode else "its header cannot be read"
    return f"corrupt audio ({reason}) of"
