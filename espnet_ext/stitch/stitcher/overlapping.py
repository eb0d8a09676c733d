"""Overlapping inference by P4's rule: one transcript of windows that overlap.

The rule is of P4, section 2.2, and Chiu et al. (ASRU 2019). Windows overlap by half.
Words of windows 1, 3, 5 ... (from 1; P4, eq. 13) are aligned with those of windows 2,
4, 6 ... (P4, eq. 14). The rule looks at no times, so it goes wrong where windows share
little; :mod:`.by_time` does not.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.stitch.stitcher.by_time import order_times
from espnet_ext.text.edit_rows import allow_insertions
from espnet_ext.text.words import Segment, Word

_TOLERANCE = 1e-3  # seconds
# Places are compared as fractions: floats decide ties by their last digit.
MIDDLE = Fraction(1, 2)
EDGE = -MIDDLE  # the confidence at a window's edge, the lowest there is
# Of two alignments with equally many edits, the one with fewer substitutions has more
# words in common. So an edit costs far more than there can be words, and a substitution
# costs 1 more.
_EDIT = 1 << 32
_SUBSTITUTION = _EDIT + 1
_FAR = 1 << 61  # two of them still fit into 64 bits
_PAIR, _ALONE_ODD, _ALONE_EVEN = 1, 2, 4  # how an alignment may end


Windows = Sequence[Segment]


class WindowWord(NamedTuple):
    """A word of a window, both by number from 0, and its middle's position in it.

    ``position`` is from 0, the window's start, to 1. Without times the position is, as
    in the paper, that of its number among the window's words, but (place + 1/2) /
    count, so that both edges are treated alike.
    """

    window: int
    place: int
    word: Word
    position: Fraction


def _compute_confidence(position: Fraction) -> Fraction:
    """Return how far from its window's edge a word lies, 0 at best (P4, eq. 18)."""
    return -abs(position - MIDDLE)


Words = Sequence[WindowWord]
# A word of an odd and one of an even window (P4, eq. 16 and P4, eq. 17); None: the
# other sequence has no word there.
Pair = tuple[WindowWord | None, WindowWord | None]


def merge_by_overlap(windows: Windows) -> tuple[Word, ...]:
    """Merge what was heard of one speaker in all windows (P4, eq. 15 and 18).

    Window 0 comes first. Raises InputError for neighbours that overlap by less than
    half, or windows that overlap and are no neighbours.
    """
    check_overlap(windows)
    return order_times(chosen.word for chosen in choose_words(align_windows(windows)))


def check_overlap(windows: Windows, least: float = 0.5) -> None:
    """Refuse windows that overlap with neighbours by less than this share, or others.

    Raises InputError.
    """
    for left, right in pairwise(windows):
        # Of the left window's length: the last window of a recording may be shorter.
        if right.start > left.end - least * (left.end - left.start) + _TOLERANCE:
            raise InputError(
                f"{left.recording}: windows {left.window} and {right.window} "
                "overlap by less than half: merge them by "
                "time (--method time_aware), or cut and decode windows that "
                "overlap by half"
            )
    for left, right in zip(windows, windows[2:], strict=False):
        if _are_overlapping(left, right):
            raise InputError(
                f"{left.recording}: windows {left.window} and {right.window} "
                "overlap: merge them by time (--method "
                "time_aware), or cut and decode windows that overlap with their "
                "neighbours by half, and with no others"
            )


def _are_overlapping(left: Segment, right: Segment) -> bool:
    return left.end > right.start + _TOLERANCE


