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
from espnet_ext.audio.ends import (
    MP3_SLACK,
    can_soundfile_read,
    describe_rest,
    find_fault,
    is_cut,
)
from espnet_ext.audio.levels import (
    AS_IT_IS,
    FRAMES_A_SECOND,
    Level,
    count_frame_samples,
    measure_level,
)
from espnet_ext.errors import InputError, warn

_BLOCK_SECONDS = 30
# A longer part is resampled in several, so that memory stays small.
_WHOLE_SECONDS = 120
# Audio on either side of a part, so that the resampling filter sees what it would see
# in the whole file.
_MARGIN_SECONDS = 0.05
# No audio has larger samples, integers of 32 bits as numbers included; the squares of
# 1e20 are infinite in float32.
_LOUDEST = 2.0**32
# Samples; a frame has 1152, and four or five of them were seen to be missing.
_MP3_PREROLL = 10 * 1152


_ADVICE = "replace the file, or drop the recording"


class NoSpeech(InputError):
    """A recording without speech: shorter than a frame, or digital silence."""


class Audio(Protocol):
    """A recording whose samples can be read in parts."""

    name: str
    rate: int
    length: int

    def read(self, start: int, count: int) -> np.ndarray:
        """Return samples ``start`` to ``start + count``, float32, (count,).

        Beyond the end they are zeros.
        """
        ...


