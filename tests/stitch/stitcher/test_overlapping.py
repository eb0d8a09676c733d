"""Overlapping inference: the best alignment, and the choice by P4's eq. 18."""

import math
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_windows import windows

from espnet_ext.errors import InputError
from espnet_ext.stitch.stitcher.overlapping import align_windows
from espnet_ext.stitch.stitcher.overlapping import (
    merge_by_overlap as timed_inference,
)
from espnet_ext.text.words import Segment


def merge_by_overlap(hypotheses: list[Segment]) -> tuple[str, ...]:
    return tuple(word.text for word in timed_inference(hypotheses))


def full_alignment(hypotheses: list[Segment]) -> tuple[int, list]:
    """Return the edits of the best alignment, and its pairs, by the whole table.

    A cell holds edits and substitutions. Words of windows that do not overlap are far
    apart.
    """
    odd = list_words(hypotheses[::2])
    even = list_words(hypotheses[1::2])

    def add(cell, edits, substitutions):
        return cell[0] + edits, cell[1] + substitutions

    def leave_odd_alone(i, j):
        return add(cost[i - 1][j], 1, 0)

    def leave_even_alone(i, j):
        return add(cost[i][j - 1], 1, 0)

    def pair(i, j):
        left = odd[i - 1]
        right = even[j - 1]
        far = left.end <= right.start or right.end <= left.start
        differ = left.text != right.text
        return add(cost[i - 1][j - 1], math.inf if far else differ, differ)

    cost = [[(0, 0)] * (len(even) + 1) for _ in range(len(odd) + 1)]
    for i in range(len(odd) + 1):
        for j in range(len(even) + 1):
            moves = []
            if i:
                moves.append(leave_odd_alone(i, j))
            if j:
                moves.append(leave_even_alone(i, j))
            if i and j:
                moves.append(pair(i, j))
            cost[i][j] = min(moves, default=(0, 0))
    i = len(odd)
    j = len(even)
    pairs = []
    while i or j:
        alone_odd = i and cost[i][j] == leave_odd_alone(i, j)
        alone_even = j and cost[i][j] == leave_even_alone(i, j)
        if i and j and cost[i][j] == pair(i, j):
            i -= 1
            j -= 1
            pairs.append((odd[i][:3], even[j][:3]))
        # Of two that may be alone, the word of the later window comes last.
        elif alone_odd and not (alone_even and even[j - 1].window > odd[i - 1].window):
            i -= 1
            pairs.append((odd[i][:3], None))
        else:
            j -= 1
            pairs.append((None, even[j][:3]))
    return cost[-1][-1][0], pairs[::-1]


class Heard(NamedTuple):
    """A word of a window, from whose start to whose end."""

    window: int
    place: int
    text: str
    start: float
    end: float


def list_words(items: list[Segment]) -> list[Heard]:
    words = []
    for item in items:
        for place, text in enumerate(item.words):
            words.append(Heard(item.window, place, text, item.start, item.end))
    return words


TEXTS = st.lists(
    st.lists(st.sampled_from("ABCD"), max_size=6).map(" ".join), min_size=1, max_size=8
)


@given(TEXTS, st.sampled_from([0.0, 0.25, 0.5]))
@settings(max_examples=300)
def test_alignment_equals_the_full_dynamic_programme(texts, overlap):
    hypotheses = windows(*texts, overlap=overlap)
    edits, expected = full_alignment(hypotheses)
    pairs = align_windows(hypotheses)
    assert [
        tuple(item and (item.window, item.place, item.word.text) for item in pair)
        for pair in pairs
    ] == expected
    assert (
        sum(
            left is None or right is None or left.word.text != right.word.text
            for left, right in pairs
        )
        == edits
    )


def test_choice_by_the_position_in_the_window():
    # An error at the end of window 0 lies further inside window 1, and the reverse.
    assert merge_by_overlap(windows("A B C D X", "C D E F G")) == tuple("ABCDEFG")
    assert merge_by_overlap(windows("A B C D E", "X D E F G")) == tuple("ABCDEFG")


def test_a_word_that_one_window_did_not_hear():
    # "X" is the sixth of six words of window 0 and lies between the third and the
    # fourth of six of window 1, which is nearer to a middle: there is no "X". The other
    # way round it stays.
    assert merge_by_overlap(windows("A B C D E X", "C D E F G H")) == tuple("ABCDEFGH")
    assert merge_by_overlap(windows("A B C D X E F G", "D E F G H I J K")) == tuple(
        "ABCDXEFGHIJK"
    )


def test_times_decide_where_a_word_lies():
    # By its number the second of two words lies at 3/4 of either window; by its time
    # "X" lies at the edge of window 0.
    left = Segment(
        "r", "a", ("A", "X"), 0.0, 16.0, times=((8.5, 9.0), (14.5, 15.5)), window=0
    )
    right = Segment(
        "r", "a", ("A", "D"), 8.0, 24.0, times=((8.5, 9.0), (14.5, 15.5)), window=1
    )
    assert merge_by_overlap([left, right]) == ("A", "D")
    assert merge_by_overlap(windows("A X", "A D")) == ("A", "D"), (
        "of two words that lie alike, the later window's"
    )


def test_silence_and_words_that_only_one_window_can_hear():
    assert merge_by_overlap(windows("", "A", "", "", "B")) == ("A", "B")
    assert merge_by_overlap(windows("", "", "")) == merge_by_overlap([]) == ()


@pytest.mark.parametrize(
    ("shift", "message"), [(16.0, "0 and 1"), (12.0, "0 and 1"), (4.0, "0 and 2")]
)
def test_windows_that_overlap_too_little_or_too_much(shift, message):
    some = [
        Segment("r", "a", ("A",), shift * index, shift * index + 16, window=index)
        for index in range(3)
    ]
    with pytest.raises(
        InputError, match=f"r: windows {message} overlap.* merge them by time"
    ):
        merge_by_overlap(some)


def test_ties_are_decided_by_places_and_not_by_the_last_digit_of_floats():
    """Of two words equally far from the middles, that of the later window is taken.

    It does not matter where the windows lie.
    """
    for shift in (0.1, 0.3, 0.7, 1.1, 8.3):
        first = Segment(
            "r",
            "s",
            ("a",),
            shift,
            shift + 16.0,
            ((shift + 11.9, shift + 12.1),),
            None,
            0,
        )
        second = Segment(
            "r", "s", ("b",), shift + 8.0, shift + 24.0, first.times, None, 1
        )
        assert [word.text for word in timed_inference([first, second])] == ["b"]
