"""How the samples of a recording become speech of the usual level: which channel, what
offset, which factor.

Detectors of voices and models know the usual level alone: recordings of that level stay
as they are, to the sample.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

_FRAME = 0.02  # seconds
_FRAMES = 5  # whose median is a loudness, so that a click counts for nothing
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


@dataclass(frozen=True)
class Level:
    """What is done to the samples of a recording: ``(samples - offset) * gain``, and
    clipped unless the gain is 1.

    ``channel`` is the only one that is read; None: the mean of all.
    """

    channel: int | None = None
    offset: float = 0.0
    gain: float = 1.0

    def applied(self, samples: np.ndarray) -> np.ndarray:
        """Return (T, channels) as (T,)."""
        mono = (
            _mean(samples) if self.channel is None else samples[:, self.channel].copy()
        )
        if self.offset:
            mono -= np.float32(self.offset)
        return mono if self.gain == 1 else np.clip(mono * np.float32(self.gain), -1, 1)

    def __str__(self) -> str:
        """Say what is unusual, in words that follow the name of a file; nothing if
        nothing is.
        """
        said = []
        if self.channel is not None:
            said.append(
                f"the channels cancel each other out: channel {self.channel + 1} "
                "alone is read"
            )
        if self.offset:
            said.append(f"a constant offset of {self.offset:.2g} is taken away")
        if self.gain != 1:
            said.append(f"the level is changed by {20 * np.log10(self.gain):+.0f} dB")
        return "; ".join(said)


AS_IT_IS = Level()


def measure(blocks: Iterable[np.ndarray], rate: int) -> Level:
    """Return the level of a recording at ``rate`` Hz; ``blocks``, (T, channels), are of
    whole seconds but the last.
    """
    size = max(1, round(_FRAME * rate))
    frames: list[np.ndarray] = []  # the root mean square of each, without its own mean
    sums, energies, count = np.zeros(1), np.zeros(1), 0
    for block in blocks:
        rows = np.stack(
            [*(block.T if block.shape[1] > 1 else ()), _mean(block)]
        )  # the last is the mean of all
        count += len(block)
        sums = sums + rows.sum(axis=1, dtype=np.float64)
        energies = energies + np.square(rows, dtype=np.float64).sum(axis=1)
        number = len(block) // size
        parts = rows[:, : number * size] if number else rows
        frames.append(parts.reshape(len(rows), max(number, 1), -1).std(axis=2))
    own = energies[:-1]
    cancelled = len(own) > 1 and energies[-1] < _CANCELLED * own.mean() / len(own)
    channel = int(own.argmax()) if cancelled else None
    row = -1 if channel is None else channel
    loud = _loudest(np.concatenate(frames, axis=1)[row]) if frames else 0.0
    if not loud > _SILENCE:
        return Level(channel)
    offset = float(sums[row]) / count
    return Level(
        channel,
        offset if abs(offset) > _MOST_OFFSET * loud else 0.0,
        1.0 if _USUAL[0] <= loud <= _USUAL[1] else _TARGET / loud,
    )


def _mean(samples: np.ndarray) -> np.ndarray:
    """Return the mean of the channels, (T,), of (T, channels), ten times as fast as
    numpy's of short rows.
    """
    return reduce(np.add, samples.T) / np.float32(samples.shape[1])


def _loudest(frames: np.ndarray) -> float:
    """Return the largest median of some frames that follow each other."""
    width = min(_FRAMES, len(frames))
    return float(
        np.median(np.lib.stride_tricks.sliding_window_view(frames, width), axis=1).max()
    )
