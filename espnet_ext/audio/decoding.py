"""Decode audio that soundfile cannot read, or not to its end, by PyAV.

Such are m4a, video, chained streams and odd WAV files.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from espnet_ext.audio.mp3 import scan_mp3
from espnet_ext.errors import InputError, warn

RATE = 16000  # Hz, of what is decoded
_GAP = 0.1  # seconds between the time stamps of audio, from which on there is silence
_MOST_GAP = 6 * 3600.0  # seconds; time stamps that jump further are wrong
# Seconds, and share of the length, by which a file may be shorter than it says.
_SLACK = 0.5
_SHARE = 0.02
_BLOCK = 60 * RATE  # samples of silence that are written at a time
# Formats that keep the time of each packet. In others FFmpeg counts it, from a length
# or rate that it takes from the first packets: what is missing there cannot be told.
_TIMED = {
    "mov",
    "mp4",
    "m4a",
    "matroska",
    "webm",
    "asf",
    "flv",
    "mpegts",
    "mpeg",
    "ogg",
    "nut",
    "flac",
}
# Formats whose headers say how long the audio is; others are of a length that FFmpeg
# estimates.
_EXACT = {
    "mov",
    "mp4",
    "m4a",
    "matroska",
    "webm",
    "wav",
    "w64",
    "flac",
    "asf",
    "avi",
    "caf",
    "aiff",
    "au",
    "flv",
}


def decode_to_wav(path: Path, target: Path, number: int | None = None) -> None:
    """Decode an audio track of a file into a WAV file of floats at :data:`RATE`.

    It keeps its channels. ``number`` is that of the track, from 1; None: the one that
    is flagged as default, else the first. Silence takes the place of gaps, also before
    the first time stamp, where the format keeps times, and of packets that cannot be
    decoded, with a warning. Raises InputError: the file cannot be read, has no such
    track, or breaks off before what it says.
    """
    try:
        import av
    except ModuleNotFoundError:
        raise InputError(
            f"{path}: soundfile cannot read this file; PyAV may: pip install av"
        ) from None
    try:
        with av.open(str(path)) as container:
            tracks = container.streams.audio
            if not tracks:
                raise InputError(f"{path}: no audio track in it")
            track = _choose_track(path, tracks, number)
            reader = _Track(container, track, av)
            channels = track.codec_context.channels or 1
            with soundfile.SoundFile(
                target, "w", RATE, channels, subtype="FLOAT", format="RF64"
            ) as file:
                reader.write(file, path)
            missing = reader.describe_missing()
    except (av.error.FFmpegError, UnicodeError) as error:
        raise InputError(
            f"{path}: no audio that can be read, it is of another kind or cut: "
            f"{_find_reason(error)}"
        ) from None
    if missing:
        raise InputError(f"{path}: the audio breaks off {missing}: replace the file")
    if not reader.written:
        raise InputError(f"{path}: no samples in its audio track: replace the file")
    # FFmpeg finds faults where whole MP3 files were joined, and none in some holes.
    mp3 = scan_mp3(path)
    broken = reader.broken if mp3 is None else mp3.hole
    if broken is not None:
        warn(
            f"{path}: some of the audio from {broken:.1f} s on cannot be decoded, and "
            "is left out"
        )


def _choose_track(path: Path, tracks: Sequence[Any], number: int | None) -> Any:
    """Return the audio track of this number, or what a player would play."""
    from av.stream import Disposition

    if number is not None:
        if number <= len(tracks):
            return tracks[number - 1]
        plural = "s" if len(tracks) > 1 else ""
        raise InputError(
            f"{path}: has {len(tracks)} audio track{plural}, and no "
            f"track {number}: choose one with --track"
        )
    flagged = [track for track in tracks if track.disposition & Disposition.default]
    chosen = (flagged or tracks)[0]
    if len(tracks) > 1:
        reason = "flagged as default" if flagged else "the first"
        warn(
            f"{path}: {len(tracks)} audio tracks: track {tracks.index(chosen) + 1} is "
            f"read, {reason} (--track N reads another)"
        )
    return chosen


class _Track:
    """An audio track of a container, as it is decoded."""

    def __init__(self, container: Any, stream: Any, av: Any):
        self.container = container
        self.stream = stream
        self.av = av
        names = container.format.name.split(",")
        self.is_timed = not _TIMED.isdisjoint(names)
        self.start = (container.start_time or 0) / av.time_base
        self.written = 0  # samples
        self.latest = 0.0  # seconds, where the packets of all tracks end
        # Seconds, where the first packet is that cannot be decoded.
        self.broken: float | None = None

    def write(self, file: soundfile.SoundFile, path: Path) -> None:
        """Write all audio."""
        resampler = None
        setup = None
        layout = self.stream.layout.name
        for frame in self._decode_frames():
            own = (frame.format.name, frame.layout.name, frame.sample_rate)
            # Streams that were put together may change in the middle.
            if own != setup:
                self._flush(resampler, file)
                setup = own
                resampler = self.av.AudioResampler(
                    format="flt", layout=layout, rate=RATE
                )
            gap = 0.0
            if self.is_timed and frame.time is not None:
                gap = frame.time - self.start - self.written / RATE
            if gap > _MOST_GAP:
                where = f"{self.written / RATE:.1f} s"
                raise InputError(
                    f"{path}: its time stamps jump by {gap / 3600:.0f} h at "
                    f"{where}: convert the file"
                )
            if gap > _GAP:
                self._write_silence(file, round(gap * RATE))
            assert resampler is not None
            for block in resampler.resample(frame):
                self._write_block(file, block)
        self._flush(resampler, file)

    def _decode_frames(self) -> Iterator[Any]:
        """Yield the frames of the track, without those that cannot be decoded."""
        packets = self.container.demux()
        while True:
            try:
                packet = next(packets)
            except StopIteration:
                return
            except self.av.error.FFmpegError:  # the file ends within a packet
                self._note_break()
                return
            if packet.pts is not None and packet.time_base:
                end = float((packet.pts + (packet.duration or 0)) * packet.time_base)
                self.latest = max(self.latest, end - self.start)
            if packet.stream.index == self.stream.index:
                try:
                    yield from packet.decode()
                except self.av.error.FFmpegError:
                    self._note_break()

    def _note_break(self) -> None:
        if self.broken is None:
            self.broken = self.written / RATE

    def _write_block(self, file: soundfile.SoundFile, block: Any) -> None:
        samples = block.to_ndarray().reshape(-1, file.channels)
        file.write(samples)
        self.written += len(samples)

    def _flush(self, resampler: Any, file: soundfile.SoundFile) -> None:
        if resampler is None:
            return
        for block in resampler.resample(None):
            self._write_block(file, block)

    def _write_silence(self, file: soundfile.SoundFile, count: int) -> None:
        for first in range(0, count, _BLOCK):
            size = min(_BLOCK, count - first)
            file.write(np.zeros((size, file.channels), dtype=np.float32))
        self.written += count

    def describe_missing(self) -> str:
        """Say where the audio ends and where it should, or nothing if it is whole."""
        if not _EXACT.intersection(self.container.format.name.split(",")):
            return ""
        end = self.written / RATE
        if self.stream.duration:
            promised = float(self.stream.duration * self.stream.time_base)
        elif self.container.duration:
            # Matroska counts from 0.
            before = max(0.0, self.start)
            promised = self.container.duration / self.av.time_base - before
            end = max(end, self.latest)  # another track may be longer
        else:
            return ""
        if end >= promised - max(_SLACK, _SHARE * promised):
            return ""
        where = self.broken
        if where is None:
            where = min(end, self.written / RATE)
        return (
            f"after {where:.1f} s, before the end that its headers promise "
            f"({promised:.1f} s)"
        )


def _find_reason(error: Exception) -> str:
    """Return what FFmpeg says of an error, or the name of its class."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return text or type(error).__name__