def align_windows(windows: Windows, within: float = math.inf) -> list[Pair]:
    """Align one speaker's words in odd and even windows (P4, eq. 15 to 17).

    The alignment has the fewest edits. Only words of neighbours that overlap in time
    are paired, and with ``within``, which P4 has not, only those at most as many
    seconds apart. A substitution, and a word without a partner, cost one edit. Of
    alignments with equally many edits, one with the most equal words is taken; of
    several such, the one that, from the end backwards, pairs words where it can, and
    otherwise leaves the word of the later window (with ``within``, the later word)
    alone.
    """
    odd = list(_place_words(windows[::2]))
    even = list(_place_words(windows[1::2]))
    rows = list(_find_moves(odd, even, windows, within))
    i = len(odd)
    j = len(even)
    pairs: list[Pair] = []
    while i or j:
        move = _ALONE_EVEN  # all that is left before the first odd word
        if i:
            row = rows[i - 1]
            move = row.moves[j - row.first]
        even_alone = move & _ALONE_EVEN
        if move & _ALONE_ODD and even_alone:
            # Either is best: the later one is alone, so that pairs are in their order.
            even_alone = _is_later(even[j - 1], odd[i - 1], within)
        if move & _PAIR:
            i -= 1
            j -= 1
            pairs.append((odd[i], even[j]))
        elif even_alone:
            j -= 1
            pairs.append((None, even[j]))
        else:
            i -= 1
            pairs.append((odd[i], None))
    return pairs[::-1]


def _place_words(windows: Windows) -> Iterator[WindowWord]:
    """Yield the words of windows with their positions."""
    for item in windows:
        start = _read_exactly(item.start)
        end = _read_exactly(item.end)
        for place, word in enumerate(item.timed_words):
            if item.times is None:
                count = len(item.words)
                position = Fraction(2 * place + 1, 2 * count)
            else:
                first = _read_exactly(word.start)
                last = _read_exactly(word.end)
                middle = (first + last) / 2
                position = (middle - start) / (end - start)
            # A recogniser's times may exceed the window a little, and a position
            # beyond an edge would have a confidence below that of a gap.
            not_before = max(position, Fraction(0))
            inside = min(not_before, Fraction(1))
            yield WindowWord(item.window, place, word, inside)


def _read_exactly(seconds: float) -> Fraction:
    """Return a time as it is written, to eight decimals."""
    return Fraction(f"{seconds:.8f}")


class _EvenWords:
    """The words of even windows as arrays, to compare an odd word with many."""

    def __init__(
        self,
        words: Words,
        windows: Windows,
        within: float,
    ):
        self.texts = np.array([item.word.text for item in words], dtype=object)
        self.middles = np.array([item.word.middle for item in words])
        self.owners = np.array([item.window for item in words])  # rising
        self.within = within
        overlaps = [_are_overlapping(left, right) for left, right in pairwise(windows)]
        # joined[n]: window n overlaps with the one before; nothing is before the first
        # or after the last
        self.joined = [False, *overlaps, False]

    def find_range(self, first: int, end: int) -> tuple[int, int]:
        """Return where the words of windows ``first`` up to ``end`` begin and end."""
        begin = int(np.searchsorted(self.owners, first))
        after = int(np.searchsorted(self.owners, end))
        return begin, after

    def price_pairs(self, odd: WindowWord, first: int, last: int) -> np.ndarray:
        """Return the cost of pairing an odd word with even ones, (last - first,)."""
        own = slice(first, last)
        window = odd.window
        word = odd.word
        neighbours = []
        if self.joined[window]:
            neighbours.append(window - 1)
        if self.joined[window + 1]:
            neighbours.append(window + 1)
        owners = self.owners[own]
        beside = np.isin(owners, neighbours)
        middles = self.middles[own]
        apart = np.abs(middles - word.middle)
        near = apart <= self.within
        texts = self.texts[own]
        equal = texts == word.text
        costs = np.where(equal, 0, _SUBSTITUTION)
        possible = beside & near
        costs[~possible] = _FAR
        return costs


class Row(NamedTuple):
    """How the best alignments end after an odd word and ``first`` or more even words.

    ``moves[j - first]`` are bits of ``_PAIR``, ``_ALONE_ODD`` and ``_ALONE_EVEN``.
    """

    first: int
    moves: Sequence[int]


