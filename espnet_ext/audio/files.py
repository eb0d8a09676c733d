"""Audio files: written so that a full disk is named, and checked before anything is made from them."""

import errno
import mmap
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import batched, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from tqdm import tqdm

# Decoding a thousand hours takes an hour, so of this many files and more only the headers are read by default.
FULL_CHECK_FILES = 10_000
CHECKS = ("auto", "header", "full")
# Endings of audio files that libsndfile reads, and of those that PyAV reads.
SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".sph", ".aiff", ".aif", ".au")
CONVERTED_SUFFIXES = (".m4a", ".m4b", ".mp4", ".aac", ".webm", ".mov", ".mkv", ".avi", ".wma", ".amr", ".3gp")

_WRITE_BLOCK = 1 << 17  # samples written at once: libsndfile's Vorbis encoder crashes on minutes in one call
_SPHERE_HEADER = 1024  # bytes, the usual length
_LARGEST_HEADER = 4096  # bytes, of WAV files without samples
_OGG_MARK = b"OggS\0"  # each page begins with it
_OGG_HEADER = 27  # bytes, the last of which says how many sizes follow; their sum is what the page holds
_OGG_PAGE = _OGG_HEADER + 255 + 255 * 255  # bytes of the largest page
_READ_BLOCK = 1 << 20  # samples read at once
_MOST_FRAMES = 1 << 60  # a file of more is one of unknown length
# What begins a stream of a format; libsndfile stops where a second one begins. (In MP3 a frame with Xing's header.)
_STREAMS = {
    "FLAC": re.compile(rb"fLaC[\x00\x80]\x00\x00\x22"),
    "OGG": re.compile(rb"OggS\x00\x02"),
    "MP3": re.compile(rb"\xff[\xe0-\xff][\x00-\xff]{11,34}(?:Xing|Info)"),
}
_LEAST_ROOM = 1 << 20  # bytes; by the time that we look, other processes may have freed some


def save_audio(path: str | Path, samples: np.ndarray, rate: int, **options: Any) -> None:
    """Write samples by ``soundfile.write`` in blocks, with its options. One that cannot be written whole is removed.

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
    """Return whether a check (``auto``, ``header`` or ``full``) of this many files decodes them.

    >>> decodes("auto", 120), decodes("auto", 281_241), decodes("full", 281_241)
    (True, False, True)
    """
    if check not in CHECKS:
        raise ValueError(f"unknown check {check!r}")
    return check == "full" or (check == "auto" and files < FULL_CHECK_FILES)


class Inspected(NamedTuple):
    """What is known of an audio file after it was opened once: rate in Hz, length in samples, and its fault.

    Rate, length and channels are 0 if the file cannot be opened. The fault is in words that the file's name follows.
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
    files: Sequence[tuple[str, Path]], rate: int | None = None, *, decode: bool, num_jobs: int = 1
) -> dict[str, Inspected]:
    """Open each audio file once, ``num_jobs`` at a time; see :func:`inspect_audio`. Returns id -> what was found.

    Args:
        files: Ids with their audio files.
        rate: In Hz; every file must have it, and one channel. None: any rate and number of channels will do.
        decode: Also decode each file to its end.
        num_jobs: Threads.
    """
    shown = tqdm(desc="audio check", total=len(files), unit=" files", mininterval=5, maxinterval=5, smoothing=0)
    found: dict[str, Inspected] = {}
    with ThreadPoolExecutor(num_jobs) as pool, shown:
        # batches, since a call of its own for each header costs more than the header; small, so that the bar moves
        for batch in pool.map(lambda part: _inspect(part, rate, decode), batched(files, 8 if decode else 256)):
            found.update(batch)
            shown.update(len(batch))
    return found


def _inspect(files: Sequence[tuple[str, Path]], rate: int | None, decode: bool) -> list[tuple[str, Inspected]]:
    return [(key, inspect_audio(path, decode=decode, rate=rate, mono=rate is not None)) for key, path in files]


