"""Audio that soundfile cannot read, or not to its end, decoded by PyAV: m4a, video, chained streams, odd WAV files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from espnet_ext.errors import InputError

RATE = 16000  # Hz, of what is decoded
_GAP = 0.1  # seconds between the time stamps of audio, from which on there is silence
_SLACK, _SHARE = 0.5, 0.02  # seconds, and share of the length, by which a file may be shorter than it says
_BLOCK = 60 * RATE  # samples of silence that are written at a time
# Formats whose headers say how long the audio is; others are of a length that FFmpeg estimates.
_EXACT = ("mov", "mp4", "m4a", "matroska", "webm", "wav", "flac", "asf", "avi")


def decode_to_wav(path: Path, target: Path) -> None:
    """Decode the first audio track of a file into a WAV file of one channel with 16 bits at :data:`RATE`.

    Silence takes the place of what is before the track's first time stamp, and of gaps. Packets that cannot be decoded
    are left out; if the audio is then shorter than the file says, the file is refused.

    Raises:
        InputError: the file cannot be read, has no audio, or breaks off.
    """
    try:
        import av
    except ModuleNotFoundError:
        raise InputError(f"{path}: soundfile cannot read this file; PyAV may: pip install av") from None
    try:
        with av.open(str(path)) as container:
            if not container.streams.audio:
                raise InputError(f"{path}: no audio track in it")
            with soundfile.SoundFile(target, "w", RATE, 1, subtype="PCM_16", format="WAV") as file:
                end, broken = _write(container, file, av)
            promised = _promised_seconds(container)
    except (av.error.FFmpegError, UnicodeError) as error:
        raise InputError(f"{path}: no audio that can be read: {_reason(error)}") from None
    if promised is not None and end < promised - max(_SLACK, _SHARE * promised):
        where = f"{end if broken is None else broken:.1f} s"
        raise InputError(
            f"{path}: the audio breaks off after {where}, before the end that its headers promise ({promised:.1f} s): "
            "replace the file"
        )


def _write(container: Any, file: soundfile.SoundFile, av: Any) -> tuple[float, float | None]:
    """Write all audio; return where it ends in seconds, and where the first packet is that cannot be decoded."""
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
    start, written, broken = (container.start_time or 0) / av.time_base, 0, None
    for frame in _frames(container, av):
        if isinstance(frame, Exception):
            broken = written / RATE if broken is None else broken
            continue
        gap = 0.0 if frame.time is None else frame.time - start - written / RATE
        if gap > _GAP:
            written += _write_silence(file, round(gap * RATE))
        for block in resampler.resample(frame):
            written += _write_block(file, block)
    for block in resampler.resample(None):
        written += _write_block(file, block)
    return written / RATE, broken


def _frames(container: Any, av: Any) -> Iterator[Any]:
    """Return the decoded frames, and the error of each packet that cannot be decoded."""
    packets = container.demux(container.streams.audio[0])
    while True:
        try:
            packet = next(packets)
        except StopIteration:
            return
        except av.error.FFmpegError as error:  # the file ends within a packet
            yield error
            return
        try:
            yield from packet.decode()
        except av.error.FFmpegError as error:
            yield error


def _write_block(file: soundfile.SoundFile, block: Any) -> int:
    samples = block.to_ndarray()[0]
    file.write(samples)
    return len(samples)


def _write_silence(file: soundfile.SoundFile, count: int) -> int:
    for first in range(0, count, _BLOCK):
        file.write(np.zeros(min(_BLOCK, count - first), dtype=np.int16))
    return count


def _promised_seconds(container: Any) -> float | None:
    """Return the end of the audio as the headers have it, or None if they do not say."""
    if not any(name in _EXACT for name in container.format.name.split(",")):
        return None
    stream = container.streams.audio[0]
    if stream.duration:
        return float(stream.duration * stream.time_base)
    only = len(container.streams.audio) == len(container.streams)
    return container.duration / 1e6 if container.duration and only else None


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).strip() or type(error).__name__