def _find_moves(
    odd: Words,
    even: Words,
    windows: Windows,
    within: float,
) -> Iterator[Row]:
    """Yield the row of each odd word.

    Beyond the windows next to a word's own there are only gaps, so that a best path
    never needs to leave these cells: what is stored grows linearly with the recording.
    """
    candidates = _EvenWords(even, windows, within)
    # A row begins with the words of the even window before its odd word. It goes on to
    # the last even word with which the next odd word may be paired, which is in the
    # window after that one; the row of the last odd word goes on to the end.
    ends = [item.window + 2 for item in odd]
    ends.append(len(windows))
    # costs[j - before]: the lowest cost of the odd words so far and j even ones
    _, count = candidates.find_range(0, ends[0])
    costs = np.arange(count + 1) * _EDIT
    before = 0
    for item, end in zip(odd, ends[1:], strict=True):
        first, last = candidates.find_range(item.window - 1, end)
        # The row above may begin earlier and end earlier than this one. What lies
        # beyond its end is reached by even words alone, along this row.
        above = np.full(last - first + 1, _FAR)
        reached = costs[first - before :]
        above[: len(reached)] = reached
        before = first
        alone = above + _EDIT
        paired = above[:-1] + candidates.price_pairs(item, first, last)
        costs = alone.copy()
        costs[1:] = np.minimum(alone[1:], paired)
        costs = allow_insertions(costs, _EDIT)  # even words alone
        # Whole numbers, so that == finds all ways that a lowest cost came from.
        moves = _ALONE_ODD * (costs == alone)
        after_even = costs[:-1] + _EDIT
        moves[1:] += _PAIR * (costs[1:] == paired)
        moves[1:] += _ALONE_EVEN * (costs[1:] == after_even)
        yield Row(first, moves.tolist())


def _is_later(even: WindowWord, odd: WindowWord, within: float) -> bool:
    """Tell whether, of two words that stand alone, the even window's comes last."""
    if within < math.inf:
        return even.word.middle > odd.word.middle
    return even.window > odd.window


def choose_words(pairs: Sequence[Pair]) -> list[WindowWord]:
    """Take the side of each pair with the greater confidence (P4, eq. 18).

    Of equals, a word rather than a gap, and otherwise the later window's. A gap lies
    between two words of its sequence. If both are of one window, that window covers
    this time and heard nothing; the gap's position is the middle between theirs.
    Otherwise the gap lies at windows' edges, where the confidence is lowest, and the
    word of the other sequence stays. ``pairs`` are in the order of speech.
    """
    left = _compute_confidences([odd for odd, _ in pairs])
    right = _compute_confidences([even for _, even in pairs])
    chosen = []
    for pair, one, other in zip(pairs, left, right, strict=True):
        if one == other:
            item = _take_later_word(pair)
        else:
            item = pair[0] if one > other else pair[1]
        if item:
            chosen.append(item)
    return chosen


def _take_later_word(pair: Pair) -> WindowWord | None:
    """Return the word of a pair that has one, or that of the later window."""
    left, right = pair
    if left is None or right is None:
        return left or right
    return left if left.window > right.window else right


def _compute_confidences(sequence: Sequence[WindowWord | None]) -> list[Fraction]:
    """Return the confidence of each word and of each gap (None) of a sequence."""
    confidences = [
        EDGE if item is None else _compute_confidence(item.position)
        for item in sequence
    ]
    last = -1  # the place of the word before
    for place, item in enumerate(sequence):
        if item is None:
            continue
        before = sequence[last] if last >= 0 else None
        # Gaps within one window; others keep the confidence of an edge.
        if before is not None and before.window == item.window:
            confidence = _compute_confidence((before.position + item.position) / 2)
            confidences[last + 1 : place] = [confidence] * (place - last - 1)
        last = place
    return confidences
