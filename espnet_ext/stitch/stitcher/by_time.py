"""Time-aware overlapping inference: windows are merged by the times of their words.

Windows may be of any length and overlap. P4's rule (:mod:`.overlapping`) looks at no
times, and where windows share little it pairs words that are seconds apart.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from espnet_ext.text.edit_rows import allow_insertions
from espnet_ext.text.window_hypotheses import is_timed
from espnet_ext.text.words import Segment, Word

Words = Sequence[Word]

MAX_SHIFT = 1.0  # seconds between two windows' times of the same word, at most
# The same as a part of the time that two windows share. Chosen on simulated words: of
# times that are off by 0.1 s none is lost or doubled at overlaps of 2 % (0.3 s) and
# more, of those off by 0.3 s none at 10 %.
MAX_PART_OF_SHARED = 2 / 3
# Seconds from a window's edge in which a word does not count if the other window does
# not have it: it may have been cut.
EDGE = 1.0
# Gains and costs of 1 are counted as so many: whole numbers, so that == compares sums.
UNIT = 1000
_NEVER = -(1 << 30)  # lower than any sum, and twice this still fits into 32 bits
_TOLERANCE = 1e-3  # seconds by which windows may overlap without sharing a word


def merge_by_time(windows: Iterable[Segment], timed: bool = True) -> tuple[Word, ...]:
    """Merge what was heard of one speaker in the windows of a recording.

    Windows, in the order of their starts, are joined one after the other; what lies
    within others is left out. Without ``timed``, times of words are a guess and not a
    recogniser's; then, and where a window has none, words are paired whatever their
    times.
    """
    merged: list[Word] = []
    before: Segment | None = None
    for window in windows:
        words = window.timed_words
        if before is None or window.start >= before.end - _TOLERANCE:
            merged += words
        elif window.end > before.end:
            # Words may be a whole window apart, so that no pair is ruled out.
            slack = before.end - before.start
            if timed and is_timed((before, window)):
                slack = limit_shift(before.end - window.start)
            shared = (window.start, before.end)
            _append_window(merged, words, shared, slack)
        else:
            continue  # the window lies within the one before
        before = window
    return order_times(merged)


def _append_window(
    merged: list[Word],
    words: Words,
    shared: tuple[float, float],
    slack: float,
) -> None:
    """Join the words of the next window to those so far, ``merged``.

    ``shared`` are start and end of the time that is in both windows; ``slack`` is how
    far a word's two times may be apart. All are in seconds. Only words that can be in
    both windows are aligned and moved, so that the effort does not grow with the
    recording.
    """
    start, end = shared
    first = len(merged)
    while first and merged[first - 1].middle >= start - slack:
        first -= 1
    last = 0
    while last < len(words) and words[last].middle <= end + slack:
        last += 1
    joined = join_neighbours(merged[first:], words[:last], shared, slack)
    merged[first:] = joined
    merged += words[last:]


def limit_shift(shared: float) -> float:
    """Return how many seconds apart one word's times in two windows may be.

    At most ``MAX_SHIFT``, and less where the windows share few seconds, as there a word
    said twice would become one.
    """
    return min(MAX_SHIFT, MAX_PART_OF_SHARED * shared)


def join_neighbours(
    left: Words,
    right: Words,
    shared: tuple[float, float],
    within: float = MAX_SHIFT,
) -> list[Word]:
    """Join the words of an earlier and a later window.

    ``shared`` are start and end of the time that is in both windows, in seconds. Of two
    words that are paired, at most ``within`` seconds apart, the one nearer to the
    middle of its window is taken (P4, eq. 18), and where the windows differ, the words
    of the nearer one. A word that one window has and the other leaves out stays, unless
    it lies at the edge of its window.
    """
    start, end = shared
    middle = (start + end) / 2
    # Never more than half: of what is shared, one window at least keeps its lone words.
    edge = min(EDGE, (end - start) / 2)
    joined: list[Word] = []
    aligned = align_by_time(left, right, within)
    # A group is a run of pairs that agree, or all that lies between two such runs.
    for _, group in groupby(aligned, key=_is_same_word):
        steps = list(group)
        only_left = all(later is None for _, later in steps)
        only_right = all(earlier is None for earlier, _ in steps)
        for earlier, later in steps:
            if only_left:
                taken = earlier
                kept = taken is not None and taken.middle <= end - edge
            elif only_right:
                taken = later
                kept = taken is not None and taken.middle >= start + edge
            else:
                # Up to the middle a word lies deeper in the left window than in the
                # right one, which has just begun. Where both differ, each time's words
                # are those of one window: a gap of the nearer window leaves out the
                # word of the other.
                nearer_is_left = _find_middle((earlier, later)) < middle
                taken = earlier if nearer_is_left else later
                kept = taken is not None
            if taken is not None and kept:
                joined.append(taken)
    return joined


# A word of the left and of the right window; None: the other stands alone.
Step = tuple[Word | None, Word | None]


def _is_same_word(step: Step) -> bool:
    """Tell whether both windows have heard the same word."""
    left, right = step
    if left is None or right is None:
        return False
    return normalise_word(left.text) == normalise_word(right.text)


def align_by_time(left: Words, right: Words, within: float) -> list[Step]:
    """Align the words of two windows that overlap.

    Only words that are at most ``within`` seconds apart are paired. An equal pair
    counts 1 where both words have the same time, down to 0 at ``within``: otherwise a
    run of equal words would be paired one word late, since that makes more pairs. A
    pair of different words or a word that stands alone counts -1; but words before the
    first of the right window and after the last of the left one cost nothing: the other
    window did not hear them.
    """
    gains = _compute_gains(left, right, within)
    table = _fill_table(gains)
    # After the left window's last word, those of the right cost nothing: the best
    # alignment may end at any of them.
    i = len(left)
    last_row = table[i]
    j = int(last_row.argmax())
    # Back along a best path: whole numbers, so that == finds where a sum came from.
    pairs = []
    while i and j:
        best = table[i, j]
        if_paired = table[i - 1, j - 1] + gains[i - 1, j - 1]
        if_right_alone = table[i, j - 1] - UNIT
        if best == if_paired:
            i -= 1
            j -= 1
            pairs.append((i, j))
        elif best == if_right_alone:
            j -= 1
        else:
            i -= 1
    return list(_add_lone_words(left, right, pairs[::-1]))


def _fill_table(gains: np.ndarray) -> np.ndarray:
    """Return the best sum of the first i words of the left and j of the right window.

    ``gains``: what a pair adds, (left, right); the table is (left + 1, right + 1).
    """
    width = gains.shape[1] + 1
    # Before the left window's first word, those of the right have cost 1 each: that
    # window was on, and did not hear them.
    row = -UNIT * np.arange(width, dtype=np.int32)
    rows = [row]
    for gain in gains:
        paired = row[:-1] + gain
        row = row - UNIT  # the left word stands alone
        row[0] = 0  # but before the right window's first word, at no cost
        row[1:] = np.maximum(row[1:], paired)
        # Gains are costs with the other sign: words of the right that stand alone.
        row = -allow_insertions(-row, UNIT)
        rows.append(row)
    return np.stack(rows)


def _compute_gains(left: Words, right: Words, within: float) -> np.ndarray:
    """Return what pairing a left with a right word adds, in parts of 1 / ``UNIT``.

    The shape is (left, right), int32.
    """
    normalised = [normalise_word(word.text) for word in right]
    texts = np.array(normalised, dtype=object)
    middles = np.array([word.middle for word in right])
    shape = (len(left), len(right))
    gains = np.empty(shape, dtype=np.int32)
    # Row by row: whole tables of times and texts would be larger than that of gains.
    for i, word in enumerate(left):
        text = normalise_word(word.text)
        equal = texts == text
        apart = np.abs(middles - word.middle)
        share = apart / within
        nearness = 1 - np.minimum(share, 1)
        gain = np.where(equal, UNIT * nearness, -UNIT)
        too_far = share > 1
        gain[too_far] = _NEVER
        gains[i] = gain
    return gains


def _add_lone_words(
    left: Words, right: Words, pairs: Sequence[tuple[int, int]]
) -> Iterator[Step]:
    """Yield the pairs, and between them lone words in the order of their times."""
    i = 0
    j = 0
    for next_i, next_j in pairs:
        yield from _merge_lone_words(left[i:next_i], right[j:next_j])
        yield left[next_i], right[next_j]
        i = next_i + 1
        j = next_j + 1
    yield from _merge_lone_words(left[i:], right[j:])


def _merge_lone_words(left: Words, right: Words) -> Iterator[Step]:
    """Yield words that have no counterpart in the order of their times."""
    lone_left: list[Step] = [(word, None) for word in left]
    lone_right: list[Step] = [(None, word) for word in right]
    # Merged, not sorted: each side keeps its order, though its times may fall.
    return heapq.merge(lone_left, lone_right, key=_find_middle)


def _find_middle(step: Step) -> float:
    """Return the middle of a step's word, or the mean of both, in seconds."""
    middles = [word.middle for word in step if word is not None]
    return sum(middles) / len(middles)


def normalise_word(word: str) -> str:
    """Return a word without case and punctuation, by which two windows are compared.

    A word of punctuation alone stays as it is.

    >>> normalise_word("Hello,") == normalise_word("hello"), normalise_word("...")
    (True, '...')
    """
    letters = filter(str.isalnum, word.casefold())
    return "".join(letters) or word


def order_times(words: Iterable[Word]) -> tuple[Word, ...]:
    """Move words so that starts rise, and no word ends before it starts.

    Neighbours that come from two windows, or from two tokens that attend to one frame,
    need not be in order, but subtitles and CTM files have to be.
    """
    ordered: list[Word] = []
    latest = 0.0
    for word in words:
        latest = max(latest, word.start)
        end = max(latest, word.end)
        ordered.append(replace(word, start=latest, end=end))
    return tuple(ordered)
