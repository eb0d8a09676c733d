"""Recordings longer than those a stitcher has learnt from, in parts that are not (beyond P4, whose are all alike).

A transformer does not stitch what is much longer than anything in its training. So a speaker's windows are cut where
the speaker is silent for a window: what lies before and behind has no words in common. A stretch of speech that is
still too long is stitched in parts that overlap by half, and these are merged as windows are, by overlapping inference.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from espnet_ext.stitcher.hypotheses import WindowHypothesis
from espnet_ext.stitcher.overlapping import overlapping_inference

Windows = tuple[WindowHypothesis, ...]


@dataclass(frozen=True)
class Longest:
    """The longest that a stitcher reads at once: a number of windows, and one of words and symbols (one a window)."""

    windows: int
    words: int

    def __post_init__(self) -> None:
        if self.windows < 1 or self.words < 1:
            raise ValueError(f"{self.windows} windows of {self.words} words are nothing to read: both begin with 1")

    def holds(self, windows: Sequence[WindowHypothesis]) -> bool:
        """Whether windows are not longer."""
        return len(windows) <= self.windows and length(windows) <= self.words


def length(windows: Sequence[WindowHypothesis]) -> int:
    """Number of words, and one symbol a window."""
    return sum(len(item.words) + 1 for item in windows)


def longest_of(examples: Sequence[Sequence[WindowHypothesis]], share: float = 0.99) -> Longest:
    """The length that this share of the examples does not exceed.

    Args:
        examples: one or more, each the windows of a speaker in a recording.
    """
    place = max(0, round(share * len(examples)) - 1)
    return Longest(sorted(map(len, examples))[place], sorted(map(length, examples))[place])


def cut_at_silence(windows: Windows, longest: Longest) -> list[Windows]:
    """Cut a speaker's windows behind windows without words, into as few stretches as are not too long.

    A stretch without any such window stays whole, however long. One that would have no words is left out.
    """
    stretches: list[Windows] = []
    start = cut = 0  # of the stretch that grows: its start, and the last place where it may end
    for end, item in enumerate(windows, start=1):
        if item.words and end < len(windows):
            continue
        if cut > start and not longest.holds(windows[start:end]):
            stretches.append(windows[start:cut])
            start = cut
        cut = end
    stretches.append(windows[start:])
    return [stretch for stretch in stretches if any(item.words for item in stretch)]


def cut_by_half(windows: Windows, longest: Longest) -> list[Windows]:
    """Cut what is too long into parts that overlap with their neighbours, each made of two halves of half the length.

    A half has two windows at least, however long they are. Where windows overlap, a part leaves out its last one, so
    that it has nothing in common with the next part but one.
    """
    if longest.holds(windows):
        return [windows]
    half = Longest(max(1, longest.windows // 2), max(1, longest.words // 2))
    edges = [0]
    for end in range(1, len(windows)):
        if end - edges[-1] > 1 and not half.holds(windows[edges[-1] : end + 1]):
            edges.append(end)
    edges.append(len(windows))
    overlap = len(windows) > 1 and windows[0].end > windows[1].start
    parts = [windows[start : end - overlap] for start, end in zip(edges, edges[2:-1], strict=False)]
    return [*parts, windows[edges[max(len(edges) - 3, 0)] :]]


def renumbered(windows: Windows) -> Windows:
    """The windows as those of a recording of their own: numbered from 0."""
    return tuple(replace(item, window=number) for number, item in enumerate(windows))


def merge_parts(parts: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Merge the stitched parts of :func:`cut_by_half`, in their order."""
    # Each part is two halves, of which it shares one with each neighbour: windows of length 2 that overlap by 1.
    windows = [WindowHypothesis("", number, "", words, number, number + 2) for number, words in enumerate(parts)]
    return overlapping_inference(windows)
