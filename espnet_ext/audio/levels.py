"""How the samples of a recording become speech of the usual level: which channel, what
offset, which factor.

Models know the usual level alone: recordings of that level stay as they are, to the
sample. Channels and offsets are those of blocks, since what is wrong may last for a
part of a recording.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

FRAMES_A_SECOND = 50
_FRAMES = 5  # whose median is a loudness, so that a click counts for nothing
_BLOCK = 10  # frames with one channel and one offset
_OFFSET_BLOCKS = 5  # whose frames have one offset: ordinary speech has none in a second
_USUAL = (
    0.01,
    1.0,
)  # loudness (RMS; full scale: 1) of recordings that stay as they are
_SILENCE = 1e-4  # -80 dBFS: nothing is louder
_TARGET = 0.1
# of the loudness; the mean of ordinary recordings of a few words is up to 0.15 of it
_MOST_OFFSET = 0.5
# energy of the mean of all channels against what it is if these have nothing in common
_CANCELLED = 0.2
# of the loudness, and beyond full scale, which no click reaches: no microphone wrote it
_IMPOSSIBLE = 300.0
MEAN = -1  # in place of a channel: the mean of all


@dataclass(frozen=True, eq=False)
class Level:
    """What is done to the samples of a recording: ``(samples - offset) * gain``, and
    clipped unless the gain is 1.

    ``channels`` and ``offsets`` are of blocks of ``size`` samples, (blocks,) each; where
    they are empty, the mean of all channels is read as it is. Samples larger than
    ``limit`` are read as 0; ``bad`` are their times, in seconds.
    """

    gain: float = 1.0
    size: int = 0
    channels: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    offsets: np.ndarray = field(default_factory=lambda: np.empty(0))
    limit: float = np.inf
    bad: tuple[float, ...] = ()

    def applied(self, samples: np.ndarray, first: int = 0) -> np.ndarray:
        """Return (T, channels), which begin at sample ``first`` of the recording, as
        (T,).
        """
        if self.bad:
            samples = np.where(np.abs(samples) > self.limit, np.float32(0), samples)
        mono = _mean(samples)
        if (self.channels != MEAN).any() or self.offsets.any():
            self._correct_blocks(mono, samples, first)
        return mono if self.gain == 1 else np.clip(mono * np.float32(self.gain), -1, 1)

    def _correct_blocks(
        self, mono: np.ndarray, samples: np.ndarray, first: int
    ) -> None:
        """Write the right channels without offsets into ``mono``, (T,)."""
        last = len(self.channels) - 1
        start = 0
        for number in range(min(first // self.size, last), last + 1):
            # The last block holds what is left of a frame too.
            end = len(mono) if number == last else (number + 1) * self.size - first
            if self.channels[number] != MEAN:
                mono[start:end] = samples[start:end, self.channels[number]]
            mono[start:end] -= np.float32(self.offsets[number])
            start = end
            if start >= len(mono):
                return

    def __str__(self) -> str:
        """Say what is unusual, in words that follow the name of a file; nothing if
        nothing is.
        """
        said = []
        if self.bad:
            more = f" and {len(self.bad) - 1} more" if len(self.bad) > 1 else ""
            said.append(
                f"a sample at {self.bad[0]:.2f} s{more} above {self.limit:.3g}, which is "
                "no audio, is read as 0"
            )
        if (cancelled := self.channels != MEAN).any():
            share = 100 * cancelled.mean()
            where = "" if share == 100 else f" in {share:.0f} % of the time"
            said.append(
                f"the channels cancel each other out{where}: channel "
                f"{self.channels.max() + 1} alone is read there"
            )
        if self.offsets.any():
            least, most = self.offsets.min(), self.offsets.max()
            if least == most:
                said.append(f"a constant offset of {most:.2g} is taken away")
            else:
                said.append(f"offsets from {least:.2g} to {most:.2g} are taken away")
        if self.gain != 1:
            said.append(f"the level is changed by {20 * np.log10(self.gain):+.0f} dB")
        return "; ".join(said)


AS_IT_IS = Level()


def frame_size(rate: int) -> int:
    """Return the samples of a frame at ``rate`` Hz."""
    return max(1, round(rate / FRAMES_A_SECOND))


def measure(blocks: Iterable[np.ndarray], rate: int) -> Level:
    """Return the level of a recording at ``rate`` Hz; ``blocks``, (T, channels), are of
    whole frames but the last.
    """
    size = frame_size(rate)
    parts = [_measure_frames(block, size) for block in blocks if len(block)]
    if not parts:
        return AS_IT_IS
    # Of each channel, and in the last row of the mean of all: (channels + 1, frames).
    means, spreads, peaks, places = (
        np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)
    )
    numbers = np.arange(len(peaks)) // _BLOCK
    channels = _choose_channels(means**2 + spreads**2, numbers)
    rows = channels[numbers]  # of the last row: MEAN
    frames = np.arange(len(peaks))
    loud = _loudest(spreads[rows, frames])
    silent = Level(
        size=_BLOCK * size, channels=channels, offsets=np.zeros(len(channels))
    )
    if not loud > _SILENCE:
        return silent
    limit = max(1.0, _IMPOSSIBLE * loud)
    bad = np.flatnonzero(peaks > limit)
    return replace(
        silent,
        gain=1.0 if _USUAL[0] <= loud <= _USUAL[1] else _TARGET / loud,
        offsets=_find_offsets(means[rows, frames], numbers, _MOST_OFFSET * loud),
        limit=limit,
        bad=tuple((bad * size + places[bad]) / rate),
    )


def _measure_frames(
    block: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each frame, (channels + 1, frames), the
    last row of the mean of all channels; the largest sample and its place, (frames,).
    """
    rows = np.stack([*block.T, _mean(block)])
    count = max(1, len(block) // size)
    length = count * size if len(block) >= size else len(block)
    frames = rows[:, :length].reshape(len(rows), count, -1)
    largest = np.abs(frames[:-1]).max(axis=0)
    places = largest.argmax(axis=1)
    return frames.mean(axis=2), frames.std(axis=2), largest.max(axis=1), places


def _choose_channels(energies: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the channel of each block, (blocks,): the loudest one where all together
    cancel each other out, else their mean.

    ``energies`` are of frames, as :func:`_measure_frames` has them, ``numbers`` the
    block of each.
    """
    own = np.stack([np.bincount(numbers, row) for row in energies[:-1]])
    together = np.bincount(numbers, energies[-1])
    audible = own.mean(axis=0) > np.bincount(numbers) * _SILENCE**2
    cancelled = audible & (together < _CANCELLED * own.mean(axis=0) / len(own))
    # One and the same, since others may have the opposite sign.
    loudest = own[:, cancelled].sum(axis=1).argmax()
    return np.where(cancelled & (len(own) > 1), loudest, MEAN)


def _find_offsets(means: np.ndarray, numbers: np.ndarray, most: float) -> np.ndarray:
    """Return what is taken from the samples of each block, (blocks,), if any offset is
    larger than ``most``, otherwise zeros. ``means`` are of frames.

    Medians, as one bad sample or a thump is no offset; of the whole recording, if that
    fits all of it.
    """
    whole = float(np.median(means))
    seconds = numbers // _OFFSET_BLOCKS
    starts = np.flatnonzero(np.diff(seconds, prepend=-1))
    offsets = np.array([np.median(part) for part in np.split(means, starts[1:])])
    if len(offsets) > 1:  # the last second may be too short to tell
        offsets[-1] = offsets[-2] if len(means) - starts[-1] < _BLOCK else offsets[-1]
    blocks = numbers[-1] + 1
    if np.abs(offsets - whole).max() <= most:
        return np.full(blocks, whole if abs(whole) > most else 0.0)
    return np.repeat(offsets, _OFFSET_BLOCKS)[:blocks]


def _mean(samples: np.ndarray) -> np.ndarray:
    """Return the mean of the channels, (T,), of (T, channels), ten times as fast as
    numpy's of short rows.
    """
    return reduce(np.add, samples.T) / np.float32(samples.shape[1])


def _loudest(frames: np.ndarray) -> float:
    """Return the largest median of some frames that follow each other."""
    width = min(_FRAMES, len(frames))
    windows = np.lib.stride_tricks.sliding_window_view(frames, width)
    return float(np.median(windows, axis=1).max())
