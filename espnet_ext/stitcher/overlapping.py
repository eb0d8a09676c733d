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
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.stitcher.by_time import monotonic
from espnet_ext.text.words import Segment, Word

_TOLERANCE = 1e-3  # seconds
EDGE = -0.5  # the confidence at a window's edge, the lowest there is
# Of two alignments with equally many edits, the one with fewer substitutions has more words in common. So an edit costs
# far more than there can be words, and a substitution costs 1 more.
_EDIT = 1 << 32
_SUBSTITUTION = _EDIT + 1
_FAR = 1 << 61  # two of them still fit into 64 bits


class WindowWord(NamedTuple):
    """One word of one window.

    Attributes:
        window: the window's index.
        place: the word's number in it, from 0.
        position: where in the window its middle lies, from 0 to 1. Without times it is computed, as in the paper, from
            its number among the window's words, but ((place + 1/2) / count), so that both edges are treated alike.
    """

    window: int
    place: int
    word: Word
    position: float

    @property
    def confidence(self) -> float:
        """P4, eq. 18."""
        return _confidence(self.position)


def _confidence(position: float) -> float:
    return -abs(position - 0.5)


# A word of an odd and one of an even window; None where the other sequence has no word (the paper's empty prediction).
Pair = tuple[WindowWord | None, WindowWord | None]


def overlapping_inference(windows: Sequence[Segment]) -> tuple[Word, ...]:
    """Merge what was heard of one speaker in all windows of a recording into one transcript (P4, eq. 15 and 18).

    Args:
        windows: one hypothesis per window, window 0 first (as :func:`group_by_speaker` gives them).

    Raises:
        InputError: neighbours overlap by less than half, or windows overlap that are not neighbours.
    """
    check_overlap(windows)
    return monotonic(chosen.word for chosen in choose(align_windows(windows)))


def check_overlap(windows: Sequence[Segment], least: float = 0.5) -> None:
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


def _overlap(left: Segment, right: Segment) -> bool:
    return left.end > right.start + _TOLERANCE


def align_windows(windows: Sequence[Segment], within: float = math.inf) -> list[Pair]:
    """Align the words of odd with those of even windows (counted from 1) with the fewest edits.

    A substitution, and a word without a partner, cost one edit. Of alignments with equally many edits, one with the
    most equal words is taken; of several such, the one that, from the end backwards, pairs words where it can, and
    otherwise leaves the word of the later window alone.

    Args:
        windows: of one speaker, window 0 first. Only neighbours that overlap in time are aligned.
        within: seconds between the times of two words that are paired, at most; P4 has no such limit.
    """
    odd, even = list(_words(windows[::2])), list(_words(windows[1::2]))
    table = _Table(odd, even, windows, within)
    return list(reversed(list(_trace(odd, even, table))))


def _words(windows: Sequence[Segment]) -> Iterator[WindowWord]:
    for item in windows:
        for place, word in enumerate(item.timed_words):
            position = (word.middle - item.start) / (item.end - item.start)
            yield WindowWord(item.window, place, word, min(max(position, 0.0), 1.0))


class _Table:
    """The cells of the dynamic programme that lie on the chain of blocks.

    Attributes:
        rows: ``rows[i][j - first[i]]`` is the least cost of aligning the first i odd with the first j even words.
        costs: of each odd word: the first of the even words that it may be paired with, and what each of them costs.
        by_time: words are paired within some seconds of each other only.
    """

    def __init__(
        self,
        odd: Sequence[WindowWord],
        even: Sequence[WindowWord],
        windows: Sequence[Segment],
        within: float,
    ) -> None:
        # ends[w + 1]: even words of windows up to w. Windows of the other parity hold none of them.
        ends = np.concatenate([[0], np.cumsum(np.bincount([item.window for item in even], minlength=len(windows)))])
        self.by_time = within < math.inf
        self.costs = list(_pair_costs(odd, even, windows, ends, within))
        self.first = [0, *(int(ends[max(item.window - 1, 0)]) for item in odd)]
        # even words that may be aligned already: all before the windows next to the last odd word's
        last = [*(int(ends[min(item.window + 2, len(windows))]) for item in odd), len(even)]
        self.rows: list[np.ndarray] = []
        for index, (first, end) in enumerate(zip(self.first, last, strict=True)):
            self.rows.append(self._row(index, first, end))

    def _row(self, index: int, first: int, last: int) -> np.ndarray:
        """Return cells ``first`` to ``last`` (inclusive) of the row after ``index`` odd words."""
        row = np.full(last - first + 1, _FAR, dtype=np.int64)
        if not index:
            row[0] = 0
        else:
            above, above_first = self.rows[-1], self.first[index - 1]
            shared = above[first - above_first :]
            row[: len(shared)] = shared[: len(row)] + _EDIT
            start, costs = self.costs[index - 1]
            cells = row[start + 1 - first : start + 1 + len(costs) - first]
            np.minimum(cells, above[start - above_first : start + len(costs) - above_first] + costs, out=cells)
        # Even words without a partner: row[j] = min over k <= j of row[k] + (j - k) edits.
        steps = np.arange(len(row)) * _EDIT
        return np.minimum.accumulate(row - steps) + steps

    def at(self, i: int, j: int) -> int:
        """Return the cell after i odd and j even words; far too large where it is not on the chain."""
        place = j - self.first[i]
        return int(self.rows[i][place]) if 0 <= place < len(self.rows[i]) else _FAR

    def pair(self, i: int, j: int) -> int:
        """Return the cost up to the i-th odd word if it is paired with the j-th even one, both counted from 1."""
        start, costs = self.costs[i - 1]
        return self.at(i - 1, j - 1) + int(costs[j - 1 - start]) if start < j <= start + len(costs) else _FAR