class RecordingAudio:
    """An audio file, read in parts at a ``rate`` in Hz.

    Audio is resampled on the fly; channels are averaged, or chosen by the file's
    ``level``. A part is the same as that part of the whole: exactly at the file's own
    rate, to about 1e-4 if it is resampled. Raises InputError, which names the
    recording: the file is missing or corrupt, has no samples, or its headers promise
    more. ``read`` raises it for other audio that breaks off and for NaN or infinite
    samples.
    """

    def __init__(
        self,
        name: str,
        path: str | Path,
        rate: int = 16000,
        level: Level = AS_IT_IS,
    ):
        self.name = name
        self.path = str(path)
        self.rate = rate
        self.level = level
        self._where = f"{path}: recording {name}"
        self._file = self._open()
        if not self._file.frames:
            raise InputError(f"{self._where}: no samples: {_ADVICE}")
        if is_cut(self._file):
            raise InputError(
                f"{self._where}: the audio breaks off after {self.seconds:.1f} s, "
                f"before the end that its headers promise: {_ADVICE}"
            )
        more = ""
        if self._file.format in ("WAV", "WAVEX"):
            more = describe_rest(self._file)
        if more:
            raise InputError(
                f"{self._where}: the audio goes on after {self.seconds:.1f} s, "
                f"where its headers end it: {more}: "
                "correct its headers, or replace the file"
            )
        common = gcd(rate, self._file.samplerate)
        # ``up`` samples of ours last as long as ``down`` of the file.
        self._up = rate // common
        self._down = self._file.samplerate // common
        # Rounded up, in integers: a day at 48 kHz is exact.
        self.length = -(-self._file.frames * self._up // self._down)

    def _open(self) -> soundfile.SoundFile:
        try:
            return soundfile.SoundFile(self.path)
        except (soundfile.SoundFileError, OSError):
            path = Path(self.path)
            if path.is_dir():
                raise InputError(
                    f"{path}: is a folder: give its files, as in {path}/*"
                ) from None
            what = "corrupt audio" if path.is_file() else "no such audio file"
            raise InputError(f"{self._where}: {what}: {_ADVICE}") from None

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
        """Return samples ``start`` to ``start + count``, (count,).

        Samples are float32 in about -1 .. 1, and zeros beyond the end.
        """
        within = max(0, min(count, self.length - start))
        samples = np.zeros(count, dtype=np.float32)
        size = _WHOLE_SECONDS * self.rate
        for first in range(0, within, size):
            part = min(size, within - first)
            samples[first : first + part] = self._resample(start + first, part)
        return samples

    def _resample(self, start: int, count: int) -> np.ndarray:
        if self._up == self._down:
            return self.level.apply(self._read_frames(start, start + count), start)
        # Start at a sample that both rates share, so that the part has the same samples
        # as the whole.
        margin = int(_MARGIN_SECONDS * self._file.samplerate) // self._down + 1
        first = max(0, start // self._up - margin)
        last = -(-(start + count) // self._up) + margin
        begin = first * self._down
        end = min(last * self._down, self._file.frames)
        source = self.level.apply(self._read_frames(begin, end), begin)
        resampled = soxr.resample(source, self._down, self._up)
        part = resampled[start - first * self._up :][:count]
        # The last sample is missing where lengths are rounded up.
        return np.pad(part, (0, count - len(part)))

    def measure_level(self) -> Level:
        """Read the whole file, and return the level of its samples.

        Raises InputError: it breaks off anywhere.
        """
        return measure_level(self.read_source_blocks(), self.source_rate)

    def read_source_blocks(self) -> Iterator[np.ndarray]:
        """Yield the file's own samples in blocks of half a minute, (T, channels)."""
        frame = count_frame_samples(self.source_rate)
        size = _BLOCK_SECONDS * FRAMES_A_SECOND * frame
        for start in range(0, self._file.frames, size):
            yield self._read_frames(start, min(start + size, self._file.frames))

    def _read_frames(self, start: int, end: int) -> np.ndarray:
        """Return the file's own samples, (end - start, channels); refuse bad ones."""
        # After a seek an MP3 decoder returns silence until it has read some frames.
        # soundfile seeks after each read, so these frames must come with the same read.
        early = 0
        if self._file.format == "MP3":
            early = min(start, _MP3_PREROLL)
        count = end - start
        try:
            self._file.seek(start - early)
            read = self._file.read(count + early, dtype="float32", always_2d=True)
            samples = read[early:]
        except soundfile.SoundFileError:
            samples = np.zeros((0, 1), dtype=np.float32)
        missing = count - len(samples)
        is_mp3_end = self._file.format == "MP3" and end == self._file.frames
        if is_mp3_end and 0 < missing <= MP3_SLACK:
            samples = np.pad(samples, ((0, missing), (0, 0)))
        if len(samples) < count:
            where = f"{self._count_intact() / self._file.samplerate:.1f} s"
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

    def _count_intact(self) -> int:
        """Return how many samples can be read, a tenth of a second at a time."""
        # A read that fails says nothing of the samples before.
        size = self._file.samplerate // 10
        count = 0
        with soundfile.SoundFile(self.path) as file:
            try:
                while True:
                    read = file.read(size, dtype="float32", always_2d=True)
                    if not len(read):
                        return count
                    count += len(read)
            except soundfile.SoundFileError:
                return count


@contextmanager
def open_recording(
    path: Path,
    rate: int,
    name: str | None = None,
) -> Iterator[RecordingAudio]:
    """Open an audio file of any format, at the usual level and ``rate`` in Hz.

    The recording's id is ``name`` or, without one, the file's name. The file is read
    once to its end before anything is made from it; PyAV reads what libsndfile cannot.
    Raises InputError: as :class:`RecordingAudio`; PyAV is needed but not installed, or
    cannot read the file either.
    """
    name = name or "_".join(path.stem.split())
    with make_readable(path) as audio, RecordingAudio(name, audio, rate) as recording:
        changed = audio.stat().st_mtime_ns
        recording.level = _find_level(name, str(audio), changed)
        yield recording


@lru_cache(maxsize=64)
def _find_level(name: str, path: str, changed: int) -> Level:
    """Return the level of a file that was last changed at this time.

    What is unusual is said once.
    """
    with RecordingAudio(name, path) as audio:
        level = audio.measure_level()
    if str(level):
        warn(f"{Path(path).name}: {level}")
    return level


@contextmanager
def make_readable(path: Path, track: int | None = None) -> Iterator[Path]:
    """Yield the file, or a temporary WAV if soundfile cannot read all of it.

    PyAV decodes into the WAV. ``track`` is the number of an audio track, from 1; None:
    as :func:`~espnet_ext.audio.decoding.decode_to_wav` chooses. Raises InputError: PyAV
    is needed but not installed, cannot read the file either, there is no such track, or
    the file breaks off.
    """
    reason = find_path_fault(path) or find_fault(path)
    if reason:
        raise InputError(f"{path}: {reason}")
    if can_soundfile_read(path):
        if track not in (None, 1):
            raise InputError(f"{path}: has 1 audio track, and no track {track}")
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        # The old ending may stay: soundfile goes by the content.
        target = Path(folder) / path.name
        decode_to_wav(path, target, track)
        copy_times(path, target)
        with name_original(path, target):
            yield target


@contextmanager
def name_original(path: Path, copy: Path) -> Iterator[None]:
    """Let errors name a file in place of its copy."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error).replace(str(copy), str(path))) from error


def split_channels(path: Path, folder: Path) -> dict[str, Path]:
    """Write each channel of a file into a file of its own: ``channel1`` -> file.

    soundfile must be able to read the file. Raises InputError: the file has one
    channel, or all have the same samples.
    """
    with RecordingAudio(path.stem, path) as audio, ExitStack() as files:
        channels = audio.channels
        rate = audio.source_rate
        paths = {}
        for number in range(1, channels + 1):
            paths[f"channel{number}"] = folder / str(number) / path.name
        targets = []
        for target in paths.values():
            target.parent.mkdir(parents=True)
            # RF64, as WAV ends at 4 GiB.
            writer = soundfile.SoundFile(
                target, "w", rate, 1, subtype="FLOAT", format="RF64"
            )
            targets.append(files.enter_context(writer))
        same = True
        for block in audio.read_source_blocks():
            same = same and bool((block == block[:, :1]).all())
            for channel, target in enumerate(targets):
                target.write(block[:, channel])
    if same:
        what = f"the same samples in all {channels} channels"
        if channels == 1:
            what = "one channel"
        raise InputError(
            f"{path}: has {what}, and channels cannot be told apart: leave out "
            "--channels"
        )
    for target in paths.values():
        copy_times(path, target)
    return paths


def find_path_fault(path: Path) -> str:
    """Return why a path cannot be read to an end, or nothing if it can.

    The reason is one line without the path.
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
    """Give a copy its source's times: a later run sees that nothing has changed."""
    status = Path(source).stat()
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def read_blocks(audio: Audio) -> Iterator[np.ndarray]:
    """Yield all samples in blocks of half a minute, one after the other."""
    size = _BLOCK_SECONDS * audio.rate
    for start in range(0, audio.length, size):
        yield audio.read(start, min(size, audio.length - start))
