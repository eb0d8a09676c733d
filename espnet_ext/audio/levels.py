"""How the samples of a recording become speech of the usual level: which channel, what offset, which factor.

Detectors of voices and models know the usual level alone: recordings of that level stay as they are, to the sample.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_FRAME = 0.02  # seconds
_FRAMES = 5  # whose median is a loudness, so that a click counts for nothing
_USUAL = (0.01, 1.0)  # loudness (RMS; full scale: 1) of recordings that stay as they are
_SILENCE = 1e-4  # -80 dBFS: nothing is louder
_TARGET = 0.1
_MOST_OFFSET = 0.5  # of the loudness; the mean of ordinary recordings of a few words is up to 0.15 of it
_CANCELLED = 0.2  # energy of the mean of all channels against what it is if these have nothing in common


@dataclass(frozen=True)
class Level:
    """What is done to the samples of a recording: ``(samples - offset) * gain``, and clipped unless the gain is 1.

    ``channel`` is the only one that is read; None: the mean of all.
    """

    channel: int | None = None
    offset: float = 0.0
    gain: float = 1.0

    def applied(self, samples: np.ndarray) -> np.ndarray:
        """Return (T, channels) as (T,)."""
        mono = samples.mean(axis=1) if self.channel is None else samples[:, self.channel].copy()
        if self.offset:
            mono -= np.float32(self.offset)
        return mono if self.gain == 1 else np.clip(mono * np.float32(self.gain), -1, 1)

    def __str__(self) -> str:
        """Say what is unusual, in words that follow the name of a file; nothing if nothing is."""
        said = []
        if self.channel is not None:
            said.append(f"the channels cancel each other out: channel {self.channel + 1} alone is read")
        if self.offset:
            said.append(f"a constant offset of {self.offset:.2g} is taken away")
        if self.gain != 1:
            said.append(f"the level is changed by {20 * np.log10(self.gain):+.0f} dB")
        return "; ".join(said)


AS_IT_IS = Level()


def measure(blocks: Iterable[np.ndarray], rate: int) -> Level:
    """Return the level of a recording at ``rate`` Hz; ``blocks``, (T, channels), are of whole seconds but the last."""
    size = max(1, round(_FRAME * rate))
    frames: list[np.ndarray] = []  # the root mean square of each, without its own mean
    sums, energies, count = np.zeros(1), np.zeros(1), 0
    for block in blocks:
        columns = np.column_stack((block, block.mean(axis=1)))  # the last is the mean of the channels
        count += len(block)
        sums = sums + columns.sum(axis=0, dtype=np.float64)
        energies = energies + np.square(columns, dtype=np.float64).sum(axis=0)
        number = len(columns) // size
        parts = columns[: number * size] if number else columns
        frames.append(parts.reshape(max(number, 1), -1, columns.shape[1]).std(axis=1))
    own = energies[:-1]
    cancelled = len(own) > 1 and energies[-1] < _CANCELLED * own.mean() / len(own)
    channel = int(own.argmax()) if cancelled else None
    column = -1 if channel is None else channel
    loud = _loudest(np.concatenate(frames)[:, column]) if frames else 0.0
    if not loud > _SILENCE:
        return Level(channel)
    offset = float(sums[column]) / count
    return Level(
        channel,
        offset if abs(offset) > _MOST_OFFSET * loud else 0.0,
        1.0 if _USUAL[0] <= loud <= _USUAL[1] else _TARGET / loud,
    )


def _loudest(frames: np.ndarray) -> float:
    """Return the largest median of some frames that follow each other."""
    width = min(_FRAMES, len(frames))
    return float(np.median(np.lib.stride_tricks.sliding_window_view(frames, width), axis=1).max())
