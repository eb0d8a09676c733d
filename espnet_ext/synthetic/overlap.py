"""Utterances that follow each other with a wanted share of overlapped speech. No audio
is read here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from espnet_ext.text.words import overlap_ratio

_BISECTIONS = 30


@dataclass(frozen=True)
class SourceUtterance:
    """An utterance to mix: one speaker, one audio file, its length in seconds and its
    words.
    """

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
    """Draw distances between the starts of utterances, which :func:`place` scales."""
    return tuple(rng.uniform(0.1, 1.0, count).tolist())


def place(
    sources: Sequence[SourceUtterance],
    distances: Sequence[float],
    overlap: float,
    gap: float = 0.5,
) -> list[float]:
    """Return the starts in seconds of utterances that follow each other with the wanted
    overlap.

    Each utterance begins at a random distance before the end of the one before it. All
    distances are scaled by one factor until the share of the speech time in which two
    or more people speak is ``overlap``, or the nearest that keeps ``gap`` seconds
    between starts and in which nobody speaks over themselves.
    """

    def starts(scale: float) -> list[float]:
        begun: list[float] = []
        ends: dict[str, float] = {}
        for index, source in enumerate(sources):
            before = sources[index - 1].seconds if index else 0.0
            start = (
                begun[-1] + before - scale * distances[index] * before if index else 0.0
            )
            earliest = max(
                begun[-1] + gap if index else 0.0, ends.get(source.speaker, 0.0)
            )
            begun.append(round(max(start, earliest), 3))
            ends[source.speaker] = begun[-1] + source.seconds
        return begun

    def ratio(scale: float) -> float:
        return overlap_ratio(
            [
                (begin, begin + s.seconds)
                for begin, s in zip(starts(scale), sources, strict=True)
            ]
        )

    low, high = 0.0, 1.0 / min(distances)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if ratio(middle) < overlap else (low, middle)
    return starts(high if overlap else 0.0)
