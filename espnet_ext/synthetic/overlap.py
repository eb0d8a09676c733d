"""Place utterances so that a wanted share of their speech is overlapped.

No audio is read here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from espnet_ext.text.words import measure_overlap_ratio

_BISECTIONS = 30  # of the factor of all distances: to a billionth of its range


@dataclass(frozen=True)
class SourceUtterance:
    """An utterance to mix: its speaker, audio file, length in seconds and words."""

    id: str
    speaker: str
    path: str
    seconds: float
    words: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """An utterance in a mixture; ``start`` in seconds."""

    source: SourceUtterance
    start: float

    @property
    def end(self) -> float:
        return self.start + self.source.seconds


def draw_distances(count: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Draw distances between the starts of utterances, in lengths of the earlier one.

    :func:`place_utterances` scales them.
    """
    return tuple(rng.uniform(0.1, 1.0, count).tolist())


def place_utterances(
    sources: Sequence[SourceUtterance],
    distances: Sequence[float],
    overlap: float,
    gap: float = 0.5,
) -> list[float]:
    """Find the starts of utterances that overlap as much as wanted, in seconds.

    Each utterance begins at a random distance before the end of the one before it. All
    distances are scaled by one factor until the share of the speech time in which two
    or more people speak is ``overlap``, or the nearest that keeps ``gap`` seconds
    between starts and in which nobody speaks over themselves.
    """

    def measure_overlap(scale: float) -> float:
        spans = []
        starts = _scale_distances(sources, distances, scale, gap)
        for start, source in zip(starts, sources, strict=True):
            spans.append((start, start + source.seconds))
        return measure_overlap_ratio(spans)

    # The overlap grows with the factor, so that bisection finds it.
    low = 0.0
    high = 1.0 / min(distances)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if measure_overlap(middle) < overlap:
            low = middle
        else:
            high = middle
    return _scale_distances(sources, distances, high if overlap else 0.0, gap)


def _scale_distances(
    sources: Sequence[SourceUtterance],
    distances: Sequence[float],
    scale: float,
    gap: float,
) -> list[float]:
    """Return the starts with all distances scaled, but where ``gap`` forbids it."""
    starts: list[float] = []
    ends: dict[str, float] = {}
    for index, source in enumerate(sources):
        start = 0.0
        earliest = 0.0
        if index:
            before = sources[index - 1].seconds
            start = starts[-1] + before - scale * distances[index] * before
            earliest = starts[-1] + gap
        # Nobody speaks over themselves.
        earliest = max(earliest, ends.get(source.speaker, 0.0))
        starts.append(round(max(start, earliest), 3))
        ends[source.speaker] = starts[-1] + source.seconds
    return starts
