"""Overlapping inference by P4's rule (P4, 2.2; Chiu et al., ASRU 2019): one transcript of windows that overlap.

Windows overlap by half. Windows 1, 3, 5 ... (counted from 1) follow each other without overlap, and so do windows
2, 4, 6 ...; their two sequences of words (P4, eq. 13 and P4, eq. 14) are aligned with the fewest edits (P4, eq. 15).
Each pair is a word of an odd and a word of an even window, or none (P4, eq. 16 and P4, eq. 17), of which the one nearer
to the middle of its window is taken (P4, eq. 18). Words of windows that do not overlap are never aligned. (The text of
P4 that we have does not print the numbers 12 to 14, 16 and 17; they are those of the places where they are missing.)

The rule looks at no times, so it goes wrong where windows share little; :mod:`espnet_ext.stitcher.by_time` does not.

That last rule makes the alignment cheap. A word can be paired only with words of the two windows next to its own. In
the table of the dynamic programme, cells with such pairs form a chain of blocks, each touching the next, from corner to
corner. Outside them there are only gaps, and a path through gaps alone can follow the chain just as well. So the cells
of the chain are enough, and their number grows linearly with the recording.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.multitalker.heard.hypotheses import WindowHypothesis, word_times
from espnet_ext.stitcher.by_time import monotonic
from espnet_ext.text.transcript import Word

_TOLERANCE = 1e-3  # seconds
EDGE = -0.5  # the confidence at a window's edge, the lowest there is
# Of two alignments with equally many edits, the one with fewer substitutions has more words in common. So an edit costs
# far more than there can be words, and a substitution costs 1 more.
_EDIT = 1 << 32
_SUBSTITUTION = _EDIT + 1
_FAR = 1 << 61  # two of them still fit into 64 bits


@dataclass(frozen=True, slots=True)
class Heard:
    """One word of one window: the window's index, the word's place in it from 0, the word, and its time in seconds."""

    window: int
    place: int
    word: str
    start: float
    end: float

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


# A word of an odd and one of an even window; None where the other sequence has no word (the paper's empty prediction).
HeardPair = tuple[Heard | None, Heard | None]


def overlapping_inference(windows: Sequence[WindowHypothesis]) -> tuple[Word, ...]:
    """Merge what was heard of one speaker in all windows of a recording into one transcript (P4, eq. 15 and 18).

    Args:
        windows: one hypothesis per window, window 0 first (as :func:`group_by_speaker` gives them).

    Raises:
        InputError: neighbours overlap by less than half, or windows overlap that are not neighbours.
    """
    check_overlap(windows)
    odd, even = windows[::2], windows[1::2]
    chosen = choose(align_windows(windows), positions(odd), positions(even))
    return monotonic(Word(heard.word, heard.start, heard.end) for heard in chosen)


def check_overlap(windows: Sequence[WindowHypothesis], least: float = 0.5) -> None:
    """Refuse windows that do not overlap with their neighbours by half, and with these only.

    Args:
        least: the share of a window that neighbours must have in common.

    Raises:
        InputError: there are such windows; a single window never is refused.
    """
    for left, right in pairwise(windows):
        if right.start > left.end - least * (left.end - left.start) + _TOLERANCE:
            raise InputError(
                f"{left.recording}: windows {left.window} and {right.window} overlap by less than half: merge them by "
                "time (--method time_aware), or cut and decode windows that overlap by half"
            )
    for left, right in zip(windows, windows[2:], strict=False):
        if _overlap(left, right):
            raise InputError(
                f"{left.recording}: windows {left.window} and {right.window} overlap: merge them by time (--method "
                "time_aware), or cut and decode windows that overlap with their neighbours by half, and with no others"
            )


def _overlap(left: WindowHypothesis, right: WindowHypothesis) -> bool:
    return left.end > right.start + _TOLERANCE


def align_windows(windows: Sequence[WindowHypothesis], within: float = math.inf) -> list[HeardPair]:
    """Align the words of odd with those of even windows (counted from 1) with the fewest edits.

    A substitution, and a word without a partner, cost one edit. Of alignments with equally many edits, one with the
    most equal words is taken; of several such, the one that, from the end backwards, pairs words where it can, and
    otherwise leaves the word of the later window alone.

    Args:
        windows: of one speaker, window 0 first. Only neighbours that overlap in time are aligned.
        within: seconds between the times of two words that are paired, at most; P4 has no such limit.
    """
    odd, even = (
        [
            Heard(item.window, place, word, *span)
            for item in windows[parity::2]
            for place, (word, span) in enumerate(zip(item.words, word_times(item), strict=True))
        ]
        for parity in (0, 1)
    )
    overlaps = [_overlap(left, right) for left, right in pairwise(windows)]
    table = _Table(odd, even, overlaps, within)
    return list(reversed(list(_trace(odd, even, table))))


class _Table:
    """The cells of the dynamic programme that lie on the chain of blocks.

    ``rows[i][j - first[i]]`` is the least cost of aligning the first i odd with the first j even words.
    """

    def __init__(self, odd: Sequence[Heard], even: Sequence[Heard], overlaps: Sequence[bool], within: float) -> None:
        windows = len(overlaps) + 1
        # ends[w + 1]: even words of windows up to w. Windows of the other parity hold none of them.
        ends = np.concatenate([[0], np.cumsum(np.bincount([word.window for word in even], minlength=windows))])
        numbers = {word: number for number, word in enumerate({item.word for item in (*odd, *even)})}
        self._even = np.array([numbers[item.word] for item in even], dtype=np.int32)
        self._middles = np.array([item.middle for item in even])
        self._ends, self._overlaps, self._within = ends, overlaps, within
        self.first: list[int] = []
        self.rows: list[np.ndarray] = []
        for index in range(len(odd) + 1):
            # Even words that may be aligned already: all before the windows next to the last odd word's.
            first = int(ends[max(odd[index - 1].window - 1, 0)]) if index else 0
            last = int(ends[min(odd[index].window + 2, windows)]) if index < len(odd) else len(even)
            self.rows.append(self._row(index, first, last, odd, numbers))
            self.first.append(first)

    def _row(self, index: int, first: int, last: int, odd: Sequence[Heard], numbers: dict[str, int]) -> np.ndarray:
        """Cells ``first`` to ``last`` (inclusive) of the row after ``index`` odd words."""
        row = np.full(last - first + 1, _FAR, dtype=np.int64)
        if not index:
            row[0] = 0
        else:
            above, above_first = self.rows[-1], self.first[-1]
            shared = above[first - above_first :]
            row[: len(shared)] = shared[: len(row)] + _EDIT
            start, end = self.partners(odd[index - 1].window)
            if start < end:
                word = odd[index - 1]
                costs = np.where(self._even[start:end] != numbers[word.word], _SUBSTITUTION, 0)
                costs[np.abs(self._middles[start:end] - word.middle) > self._within] = _FAR
                paired = above[start - above_first : end - above_first] + costs
                cells = row[start + 1 - first : end + 1 - first]
                np.minimum(cells, paired, out=cells)
        # Even words without a partner: row[j] = min over k <= j of row[k] + (j - k) edits.
        steps = np.arange(len(row)) * _EDIT
        return np.minimum.accumulate(row - steps) + steps

    def partners(self, window: int) -> tuple[int, int]:
        """First and last + 1 of the even words that words of a window may be paired with: those of its neighbours."""
        before = window > 0 and self._overlaps[window - 1]
        after = window < len(self._overlaps) and self._overlaps[window]
        return (
            int(self._ends[window - 1 if before else window]),
            int(self._ends[window + 2 if after else window + 1]),
        )

    def at(self, i: int, j: int) -> int:
        """The cell after i odd and j even words; far too large where it is not on the chain."""
        place = j - self.first[i]
        return int(self.rows[i][place]) if 0 <= place < len(self.rows[i]) else _FAR

    def distance(self, left: Heard, right: Heard) -> int:
        """The cost of a pair."""
        if abs(left.middle - right.middle) > self._within:
            return _FAR
        return 0 if left.word == right.word else _SUBSTITUTION

    def later(self, even: Heard, odd: Heard) -> bool:
        """Of two words that stand alone, does that of the even window come last?"""
        return even.window > odd.window if self._within == math.inf else even.middle > odd.middle


def _trace(odd: Sequence[Heard], even: Sequence[Heard], table: _Table) -> Iterator[HeardPair]:
    """The pairs of the best path, the last one first."""
    i, j = len(odd), len(even)
    while i or j:
        here = table.at(i, j)
        start, end = table.partners(odd[i - 1].window) if i else (0, 0)
        if start < j <= end and here == table.at(i - 1, j - 1) + table.distance(odd[i - 1], even[j - 1]):
            i, j = i - 1, j - 1
            yield odd[i], even[j]
            continue
        alone_odd = i > 0 and here == table.at(i - 1, j) + _EDIT
        alone_even = j > 0 and here == table.at(i, j - 1) + _EDIT
        if alone_odd and not (alone_even and table.later(even[j - 1], odd[i - 1])):
            i -= 1
            yield odd[i], None
        else:
            j -= 1
            yield None, even[j]


def positions(windows: Sequence[WindowHypothesis]) -> dict[int, tuple[float, ...]]:
    """The position of each word in its window, from 0 to 1, by the window's index.

    It is computed from the word's time, if the recogniser gives times; otherwise, as in the paper, from its number
    among the window's words. There the middle of a word counts ((j + 1/2) / C for the word j, from 0, of C), so that a
    window's two edges are treated alike.
    """
    return {
        item.window: tuple(
            min(max(((start + end) / 2 - item.start) / (item.end - item.start), 0.0), 1.0)
            for start, end in word_times(item)
        )
        for item in windows
    }


def choose(
    pairs: Sequence[HeardPair], odd: dict[int, tuple[float, ...]], even: dict[int, tuple[float, ...]]
) -> list[Heard]:
    """Take the side of each pair with the greater confidence, -|position - 1/2| (P4, eq. 18); a word before a gap.

    A gap lies between two words of its sequence. If both are of one window, that window covers this time and heard
    nothing; the gap's position is the middle between theirs. Otherwise the gap lies at windows' edges, where the
    confidence is lowest, and the word of the other sequence stays.

    Args:
        pairs: in the order of speech.
        odd, even: position of each word by window (:func:`positions`).
    """
    gaps = [_gap_confidences([pair[side] for pair in pairs], known) for side, known in enumerate((odd, even))]
    chosen = []
    for number, pair in enumerate(pairs):
        left, right = (
            _confidence(known[heard.window][heard.place]) if heard else gaps[side][number]
            for side, (heard, known) in enumerate(zip(pair, (odd, even), strict=True))
        )
        heard = pair[0] if left > right or (left == right and pair[0]) else pair[1]
        if heard:
            chosen.append(heard)
    return chosen


def _confidence(position: float) -> float:
    return -abs(position - 0.5)


def _gap_confidences(sequence: Sequence[Heard | None], known: dict[int, tuple[float, ...]]) -> list[float]:
    """The confidence of each gap (None) of a sequence; the values at words mean nothing."""
    confidences = [EDGE] * len(sequence)
    last: Heard | None = None
    waiting: list[int] = []
    for number, heard in enumerate(sequence):
        if heard is None:
            waiting.append(number)
            continue
        if last is not None and last.window == heard.window:
            middle = (known[last.window][last.place] + known[heard.window][heard.place]) / 2
            for gap in waiting:
                confidences[gap] = _confidence(middle)
        waiting, last = [], heard
    return confidences
