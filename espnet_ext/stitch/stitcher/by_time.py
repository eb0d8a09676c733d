"""Time-aware overlapping inference: windows of any length and overlap are merged by the
times of their words.

P4's rule (:mod:`.overlapping`) looks at no times, and where windows share little it
pairs words that are seconds apart.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from espnet_ext.text.edit_rows import allow_insertions
from espnet_ext.text.window_hypotheses import is_timed
from espnet_ext.text.words import Segment, Word

WITHIN = 1.0  # seconds between two windows' times of the same word, at most
# Of the time that two windows share, how far apart a word may be in the two. Chosen on
# simulated words: of times that are off by 0.1 s none is lost or doubled at overlaps of
# 2 % (0.3 s) and more, of those off by 0.3 s none at 10 %.
PART = 2 / 3
# seconds from a window's edge in which a word does not count if the other window does
# not have it
EDGE = 1.0
ONE = 1000  # what an equal pair counts: whole numbers, so that sums can be compared
_NEVER = -(1 << 30)


def merge_by_time(windows: Iterable[Segment], timed: bool = True) -> tuple[Word, ...]:
    """Merge what was heard of one speaker in the windows of a recording, in the order
    of their starts.

    Windows are joined one after the other; what lies within others is left out. Where
    times are not known (``timed``: a recogniser has given those that there are), any
    words that two windows share may be paired.
    """
    merged: list[Word] = []
    before: Segment | None = None
    for item in windows:
        words = item.timed_words
        if before is None or item.start >= before.end - 1e-3:
            merged += words
        elif item.end > before.end:
            shared = before.end - item.start
            slack = (
                nearness(shared)
                if timed and is_timed((before, item))
                else before.end - before.start
            )
            first, last = len(merged), 0  # of the words that both may have
            while first and merged[first - 1].middle >= item.start - slack:
                first -= 1
            while last < len(words) and words[last].middle <= before.end + slack:
                last += 1
            merged[first:] = join(
                merged[first:], words[:last], (item.start, before.end), slack
            )
            merged += words[last:]
        else:
            continue
        before = item
    return monotonic(merged)


def nearness(shared: float) -> float:
    """Return how many seconds apart the times of one word may be in two windows that
    share so many seconds: at most ``WITHIN``, and less where little is shared, as
    there a word said twice would become one.
    """
    return min(WITHIN, PART * shared)


def join(
    left: Sequence[Word],
    right: Sequence[Word],
    shared: tuple[float, float],
    within: float = WITHIN,
) -> list[Word]:
    """Join the words of an earlier and a later window that share the time between
    ``shared``, in seconds.

    Of a pair within some seconds of each other the word nearer to the middle of its
    window is taken (P4, eq. 18), and where both windows differ, the words of the nearer
    one. A word that one window has and the other leaves out stays, unless it lies at
    the edge of its window.
    """
    start, end = shared
    middle, edge = (start + end) / 2, min(EDGE, (end - start) / 2)
    joined: list[Word] = []
    for _, group in groupby(
        align_by_time(left, right, within), key=lambda step: _agree(left, right, step)
    ):
        steps = list(group)
        if all(j is None for _, j in steps):
            joined += [
                left[i]
                for i, _ in steps
                if i is not None and left[i].middle <= end - edge
            ]
        elif all(i is None for i, _ in steps):
            joined += [
                right[j]
                for _, j in steps
                if j is not None and right[j].middle >= start + edge
            ]
        else:
            for i, j in steps:
                taken = (left, i) if _time(left, right, (i, j)) < middle else (right, j)
                joined += [taken[0][taken[1]]] if taken[1] is not None else []
    return joined


def _agree(left: Sequence[Word], right: Sequence[Word], step: "Step") -> bool:
    i, j = step
    return i is not None and j is not None and key(left[i].text) == key(right[j].text)


# a word of the left and of the right window; None: the other stands alone
Step = tuple[int | None, int | None]


def align_by_time(
    left: Sequence[Word], right: Sequence[Word], within: float
) -> list[Step]:
    """Align the words of two windows that overlap, and pair only those within some
    seconds of each other.

    An equal pair counts 1 where both words have the same time, down to 0 at ``within``:
    otherwise a run of equal words would be paired one word late, since that makes more
    pairs. A different pair or a word that stands alone counts -1; but words before the
    first that the right window has, and after the last that the left one has, cost
    nothing: the other window did not hear them.
    """
    gains = _gain_of_pairs(left, right, within)
    # table[i, j]: the best sum of the first i words of the left and j of the right
    table = np.zeros((len(left) + 1, len(right) + 1), dtype=np.int32)
    table[0] = -ONE * np.arange(len(right) + 1)
    for i in range(len(left)):
        row = table[i] - ONE  # the left word stands alone
        row[0] = 0  # before the right window's first word that costs nothing
        np.maximum(row[1:], table[i][:-1] + gains[i], out=row[1:])
        # Gains are costs with the other sign: words of the right that stand alone.
        table[i + 1] = -allow_insertions(-row, ONE)
    # After the left window's last word, those of the right cost nothing.
    i, j = len(left), int(np.argmax(table[-1]))
    pairs = []
    while i and j:
        if table[i, j] == table[i - 1, j - 1] + gains[i - 1, j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif table[i, j] == table[i, j - 1] - ONE:
            j -= 1
        else:
            i -= 1
    return list(_with_lone_words(left, right, pairs[::-1]))


def _gain_of_pairs(
    left: Sequence[Word], right: Sequence[Word], within: float
) -> np.ndarray:
    """Return what pairing each left with each right word adds to the sum, in parts of
    ``ONE``, (left, right) int32.
    """
    texts = {key(word.text) for word in (*left, *right)}
    codes = {text: code for code, text in enumerate(texts)}
    words = np.array([codes[key(word.text)] for word in right], dtype=np.int32)
    middles = np.array([word.middle for word in right])
    gains = np.empty((len(left), len(right)), dtype=np.int32)
    for i, word in enumerate(left):
        apart = np.abs(middles - word.middle) / within
        equal = words == codes[key(word.text)]
        gains[i] = np.where(equal, ONE * (1 - np.minimum(apart, 1)), -ONE)
        gains[i][apart > 1] = _NEVER
    return gains


def _with_lone_words(
    left: Sequence[Word], right: Sequence[Word], pairs: Sequence[tuple[int, int]]
) -> Iterator[Step]:
    """Yield the pairs, and between them the words that stand alone, in the order of
    their times.
    """
    i = j = 0
    for end in (*pairs, (len(left), len(right))):
        lone: tuple[Iterable[Step], ...] = (
            ((place, None) for place in range(i, end[0])),
            ((None, place) for place in range(j, end[1])),
        )
        yield from heapq.merge(
            *lone, key=lambda step: _time(left, right, step)
        )  # each side keeps its order
        if end != (len(left), len(right)):
            yield end
        i, j = end[0] + 1, end[1] + 1


def _time(left: Sequence[Word], right: Sequence[Word], step: Step) -> float:
    middles = [
        words[place].middle
        for words, place in zip((left, right), step, strict=True)
        if place is not None
    ]
    return sum(middles) / len(middles)


def key(word: str) -> str:
    """Return what two windows must agree on to have heard the same word: neither case
    nor punctuation.

    >>> key("Hello,") == key("hello"), key("...")
    (True, '...')
    """
    return "".join(filter(str.isalnum, word.casefold())) or word


def monotonic(words: Iterable[Word]) -> tuple[Word, ...]:
    """Move words so that none starts before the one before it, or ends before it
    starts.
    """
    ordered: list[Word] = []
    latest = 0.0
    for word in words:
        latest = max(latest, word.start)
        ordered.append(replace(word, start=latest, end=max(latest, word.end)))
    return tuple(ordered)
