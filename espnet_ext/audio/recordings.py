"""Audio of long recordings, read in parts: resampled to one rate, channels averaged.

Memory does not depend on the recording's length. Recordings, silenced or noisy ones
too, are :class:`Audio`.
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from math import gcd
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import soundfile
import soxr

from espnet_ext.audio.decoding import decode_to_wav
from espnet_ext.audio.ends import MP3_SLACK, fault, goes_on, is_cut, reads_all
from espnet_ext.audio.levels import (
    AS_IT_IS,
    FRAMES_A_SECOND,
    Level,
    frame_size,
    measure,
)
from espnet_ext.errors import InputError, warn

_BLOCK_SECONDS = 30
_WHOLE_SECONDS = (
    120  # a longer part is resampled in several, so that memory stays small
)
# Audio on either side of a part, so that the resampling filter sees what it would see
# in the whole file.
_MARGIN_SECONDS = 0.05
_LOUDEST = (
    2.0**32
    # no audio has larger samples, integers of 32 bits as numbers included; powers of
    # 1e20 are infinite
)
_MP3_PREROLL = (
    10 * 1152
)  # samples; a frame has 1152, and four or five of them were seen to be missing


class NoSpeech(InputError):
    """A recording that holds no speech, since it is shorter than a frame or digital
    silence throughout.
    """


class Audio(Protocol):
    """A recording whose samples can be read in parts."""

    name: str
    rate: int
    length: int

    def read(self, start: int, count: int) -> np.ndarray:
        """Return samples ``start`` to ``start + count``, float32, (count,); zeros
        beyond the end.
        """
        ...


class RecordingAudio:
    """An audio file, read in parts at a ``rate`` in Hz: resampled on the fly, channels
    averaged, or by its ``level``.

    A part is the same as that part of the whole: exactly at the file's own rate, to
    about 1e-4 if it is resampled. Raises InputError, which names the recording: the
    file is missing or corrupt, has no samples, or its headers promise more. ``read``
    raises it for other audio that breaks off and for NaN or infinite samples.
    """

    def __init__(
        self, name: str, path: str | Path, rate: int = 16000, level: Level = AS_IT_IS
    ):
        self.name, self.path, self.rate, self.level = name, str(path), rate, level
        self._where, advice = (
            f"{path}: recording {name}",
            "replace the file, or drop the recording",
        )
        try:
            self._file = soundfile.SoundFile(self.path)
        except (soundfile.SoundFileError, OSError):
            if Path(path).is_dir():
                raise InputError(
                    f"{path}: is a folder: give its files, as in {path}/*"
                ) from None
            what = "corrupt audio" if Path(path).is_file() else "no such audio file"
            raise InputError(f"{self._where}: {what}: {advice}") from None
        if not self._file.frames:
            raise InputError(f"{self._where}: no samples: {advice}")
        if is_cut(self._file):
            raise InputError(
                f"{self._where}: the audio breaks off after {self.seconds:.1f} s, "
                "before the end that its headers "
                f"promise: {advice}"
            )
        if more := goes_on(self._file) if self._file.format in ("WAV", "WAVEX") else "":
            raise InputError(
                f"{self._where}: the audio goes on after {self.seconds:.1f} s, "
                f"where its headers end it: {more}: "
                "correct its headers, or replace the file"
            )
        common = gcd(rate, self._file.samplerate)
        # ``up`` samples of ours last as long as ``down`` of the file.
        self._up, self._down = rate // common, self._file.samplerate // common
        self.length = -(-self._file.frames * self._up // self._down)

    @property
    def seconds(self) -> float:
        """The recording's length."""
        return self._file.frames / self._file.samplerate

    @property
    def channels(self) -> int:
        """How many channels the file has."""
        return self._file.channels

    @property
    def source_rate(self) -> int:
        """The file's own sampling rate, in Hz."""
        return self._file.samplerate

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, start: int, count: int) -> np.ndarray:
        """Return samples ``start`` to ``start + count``, float32 in about -1 .. 1,
        (count,); zeros beyond the end.
        """
        within = max(0, min(count, self.length - start))
        samples = np.zeros(count, dtype=np.float32)
        size = _WHOLE_SECONDS * self.rate
        for first in range(0, within, size):
            part = min(size, within - first)
            samples[first : first + part] = self._resampled(start + first, part)
        return samples

    def _resampled(self, start: int, count: int) -> np.ndarray:
        if self._up == self._down:
            return self.level.applied(self._frames(start, start + count), start)
        # Start at a sample that both rates share, so that the part has the same samples
        # as the whole.
        margin = int(_MARGIN_SECONDS * self._file.samplerate) // self._down + 1
        first = max(0, start // self._up - margin)
        last = -(-(start + count) // self._up) + margin
        source = self.level.applied(
            self._frames(first * self._down, min(last * self._down, self._file.frames)),
            first * self._down,
        )
        resampled = soxr.resample(source, self._down, self._up)
        part = resampled[start - first * self._up :][:count]
        return np.pad(
            part, (0, count - len(part))
        )  # the last sample, where lengths are rounded up

    def measured(self) -> Level:
        """Read the whole file, and return the level of its samples; refuse it if it
        breaks off anywhere.
        """
        return measure(self.source_blocks(), self.source_rate)

    def source_blocks(self) -> Iterator[np.ndarray]:
        """Yield the file's own samples in blocks of half a minute, (T, channels)."""
        size = _BLOCK_SECONDS * FRAMES_A_SECOND * frame_size(self.source_rate)
        for start in range(0, self._file.frames, size):
            yield self._frames(start, min(start + size, self._file.frames))

    def _frames(self, start: int, end: int) -> np.ndarray:
        try:
            # After a seek an MP3 decoder returns silence until it has read some frames.
            # soundfile seeks after each read, so these frames must come with the same
            # read.
            early = min(start, _MP3_PREROLL) if self._file.format == "MP3" else 0
            self._file.seek(start - early)
            samples = self._file.read(
                end - start + early, dtype="float32", always_2d=True
            )[early:]
        except soundfile.SoundFileError:
            samples = np.zeros((0, 1), dtype=np.float32)
        if (
            self._file.format == "MP3"
            and end == self._file.frames
            and 0 < end - start - len(samples) <= MP3_SLACK
        ):
            samples = np.pad(samples, ((0, end - start - len(samples)), (0, 0)))
        if len(samples) < end - start:
            where = f"{self._intact() / self._file.samplerate:.1f} s"
            raise InputError(
                f"{self._where}: the audio breaks off or is corrupt near {where}: "
                "replace the file"
            )
        if not np.abs(samples).max(initial=0.0) <= _LOUDEST:  # NaN too
            peaks = np.abs(samples).max(axis=1)
            wrong = int((~(peaks <= _LOUDEST)).argmax())
            place = f"{(start + wrong) / self._file.samplerate:.2f} s"
            raise InputError(
                f"{self._where}: a sample of {peaks[wrong]:.1g} at {place} (NaN, "
                "infinite, or so large that its features are): replace the file"
            )
        return samples

    def _intact(self) -> int:
        """Return how many samples can be read one after the other; a read that fails
        says nothing of those before.
        """
        count, size = 0, self._file.samplerate // 10
        with soundfile.SoundFile(self.path) as file:
            try:
                while read := len(file.read(size, dtype="float32", always_2d=True)):
                    count += read
            except soundfile.SoundFileError:
                pass
        return count


@contextmanager
def opened(path: Path, rate: int, name: str | None = None) -> Iterator[RecordingAudio]:
    """Open an audio file of any format, at the usual level, resampled to ``rate`` in
    Hz; its id is ``name`` or its own.

    The file is read once to its end before anything is made from it; PyAV reads what
    libsndfile cannot. Raises InputError: as :class:`RecordingAudio`; PyAV is needed but
    not installed, or cannot read the file either.
    """
    name = name or "_".join(path.stem.split())
    with readable(path) as audio, RecordingAudio(name, audio, rate) as recording:
        recording.level = _level(name, str(audio), audio.stat().st_mtime_ns)
        yield recording


@lru_cache(maxsize=64)
def _level(name: str, path: str, changed: int) -> Level:
    """Return the level of a file that was last changed at this time; what is unusual is
    said once.
    """
    with RecordingAudio(name, path) as audio:
        level = audio.measured()
    if str(level):
        warn(f"{Path(path).name}: {level}")
    return level


@contextmanager
def readable(path: Path, track: int | None = None) -> Iterator[Path]:
    """Give the file, or if soundfile cannot read all of it, what PyAV makes of it, in a
    temporary file.

    ``track`` is the number of an audio track, from 1; None: as
    :func:`~espnet_ext.audio.decoding.decode_to_wav` chooses. Raises InputError: PyAV is
    needed but not installed, cannot read the file either, there is no such track, or
    the file breaks off.
    """
    if reason := no_file(path) or fault(path):
        raise InputError(f"{path}: {reason}")
    if reads_all(path):
        if track not in (None, 1):
            raise InputError(f"{path}: has 1 audio track, and no track {track}")
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / path.name  # what it holds tells the format
        decode_to_wav(path, target, track)
        copy_times(path, target)
        with named(path, target):
            yield target


@contextmanager
def named(path: Path, copy: Path) -> Iterator[None]:
    """Let errors name a file in place of its copy."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error).replace(str(copy), str(path))) from error


def split_channels(path: Path, folder: Path) -> dict[str, Path]:
    """Write each channel of a file that soundfile reads into a file of its own:
    ``channel1`` -> file.

    Raises InputError: the file has one channel, or all have the same samples.
    """
    with RecordingAudio(path.stem, path) as audio, ExitStack() as files:
        channels, rate = audio.channels, audio.source_rate
        paths = {
            f"channel{number}": folder / str(number) / path.name
            for number in range(1, channels + 1)
        }
        targets = []
        for target in paths.values():
            target.parent.mkdir(parents=True)
            writer = soundfile.SoundFile(
                target, "w", rate, 1, subtype="FLOAT", format="RF64"
            )
            targets.append(files.enter_context(writer))
        same = True
        for block in audio.source_blocks():
            same = same and bool((block == block[:, :1]).all())
            for channel, target in enumerate(targets):
                target.write(block[:, channel])
    if same:
        what = (
            "one channel"
            if channels == 1
            else f"the same samples in all {channels} channels"
        )
        raise InputError(
            f"{path}: has {what}, and channels cannot be told apart: leave out "
            "--channels"
        )
    for target in paths.values():
        copy_times(path, target)
    return paths


def no_file(path: Path) -> str:
    """Return why a path cannot be read to an end, in one line without the path; nothing
    if it can.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return "no such file: check the path"
    except OSError as error:
        return f"{(error.strerror or str(error)).lower()}: check the path"
    if stat.S_ISDIR(status.st_mode):
        return f"is a folder: give its files, as in {path}/*"
    if not stat.S_ISREG(status.st_mode):
        return "is a pipe or device: write the audio to a file, and give that"
    if not os.access(path, os.R_OK):
        return "permission denied: give yourself the right to read it"
    return "" if status.st_size else "is empty (0 bytes)"


def copy_times(source: str | Path, copy: str | Path) -> None:
    """Give a file that is made from another its times, so that a later run sees that
    nothing has changed.
    """
    status = Path(source).stat()
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def blocks(audio: Audio) -> Iterator[np.ndarray]:
    """Yield all samples in blocks of half a minute, one after the other."""
    size = _BLOCK_SECONDS * audio.rate
    for start in range(0, audio.length, size):
        yield audio.read(start, min(size, audio.length - start))
