"""Measure the level of a recording: which channel is speech, what offset, which factor.

Models know the usual level alone: recordings of that level stay as they are, to the
sample. Channels and offsets are those of blocks, since what is wrong may last for a
part of a recording.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from math import ceil
from typing import NamedTuple

import numpy as np

FRAMES_A_SECOND = 50
_FRAMES = 5  # whose median is a loudness, so that a click counts for nothing
_BLOCK = 10  # frames with one channel and one offset
_OFFSET_BLOCKS = 5  # whose frames have one offset: ordinary speech has none in a second
# Loudness (RMS; full scale: 1) of recordings that stay as they are.
_USUAL = (0.01, 1.0)
_SILENCE = 1e-4  # -80 dBFS: nothing is louder
_TARGET = 0.1
# Of the loudness; the mean of ordinary recordings of a few words is up to 0.15 of it.
_MOST_OFFSET = 0.5
# Energy of the mean of all channels against what it is if these have nothing in common.
_CANCELLED = 0.2
# Of the loudness, and beyond full scale, which no click reaches: it is no audio.
_IMPOSSIBLE = 300.0
MEAN = -1  # in place of a channel: the mean of all


@dataclass(frozen=True, eq=False)
class Level:
    """What is done to the samples of a recording: ``(samples - offset) * gain``.

    They are clipped unless the gain is 1. ``channels`` and ``offsets`` are of blocks of
    ``size`` samples, (blocks,) each; where they are empty, the mean of all channels is
    read as it is. Samples larger than ``limit`` are read as 0; ``bad`` are their times,
    in seconds.
    """

    gain: float = 1.0
    size: int = 0
    channels: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    offsets: np.ndarray = field(default_factory=lambda: np.empty(0))
    limit: float = np.inf
    bad: tuple[float, ...] = ()

    def apply(self, samples: np.ndarray, first: int = 0) -> np.ndarray:
        """Return samples, (T, channels), at the usual level, (T,).

        They begin at sample ``first`` of the recording.
        """
        if self.bad:
            is_bad = np.abs(samples) > self.limit
            samples = np.where(is_bad, np.float32(0), samples)
        mono = _average_channels(samples)
        if (self.channels != MEAN).any() or self.offsets.any():
            self._correct_blocks(mono, samples, first)
        if self.gain == 1:
            return mono
        return np.clip(mono * np.float32(self.gain), -1, 1)

    def _correct_blocks(
        self,
        mono: np.ndarray,
        samples: np.ndarray,
        first: int,
    ) -> None:
        """Write the right channels without offsets into ``mono``, (T,)."""
        last = len(self.channels) - 1
        start = 0
        for number in range(min(first // self.size, last), last + 1):
            end = (number + 1) * self.size - first
            # The last block holds what is left of a frame too.
            if number == last:
                end = len(mono)
            channel = self.channels[number]
            if channel != MEAN:
                mono[start:end] = samples[start:end, channel]
            mono[start:end] -= np.float32(self.offsets[number])
            start = end
            if start >= len(mono):
                return

    def __str__(self) -> str:
        """Say what is unusual, in words that follow the name of a file, or nothing."""
        said = [
            self._say_bad(),
            self._say_channels(),
            self._say_offsets(),
            self._say_gain(),
        ]
        return "; ".join(filter(None, said))

    def _say_bad(self) -> str:
        if not self.bad:
            return ""
        more = ""
        if len(self.bad) > 1:
            more = f" and {len(self.bad) - 1} more"
        return (
            f"a sample at {self.bad[0]:.2f} s{more} above {self.limit:.3g}, which "
            "is no audio, is read as 0"
        )

    def _say_channels(self) -> str:
        share = 100 * float((self.channels != MEAN).mean()) if self.size else 0.0
        if not share:
            return ""
        where = ""
        if share < 100:
            where = f" in {share:.0f} % of the time"
        return (
            f"the channels cancel each other out{where}: channel "
            f"{self.channels.max() + 1} alone is read there"
        )

    def _say_offsets(self) -> str:
        if not self.offsets.any():
            return ""
        least = self.offsets.min()
        most = self.offsets.max()
        if least == most:
            return f"a constant offset of {most:.2g} is taken away"
        return f"offsets from {least:.2g} to {most:.2g} are taken away"

    def _say_gain(self) -> str:
        if self.gain == 1:
            return ""
        return f"the level is changed by {20 * np.log10(self.gain):+.0f} dB"


AS_IT_IS = Level()


def count_frame_samples(rate: int) -> int:
    """Return the samples of a frame at ``rate`` Hz."""
    return max(1, round(rate / FRAMES_A_SECOND))


class _Frames(NamedTuple):
    """What is known of the frames of a recording.

    The last row of ``means`` and ``spreads`` is of the mean of all channels, so that
    :data:`MEAN` is its index.
    """

    means: np.ndarray  # (channels + 1, frames)
    spreads: np.ndarray  # standard deviations, (channels + 1, frames)
    peaks: np.ndarray  # the largest sample of any channel, (frames,)
    places: np.ndarray  # where that is in the frame, in samples, (frames,)


def measure_level(blocks: Iterable[np.ndarray], rate: int) -> Level:
    """Return the level of a recording at ``rate`` Hz.

    ``blocks``, (T, channels), are of whole frames, except for the last one.
    """
    size = count_frame_samples(rate)
    parts = [_measure_frames(block, size) for block in blocks if len(block)]
    if not parts:
        return AS_IT_IS
    columns = zip(*parts, strict=True)
    frames = _Frames(*(np.concatenate(column, axis=-1) for column in columns))
    number = np.arange(len(frames.peaks))
    block = number // _BLOCK
    energies = frames.means**2 + frames.spreads**2
    channels = _choose_channels(energies, block)
    # The mean, -1, is the last row.
    row = channels[block]
    loud = _find_loudness(frames.spreads[row, number])
    level = Level(
        size=_BLOCK * size,
        channels=channels,
        offsets=np.zeros(len(channels)),
    )
    if not loud > _SILENCE:
        return level
    gain = 1.0
    quietest, loudest = _USUAL
    if not quietest <= loud <= loudest:
        gain = _TARGET / loud
    limit = max(1.0, _IMPOSSIBLE * loud)
    bad = np.flatnonzero(frames.peaks > limit)
    # Frames have ``size`` samples each; places are counted within them.
    times = (bad * size + frames.places[bad]) / rate
    offsets = _find_offsets(frames.means[row, number], _MOST_OFFSET * loud)
    return replace(
        level,
        gain=gain,
        offsets=offsets,
        limit=limit,
        bad=tuple(times),
    )


def _measure_frames(block: np.ndarray, size: int) -> _Frames:
    """Measure the frames of a block, (T, channels); what is left of one is dropped.

    A block that is shorter than a frame is one.
    """
    rows = np.stack([*block.T, _average_channels(block)])
    count = len(block) // size
    if count:
        rows = rows[:, : count * size]
    frames = rows.reshape(len(rows), max(1, count), -1)
    largest = np.abs(frames[:-1]).max(axis=0)
    return _Frames(
        means=frames.mean(axis=2),
        spreads=frames.std(axis=2),
        peaks=largest.max(axis=1),
        places=largest.argmax(axis=1),
    )


def _choose_channels(energies: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Return the channel of each block, (blocks,).

    It is the loudest one where all together cancel each other out, else their mean.
    ``energies``, (channels + 1, frames), are of frames, the last row of the mean of all
    channels; ``block`` is that of each frame.
    """
    sums = np.stack([np.bincount(block, row) for row in energies])
    own = sums[:-1]
    together = sums[-1]
    mean = own.mean(axis=0)
    # The mean of N channels that have nothing in common has an N-th of their energy,
    # that of N equal ones all of it.
    expected = mean / len(own)
    silence = np.bincount(block) * _SILENCE**2
    cancelled = (mean > silence) & (together < _CANCELLED * expected)
    if len(own) == 1:
        cancelled[:] = False
    # One and the same everywhere, since others may have the opposite sign.
    loudest = own[:, cancelled].sum(axis=1).argmax()
    return np.where(cancelled, loudest, MEAN)