def _pair_costs(
    odd: Sequence[WindowWord],
    even: Sequence[WindowWord],
    windows: Sequence[Segment],
    ends: np.ndarray,
    within: float,
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield for each odd word the first of the even words of overlapping windows, and the cost of each as partner."""
    codes = {text: code for code, text in enumerate({item.word.text for item in (*odd, *even)})}
    texts = np.array([codes[item.word.text] for item in even], dtype=np.int32)
    middles = np.array([item.word.middle for item in even])
    joined = [False, *(_overlap(left, right) for left, right in pairwise(windows)), False]
    for item in odd:
        start = int(ends[item.window - 1 if joined[item.window] else item.window])
        end = int(ends[item.window + 2 if joined[item.window + 1] else item.window + 1])
        costs = np.where(texts[start:end] != codes[item.word.text], _SUBSTITUTION, 0)
        costs[np.abs(middles[start:end] - item.word.middle) > within] = _FAR
        yield start, costs


def _trace(odd: Sequence[WindowWord], even: Sequence[WindowWord], table: _Table) -> Iterator[Pair]:
    """Yield the pairs of the best path, the last one first."""
    i, j = len(odd), len(even)
    while i or j:
        here = table.at(i, j)
        if i and j and here == table.pair(i, j):
            i, j = i - 1, j - 1
            yield odd[i], even[j]
            continue
        alone_odd = i > 0 and here == table.at(i - 1, j) + _EDIT
        alone_even = j > 0 and here == table.at(i, j - 1) + _EDIT
        if alone_odd and not (alone_even and _later(even[j - 1], odd[i - 1], table.by_time)):
            i -= 1
            yield odd[i], None
        else:
            j -= 1
            yield None, even[j]


def _later(even: WindowWord, odd: WindowWord, by_time: bool) -> bool:
    """Of two words that stand alone, does that of the even window come last?"""
    return even.word.middle > odd.word.middle if by_time else even.window > odd.window


def choose(pairs: Sequence[Pair]) -> list[WindowWord]:
    """Take the side of each pair with the greater confidence, -|position - 1/2| (P4, eq. 18); a word before a gap.

    A gap lies between two words of its sequence. If both are of one window, that window covers this time and heard
    nothing; the gap's position is the middle between theirs. Otherwise the gap lies at windows' edges, where the
    confidence is lowest, and the word of the other sequence stays.

    Args:
        pairs: in the order of speech.
    """
    left, right = (_confidences([pair[side] for pair in pairs]) for side in (0, 1))
    chosen = []
    for pair, one, other in zip(pairs, left, right, strict=True):
        item = pair[0] if one > other or (one == other and pair[0]) else pair[1]
        if item:
            chosen.append(item)
    return chosen


def _confidences(sequence: Sequence[WindowWord | None]) -> list[float]:
    """Return the confidence of each word and of each gap (None) of a sequence."""
    confidences = [EDGE if item is None else item.confidence for item in sequence]
    last = -1  # the place of the word before
    for place, item in enumerate(sequence):
        if item is None:
            continue
        before = sequence[last] if last >= 0 else None
        if before is not None and before.window == item.window:
            confidence = _confidence((before.position + item.position) / 2)
            confidences[last + 1 : place] = [confidence] * (place - last - 1)
        last = place
    return confidences
