"""Recordings longer than a stitcher's training data, divided into parts.

P4 has no such recordings. Windows are cut where the speaker is silent for one; what is
still too long, in parts that overlap by half.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from espnet_ext.scoring.error_rate import align
from espnet_ext.stitch.stitcher.by_time import merge_by_time, order_times
from espnet_ext.text.window_hypotheses import is_timed
from espnet_ext.text.words import Segment, Word

Windows = tuple[Segment, ...]
Span = tuple[float, float]  # start and end of a word, in seconds


@dataclass(frozen=True)
class Longest:
    """The most that a stitcher reads at once.

    ``words`` counts words and symbols, one symbol per window.
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
        if len(windows) > self.windows:
            return False
        return count_words_and_symbols(windows) <= self.words


def count_words_and_symbols(windows: Sequence[Segment]) -> int:
    """Count words and symbols, one symbol per window."""
    return sum(len(item.words) + 1 for item in windows)


def find_longest(examples: Sequence[Sequence[Segment]], share: float = 0.99) -> Longest:
    """Return the length that this share of the examples does not exceed.

    An example is a speaker's windows. Windows and words are ranked each on their own:
    the longest by one need not be the longest by the other.
    """
    # What only the longest few examples have, a stitcher has hardly learnt.
    count = round(share * len(examples))
    place = max(0, count - 1)
    windows = []
    words = []
    for example in examples:
        windows.append(len(example))
        words.append(count_words_and_symbols(example))
    windows.sort()
    words.sort()
    return Longest(windows[place], words[place])


def cut_at_silence(windows: Windows, longest: Longest) -> list[Windows]:
    """Cut a speaker's windows after silent ones, into few stretches of bounded length.

    A stretch is as long as ``longest`` lets it be, so that there are few. A stretch
    without such a window stays whole, however long it is. A stretch without words is
    left out.
    """
    stretches: list[Windows] = []
    start = 0  # where the stretch that grows starts
    cut = 0  # the last place where it may end
    for end, item in enumerate(windows, start=1):
        is_last = end == len(windows)
        if item.words and not is_last:
            continue
        # Up to `end` it has become too long: it ends where it could have last.
        if cut > start and not longest.holds(windows[start:end]):
            stretches.append(windows[start:cut])
            start = cut
        cut = end
    stretches.append(windows[start:])
    return [stretch for stretch in stretches if any(item.words for item in stretch)]


def cut_by_half(windows: Windows, longest: Longest) -> list[Windows]:
    """Cut what is too long into parts that overlap by half.

    A part is two halves, each at most half as long as ``longest``; neighbours share
    one. A half has at least two windows, however long they are. If windows overlap, a
    part leaves out its last one, so that it has nothing in common with the part after
    the next.
    """
    if longest.holds(windows):
        return [windows]
    edges = _cut_into_halves(windows, longest)
    # All neighbours are cut alike, so that the first two tell.
    overlap = len(windows) > 1 and windows[0].end > windows[1].start
    left_out = 1 if overlap else 0
    # A part reaches from an edge to the one after the next; the last part to the end.
    parts = [
        windows[start : end - left_out]
        for start, end in zip(edges, edges[2:-1], strict=False)
    ]
    start_of_last = edges[max(len(edges) - 3, 0)]
    parts.append(windows[start_of_last:])
    return parts


def _cut_into_halves(windows: Windows, longest: Longest) -> list[int]:
    """Return where the halves of parts begin, and where the last one ends."""
    half = Longest(
        windows=max(1, longest.windows // 2),
        words=max(1, longest.words // 2),
    )
    edges = [0]
    start = 0
    for end in range(1, len(windows)):
        with_next = windows[start : end + 1]
        # Of a half of one window, a part that leaves out its last one would have one
        # half only, and share none with the next part.
        if len(with_next) > 2 and not half.holds(with_next):
            edges.append(end)
            start = end
    edges.append(len(windows))
    return edges


def number_windows(windows: Windows) -> Windows:
    """Return the windows with numbers from 0, as a stitcher was trained on."""
    return tuple(replace(item, window=number) for number, item in enumerate(windows))


def merge_parts(parts: Sequence[tuple[Windows, tuple[str, ...]]]) -> tuple[Word, ...]:
    """Merge stitched parts, each its windows and its words, in their order.

    The parts are those of :func:`cut_by_half`. The words of a part get the times of
    what was heard in its windows. Only words that two parts may both have are paired:
    those of the windows that they share.
    """
    merged = []
    for windows, words in parts:
        timed_words = time_stitched_words(words, windows)
        first = windows[0]
        merged.append(
            Segment(
                first.recording,
                first.speaker,
                words,
                start=first.start,
                end=windows[-1].end,
                times=tuple((word.start, word.end) for word in timed_words),
            )
        )
    # All times come from what was heard: where that has none, they are a guess.
    timed = all(is_timed(windows) for windows, _ in parts)
    return merge_by_time(merged, timed=timed)


def time_stitched_words(
    words: Sequence[str], windows: Sequence[Segment]
) -> tuple[Word, ...]:
    """Give times, in seconds, to the words that a stitcher has made of windows.

    The windows are one speaker's, in the order of their starts. The words are aligned
    with all words that were heard, in the order of their times. A word without a
    counterpart lies between its neighbours. Where the recogniser gave no times, its
    words share their window evenly.
    """
    heard: list[tuple[Span, str]] = []
    for item in windows:
        heard += [((word.start, word.end), word.text) for word in item.timed_words]
    # Windows overlap: their words are interleaved by time before they are aligned.
    heard.sort()
    spans: list[Span | None] = []
    place = 0  # of the next heard word
    for word, other in align(list(words), [text for _, text in heard]):
        span = None
        if other is not None:
            span = heard[place][0]
            place += 1
        if word is not None:
            spans.append(span)
    return _fill_times(words, spans, windows[0].start if windows else 0.0)


def _fill_times(
    words: Sequence[str], spans: Sequence[Span | None], start: float
) -> tuple[Word, ...]:
    """Give words without a time one between their neighbours, in rising order."""
    filled: list[Word] = []
    for place, word in enumerate(words):
        span = spans[place]
        if span is None:
            begin = filled[-1].end if filled else start
            later_starts = (later[0] for later in spans[place:] if later is not None)
            end = next(later_starts, begin)
            # Times that were heard need not rise.
            span = (begin, max(begin, end))
        filled.append(Word(word, *span))
    return order_times(filled)
