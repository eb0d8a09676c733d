"""Measure the level of a recording: which channel is speech, what offset, which factor.

Models are trained on recordings of the usual level; those of that level stay as they
are, to the sample. Channels and offsets are those of blocks, since what is wrong may
last for a part of a recording.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from math import ceil
from typing import NamedTuple

import numpy as np

FRAMES_A_SECOND = 50
# A loudness is the median of so many frames, so that a click counts for nothing.
_LOUDNESS_FRAMES = 5
_BLOCK_FRAMES = 10  # frames with one channel and one offset
# An offset is measured over so many blocks: in a second, ordinary speech has none.
_OFFSET_BLOCKS = 5
# Loudness (RMS; full scale: 1) of recordings that stay as they are.
_USUAL = (0.01, 1.0)
_SILENCE = 1e-4  # loudness, -80 dBFS: up to this a recording is silent, and stays so
_TARGET = 0.1  # loudness of recordings whose level is changed
# An offset up to this part of the loudness stays; the mean of ordinary recordings of a
# few words is up to 0.15 of it.
_MOST_OFFSET = 0.5
# Channels cancel each other out if the energy of their mean is less than this part of
# what it would be if they had nothing in common.
_CANCELLED = 0.2
# A sample beyond full scale that is more than this many times the loudness is no audio:
# no click reaches so far.
_IMPOSSIBLE = 300.0
MEAN = -1  # in place of a channel: the mean of all


@dataclass(frozen=True, eq=False)
class Level:
    """What is done to the samples of a recording: ``(samples - offset) * gain``.

    Samples are clipped unless the gain is 1. ``channels`` and ``offsets`` are of blocks
    of ``block_size`` samples, (blocks,) each; where they are empty, the mean of all
    channels is read as it is. Samples larger than ``limit`` are read as 0;
    ``bad_times`` are theirs, in seconds.
    """

    gain: float = 1.0
    block_size: int = 0
    channels: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    offsets: np.ndarray = field(default_factory=lambda: np.empty(0))
    limit: float = np.inf
    bad_times: tuple[float, ...] = ()

    def apply(self, samples: np.ndarray, first: int = 0) -> np.ndarray:
        """Return samples, (T, channels), at the usual level, (T,).

        They begin at sample ``first`` of the recording.
        """
        if self.bad_times:
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
        # The last block also holds the samples after it, which are less than a frame.
        block_of_first = min(first // self.block_size, last)
        start = 0
        for block in range(block_of_first, last + 1):
            end = (block + 1) * self.block_size - first
            if block == last:
                end = len(mono)
            channel = self.channels[block]
            if channel != MEAN:
                mono[start:end] = samples[start:end, channel]
            mono[start:end] -= np.float32(self.offsets[block])
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
        if not self.bad_times:
            return ""
        more = ""
        if len(self.bad_times) > 1:
            more = f" and {len(self.bad_times) - 1} more"
        return (
            f"a sample at {self.bad_times[0]:.2f} s{more} above {self.limit:.3g}, "
            "which is no audio, is read as 0"
        )

    def _say_channels(self) -> str:
        is_single = self.channels != MEAN
        if not is_single.any():
            return ""
        percent = 100 * float(is_single.mean())
        where = ""
        if percent < 100:
            where = f" in {percent:.0f} % of the time"
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
    # One column for each field of _Frames, of all blocks that were read.
    columns = zip(*parts, strict=True)
    frames = _Frames(*(np.concatenate(column, axis=-1) for column in columns))
    frame = np.arange(len(frames.peaks))
    block_of_frame = frame // _BLOCK_FRAMES
    # The mean of squares is the square of the mean and the variance.
    energies = frames.means**2 + frames.spreads**2
    channels = _choose_channels(energies, block_of_frame)
    # The mean, -1, is the last row.
    row = channels[block_of_frame]
    loudness = _find_loudness(frames.spreads[row, frame])
    level = Level(
        block_size=_BLOCK_FRAMES * size,
        channels=channels,
        offsets=np.zeros(len(channels)),
    )
    # So written, it holds for NaN, too.
    if not loudness > _SILENCE:
        return level
    gain = 1.0
    quietest, loudest = _USUAL
    if not quietest <= loudness <= loudest:
        gain = _TARGET / loudness
    limit = max(1.0, _IMPOSSIBLE * loudness)
    bad = np.flatnonzero(frames.peaks > limit)
    # Frames have ``size`` samples each; places are counted within them.
    times = (bad * size + frames.places[bad]) / rate
    offsets = _find_offsets(frames.means[row, frame], _MOST_OFFSET * loudness)
    return replace(
        level,
        gain=gain,
        offsets=offsets,
        limit=limit,
        bad_times=tuple(times),
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


def _choose_channels(energies: np.ndarray, block_of_frame: np.ndarray) -> np.ndarray:
    """Return the channel of each block, (blocks,).

    It is the loudest one where all together cancel each other out, else their mean.
    ``energies``, (channels + 1, frames), are of frames, the last row of the mean of all
    channels; ``block_of_frame`` is the block that each frame lies in.
    """
    # With weights, bincount sums these: the energies of each block's frames.
    sums = np.stack([np.bincount(block_of_frame, weights=row) for row in energies])
    own = sums[:-1]
    together = sums[-1]
    mean = own.mean(axis=0)
    # The mean of N channels that have nothing in common has an N-th of their energy,
    # that of N equal ones all of it.
    expected = mean / len(own)
    silence = np.bincount(block_of_frame) * _SILENCE**2
    cancelled = (mean > silence) & (together < _CANCELLED * expected)
    if len(own) == 1:
        cancelled[:] = False
    # The same channel everywhere, since others may have the opposite sign.
    loudest = own[:, cancelled].sum(axis=1).argmax()
    return np.where(cancelled, loudest, MEAN)


def _find_offsets(means: np.ndarray, most: float) -> np.ndarray:
    """Return what is taken from the samples of each block, (blocks,).

    All are 0 unless an offset is larger than ``most``. ``means`` are of frames. An
    offset is their median, since one bad sample or a thump is none: the median of the
    whole recording, if no second differs from it by more than ``most``, otherwise that
    of each second.
    """
    blocks = ceil(len(means) / _BLOCK_FRAMES)
    width = _BLOCK_FRAMES * _OFFSET_BLOCKS
    starts = range(0, len(means), width)
    seconds = [means[start : start + width] for start in starts]
    offsets = np.array([np.median(second) for second in seconds])
    # What is left at the end may be too short to tell.
    if len(seconds) > 1 and len(seconds[-1]) < _BLOCK_FRAMES:
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


def _find_loudness(spreads: np.ndarray) -> float:
    """Return the loudness of a recording from the spreads of its frames, (frames,).

    It is the largest median of a few frames that follow each other.
    """
    width = min(_LOUDNESS_FRAMES, len(spreads))
    windows = np.lib.stride_tricks.sliding_window_view(spreads, width)
    return float(np.median(windows, axis=1).max())
