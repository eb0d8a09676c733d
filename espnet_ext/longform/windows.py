"""Moving windows over a recording, whose posteriors are averaged where they overlap (P5, section 2.2).

A place in time is counted in encoder frames from the recording's start: each window starts on a frame of the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from espnet_ext.errors import InputError


@dataclass(frozen=True)
class Window:
    """A window: its first encoder frame, the encoder frames it stands for, and its input (samples or features).

    ``frames`` is None for the last window, which stands for all that the encoder gives.
    """

    frame: int
    frames: int | None
    start: int
    end: int


def windows(length: int, unit: int, frames: int, stride: float = 0.125) -> Iterator[Window]:
    """Windows from the start of a recording to its end; the last one ends with the recording.

    A recording no longer than a window has one.

    Args:
        length: Of the recording, in input steps.
        unit: Input steps of an encoder frame.
        frames: Encoder frames of a window.
        stride: Share of a window by which the next one starts later, above 0 and at most 1.

    Raises:
        InputError: ``stride`` or ``frames`` is out of range.

    >>> [(window.start, window.end) for window in windows(100, unit=10, frames=4, stride=0.5)]
    [(0, 40), (20, 60), (40, 80), (60, 100)]
    """
    if not 0 < stride <= 1:
        raise InputError(f"the stride must be above 0 and at most 1 (windows), not {stride:g}")
    if frames < 1:
        raise InputError("a window is shorter than an encoder frame: make it longer")
    step = max(1, round(frames * stride))
    frame = 0
    while (frame + frames) * unit < length:
        yield Window(frame, frames, frame * unit, (frame + frames) * unit)
        frame += step
    yield Window(frame, None, frame * unit, length)


class PosteriorMean:
    """Means of the posteriors of overlapping windows, given out as soon as no later window reaches them.

    Holds the frames from the earliest that may still change to the last seen: a window or little more.
    """

    def __init__(self) -> None:
        self._first = 0
        self._sums = np.zeros((0, 0), dtype=np.float32)
        self._counts = np.zeros(0, dtype=np.int32)

    def add(self, frame: int, posteriors: np.ndarray) -> None:
        """Add posteriors, (frames, vocabulary), from frame ``frame`` on."""
        start = frame - self._first
        end = start + len(posteriors)
        if end > len(self._sums):
            grown = np.zeros((end, posteriors.shape[1]), dtype=np.float32)
            if len(self._sums):
                grown[: len(self._sums)] = self._sums
            self._sums, self._counts = grown, np.pad(self._counts, (0, end - len(self._counts)))
        self._sums[start:end] += posteriors
        self._counts[start:end] += 1

    def take(self, before: int | None = None) -> np.ndarray:
        """Means of the frames before frame ``before`` (None: all), (frames, vocabulary); they are not held any more.

        Frames that no window covers are left out: those that an encoder loses at the edges of windows which do not
        overlap.
        """
        count = len(self._sums) if before is None else max(0, min(before - self._first, len(self._sums)))
        covered = self._counts[:count] > 0
        means = self._sums[:count][covered] / self._counts[:count, None][covered]
        self._sums, self._counts = self._sums[count:].copy(), self._counts[count:].copy()
        self._first += count
        return means
