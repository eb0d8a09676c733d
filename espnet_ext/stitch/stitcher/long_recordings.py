"""Recordings that are longer than a stitcher's training data, divided into parts (P4
has none).

Windows are cut where the speaker is silent for one; what is still too long, in parts
that overlap by half.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from espnet_ext.scoring.error_rate import align
from espnet_ext.stitch.stitcher.by_time import merge_by_time, monotonic
from espnet_ext.text.window_hypotheses import is_timed
from espnet_ext.text.words import Segment, Word

Windows = tuple[Segment, ...]


@dataclass(frozen=True)
class Longest:
    """The most that a stitcher reads at once: number of windows, and of words and
    symbols (one symbol per window).
    """

    windows: int
    words: int

    def __post_init__(self) -> None:
        if self.windows < 1 or self.words < 1:
            raise ValueError(
                f"{self.windows} windows of {self.words} words are nothing to "
                "read: both start at 1"
            )

    def holds(self, windows: Sequence[Segment]) -> bool:
        """Return whether the windows are no longer than this."""
        return len(windows) <= self.windows and length(windows) <= self.words


def length(windows: Sequence[Segment]) -> int:
    """Count words and symbols, one symbol per window."""
    return sum(len(item.words) + 1 for item in windows)


def longest_of(examples: Sequence[Sequence[Segment]], share: float = 0.99) -> Longest:
    """Return the length that this share of the examples, of a speaker's windows each,
    does not exceed.
    """
    place = max(0, round(share * len(examples)) - 1)
    return Longest(
        sorted(map(len, examples))[place], sorted(map(length, examples))[place]
    )


def cut_at_silence(windows: Windows, longest: Longest) -> list[Windows]:
    """Cut a speaker's windows after windows without words, into as few stretches as
    possible that are not too long.

    A stretch without such a window stays whole, however long it is. A stretch without
    words is left out.
    """
    stretches: list[Windows] = []
    start = cut = (
        0  # of the stretch that grows: its start, and the last place where it may end
    )
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
    """Cut what is too long into parts, each made of two halves of half the length;
    neighbours share a half.

    A half has at least two windows, however long they are. If windows overlap, a part
    leaves out its last one, so that it has nothing in common with the part after the
    next.
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
    parts = [
        windows[start : end - overlap]
        for start, end in zip(edges, edges[2:-1], strict=False)
    ]
    return [*parts, windows[edges[max(len(edges) - 3, 0)] :]]


def renumbered(windows: Windows) -> Windows:
    """Return number windows from 0."""
    return tuple(replace(item, window=number) for number, item in enumerate(windows))


def merge_parts(parts: Sequence[tuple[Windows, tuple[str, ...]]]) -> tuple[Word, ...]:
    """Merge the stitched parts of :func:`cut_by_half`, each with its windows and its
    words, in their order.

    The words of a part get the times of what was heard in its windows. Only words that
    two parts may both have are paired: those of the windows that they share.
    """
    merged = []
    for windows, words in parts:
        times = tuple((word.start, word.end) for word in stitched_times(words, windows))
        first, last = windows[0], windows[-1]
        merged.append(
            Segment(first.recording, first.speaker, words, first.start, last.end, times)
        )
    return merge_by_time(merged, timed=all(is_timed(windows) for windows, _ in parts))


def stitched_times(
    words: Sequence[str], windows: Sequence[Segment]
) -> tuple[Word, ...]:
    """Give the words that a stitcher has made of a speaker's windows times, in the
    order of their starts.

    They are aligned with all words that were heard, in the order of their times. A word
    without a counterpart lies between its neighbours. Where the recogniser gave no
    times, its words share their window evenly.
    """
    heard = sorted(
        ((word.start, word.end), word.text)
        for item in windows
        for word in item.timed_words
    )
    spans: list[tuple[float, float] | None] = []
    place = 0
    for word, other in align(list(words), [word for _, word in heard]):
        if word is not None:
            spans.append(heard[place][0] if other is not None else None)
        place += other is not None
    return _filled(words, spans, windows[0].start if windows else 0.0)


def _filled(
    words: Sequence[str], spans: Sequence[tuple[float, float] | None], start: float
) -> tuple[Word, ...]:
    """Give words without a time one between their neighbours, and let no word start
    before the one before it.
    """
    filled: list[Word] = []
    for place, (word, span) in enumerate(zip(words, spans, strict=True)):
        if span is None:
            after = next((other for other in spans[place:] if other is not None), None)
            begin = filled[-1].end if filled else start
            span = (begin, max(begin, after[0] if after else begin))
        filled.append(Word(word, *span))
    return monotonic(filled)