def inspect_audio(path: str | Path, *, decode: bool = True, rate: int | None = None, mono: bool = True) -> Inspected:
    """Open an audio file once: what is in it, and its fault. Raises nothing for bad audio.

    Args:
        path: The file.
        decode: Decode it to its end, which finds compressed files that are cut off, corrupt ones, and NaN or infinite
            samples. WAV and SPHERE files that are cut off are found by their headers, and Ogg files that end within
            a page by that page; one that ends between pages cannot be told from one that is shorter.
        rate: The sampling rate in Hz that it must have (None: any).
        mono: Must it have one channel?
    """
    try:
        with soundfile.SoundFile(path) as file:
            header = Inspected(file.samplerate, file.frames, file.channels)
            return header._replace(fault=_fault(file, decode, rate, mono))
    except (soundfile.SoundFileError, OSError):
        return Inspected(fault=_why_closed(Path(path), decode))


def _fault(file: soundfile.SoundFile, decode: bool, rate: int | None, mono: bool) -> str | None:
    if not 0 < file.frames < _MOST_FRAMES:
        # Written to a pipe. Of such WAV files soundfile, with which ESPnet reads, finds nothing; of FLAC it fails.
        piped = file.frames or (file.format == "WAV" and Path(file.name).stat().st_size > _LARGEST_HEADER)
        if piped:
            return "no length in the header, without which ESPnet (soundfile) cannot read the audio of"
        return "no samples in the audio of"
    if mono and file.channels != 1:
        return f"{file.channels} channels instead of one in the audio of"
    if rate and file.samplerate != rate:
        return f"sampling rate {file.samplerate} Hz, not {rate} Hz, of"
    if is_cut(file):
        return "the audio breaks off before its end, of"
    frames = 0
    while decode and len(block := file.read(_READ_BLOCK // file.channels, dtype="float32")):
        frames += len(block)
        if not np.isfinite(block).all():
            return "NaN or infinite samples in the audio of"
    if decode and frames != file.frames:
        return "the audio breaks off before its end, of"
    if decode and is_chained(file.name, file.format):
        return "a second stream, which libsndfile does not read, follows in the audio of"
    return None


def _why_closed(path: Path, decode: bool) -> str:
    if not path.is_file():
        return "no audio file for"
    if not path.stat().st_size:
        return "an empty audio file (0 bytes) for"
    return f"corrupt audio ({'it cannot be decoded' if decode else 'its header cannot be read'}) of"


def reads_all(path: str | Path) -> bool:
    """Return whether soundfile can read a file, seek in it, and knows its end; False if another reader is needed."""
    try:
        with soundfile.SoundFile(path) as file:
            if not 0 < file.frames < _MOST_FRAMES:
                return False
            if file.frames > 1:
                file.seek(file.frames - 1)
            return not is_chained(path, file.format)
    except (soundfile.SoundFileError, OSError):
        return False


def is_chained(path: str | Path, form: str) -> bool:
    """Return whether a second stream follows the first one in a file, as in files that were put together."""
    pattern = _STREAMS.get(form)
    if pattern is None or not Path(path).stat().st_size:
        return False
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return len(list(islice(pattern.finditer(content), 2))) > 1


def is_cut(file: soundfile.SoundFile) -> bool:
    """Return whether the header of an open WAV or SPHERE file, or of an Ogg file's last page, promises more than there
    is.

    libsndfile quietly takes what is left.
    """
    if file.format == "OGG":
        return _ends_within_page(file.name)
    if file.format == "NIST":
        promised = re.search(rb"^sample_count -i (\d+)\s*$", _first_bytes(file.name), re.MULTILINE)
        return promised is not None and file.frames < int(promised[1])
    # Only its log tells the length that the header promised. A header written to a pipe promises a length near 2 or
    # 4 GiB, which says nothing.
    lengths = re.search(r"^data : (\d+) \(should be (\d+)\)", file.extra_info, re.MULTILINE)
    return lengths is not None and int(lengths[2]) < int(lengths[1]) < 0x7FFF0000


def _ends_within_page(path: str | Path) -> bool:
    """Return whether an Ogg file ends within a page (RFC 3533, section 6)."""
    with Path(path).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _OGG_PAGE))
        tail = file.read()
    start = tail.rfind(_OGG_MARK)
    if start < 0:  # other bytes follow the last page
        return False
    page = tail[start:]
    if len(page) < _OGG_HEADER:
        return True
    head = _OGG_HEADER + page[_OGG_HEADER - 1]
    end = head + sum(page[_OGG_HEADER:head])
    return len(page) < end or (len(page) > end and _OGG_MARK.startswith(page[end:]))


def _first_bytes(path: str | Path) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(_SPHERE_HEADER)