def _find_offsets(means: np.ndarray, most: float) -> np.ndarray:
    """Return what is taken from the samples of each block, (blocks,).

    They are zeros unless an offset is larger than ``most``. ``means`` are of frames.
    Medians, as one bad sample or a thump is no offset; of the whole recording, if that
    fits all of it.
    """
    blocks = ceil(len(means) / _BLOCK)
    width = _BLOCK * _OFFSET_BLOCKS
    starts = range(0, len(means), width)
    seconds = [means[start : start + width] for start in starts]
    offsets = np.array([np.median(second) for second in seconds])
    if len(seconds) > 1 and len(seconds[-1]) < _BLOCK:  # too short to tell
        offsets[-1] = offsets[-2]
    whole = float(np.median(means))
    if np.abs(offsets - whole).max() > most:
        return np.repeat(offsets, _OFFSET_BLOCKS)[:blocks]
    if abs(whole) > most:
        return np.full(blocks, whole)
    return np.zeros(blocks)


def _average_channels(samples: np.ndarray) -> np.ndarray:
    """Return the mean of the channels, (T,), of (T, channels)."""
    # Ten times as fast as numpy's mean of short rows.
    return reduce(np.add, samples.T) / np.float32(samples.shape[1])


def _find_loudness(frames: np.ndarray) -> float:
    """Return the largest median of some frames that follow each other."""
    width = min(_FRAMES, len(frames))
    windows = np.lib.stride_tricks.sliding_window_view(frames, width)
    return float(np.median(windows, axis=1).max())
