"""Merging by time: perfect windows come out whole, and the alignment is the best."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from espnet_ext.stitch.stitcher.by_time import (
    align_by_time,
    join_neighbours,
    merge_by_time,
    order_times,
)
from espnet_ext.synthetic.english import build_english_grammar
from espnet_ext.text.words import Segment, Word

RATE = 3.0  # words a second


def make_windows(
    text: list[str], length: float, shift: float, jitter: float = 0.0
) -> list[Segment]:
    """What windows hear of a text that is said without a break.

    Times differ by up to the jitter, in seconds.
    """
    rng = np.random.default_rng(0)
    found = []
    after_first = int(np.ceil((len(text) / RATE - length) / shift))
    for index in range(max(1, after_first + 1)):
        start = index * shift
        end = index * shift + length
        inside = [
            place for place in range(len(text)) if start <= (place + 0.5) / RATE < end
        ]
        begins = [
            place / RATE + rng.uniform(-jitter / 2, jitter / 2) for place in inside
        ]
        times = tuple((begin, begin + 1 / RATE) for begin in begins)
        found.append(
            Segment(
                "r",
                "a",
                tuple(text[place] for place in inside),
                start,
                end,
                times,
                window=index,
            )
        )
    return found


def list_texts(merged) -> list[str]:
    return [word.text for word in merged]


def draw_english() -> list[str]:
    """Return the words of 40 sentences, of which many are the same."""
    words = []
    for number in range(40):
        sentence = build_english_grammar().draw_sentence(random.Random(number % 15))
        words += sentence.split()
    return words


ENGLISH = draw_english()


@pytest.mark.parametrize(
    ("length", "shift", "seconds"),
    [
        (16, 8, 20),
        (16, 8, 60),
        (16, 12, 24),
        (30, 27.5, 60),
        (16, 16, 20),
        (16, 4, 24),
        (16, 4, 60),
        (10, 9, 60),
    ],
)
def test_perfect_windows_of_any_overlap_come_out_whole(length, shift, seconds):
    """Also two windows, and windows that overlap with the next but one."""
    text = ENGLISH[: int(seconds * RATE)]
    assert (
        list_texts(merge_by_time(make_windows(text, length, shift, jitter=0.4))) == text
    )


@settings(max_examples=60)
@example(["A"] * 40, 4.0)
@example(["A", "B"] * 20, 6.0)
@given(
    st.lists(st.sampled_from("AB"), min_size=1, max_size=80),
    st.sampled_from([2.0, 4.0, 6.0, 8.0]),
)
def test_two_words_that_come_back_all_the_time(text, shift):
    assert list_texts(merge_by_time(make_windows(text, 8.0, shift))) == text


def test_without_times_the_words_that_both_windows_have_decide():
    text = [f"W{place % 50}" for place in range(100)]
    bare = [
        Segment("r", "a", w.words, w.start, w.end, window=w.window)
        for w in make_windows(text, 16, 12)
    ]
    assert list_texts(merge_by_time(bare)) == text


def test_a_speaker_who_is_silent_in_what_windows_share():
    """A-B-A (P4, 2.3): nothing is merged, though the words are equal."""
    left = Segment(
        "r",
        "a",
        ("YES", "I", "DO"),
        0.0,
        16.0,
        ((1, 1.5), (1.5, 2), (2, 2.5)),
        window=0,
    )
    right = Segment(
        "r",
        "a",
        ("YES", "I", "DO"),
        8.0,
        24.0,
        ((20, 20.5), (20.5, 21), (21, 21.5)),
        window=1,
    )
    assert list_texts(merge_by_time([left, right])) == ["YES", "I", "DO"] * 2


def make_words(*items: tuple[str, float]) -> list[Word]:
    return [Word(word, middle - 0.1, middle + 0.1) for word, middle in items]


def test_each_word_is_taken_from_the_window_in_whose_middle_it_lies():
    # neither case nor punctuation counts
    left = make_words(("A", 9), ("b,", 10), ("C", 11), ("X", 13), ("E", 15))
    right = make_words(("Y", 9), ("B", 10.2), ("C", 11.1), ("D", 13.1), ("E", 15))
    assert list_texts(join_neighbours(left, right, (8.0, 16.0))) == [
        "A",
        "b,",
        "C",
        "D",
        "E",
    ]


def compute_best_sum(left: list[Word], right: list[Word], within: float) -> float:
    """The best sum over all alignments, by trying out all sets of pairs."""
    best = -100
    places = [(i, j) for i in range(len(left)) for j in range(len(right))]
    for count in range(min(len(left), len(right)) + 1):
        for pairs in itertools.combinations(places, count):
            if any(a[0] >= b[0] or a[1] >= b[1] for a, b in itertools.pairwise(pairs)):
                continue
            if any(abs(left[i].middle - right[j].middle) > within for i, j in pairs):
                continue
            best = max(best, compute_sum(left, right, pairs, within))
    return best


def compute_sum(left, right, pairs, within) -> float:
    near = sum(
        1 - abs(left[i].middle - right[j].middle) / within
        if left[i].text == right[j].text
        else -1
        for i, j in pairs
    )
    # Left words before the first right one, and right words after the last left one,
    # cost nothing; where nothing is paired, all words of both sides are such.
    lone_left = len(left) - pairs[0][0] - len(pairs) if pairs else 0
    lone_right = pairs[-1][1] + 1 - len(pairs) if pairs else 0
    return near - lone_left - lone_right


LISTS = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 4)), max_size=4)


@settings(max_examples=200)
@given(LISTS, LISTS, st.sampled_from([0.5, 1.0, 9.0]))
def test_the_alignment_is_the_best_of_all(left, right, within):
    left = make_words(*sorted(left, key=lambda item: item[1]))
    right = make_words(*sorted(right, key=lambda item: item[1]))
    steps = align_by_time(left, right, within)
    assert [word for word, _ in steps if word is not None] == left
    assert [word for _, word in steps if word is not None] == right
    pairs = []
    i = 0
    j = 0
    for one, other in steps:
        if one is not None and other is not None:
            pairs.append((i, j))
        i += one is not None
        j += other is not None
    assert compute_sum(left, right, pairs, within) == pytest.approx(
        compute_best_sum(left, right, within), abs=0.01
    )


def test_no_word_starts_before_the_one_before_it():
    ordered = order_times([Word("A", 2, 3), Word("B", 1, 1.5), Word("C", 4, 3)])
    assert [(word.start, word.end) for word in ordered] == [(2, 3), (2, 2), (4, 4)]


def test_windows_that_share_little_lose_no_word_whose_times_are_nearly_right():
    """Few different words, so that many are said twice within a second."""
    rng = random.Random(7)
    words = []
    time = 0.3
    while time < 200.0:
        end = time + rng.uniform(0.15, 0.45)
        words.append((rng.choice("abc"), time, end))
        time = end + rng.choice((0.0, 0.0, 0.3))
    for overlap in (0.02, 0.05, 0.25, 0.5):
        windows = []
        while not windows or windows[-1].end < time:
            start = 16.0 * (1 - overlap) * len(windows)
            own = [
                (word, a + rng.uniform(-0.05, 0.05), b + rng.uniform(-0.05, 0.05))
                for word, a, b in words
                if start <= (a + b) / 2 <= start + 16.0
            ]
            windows.append(
                Segment(
                    "r",
                    "s",
                    tuple(word for word, _, _ in own),
                    start,
                    start + 16.0,
                    tuple((a, max(a, b)) for _, a, b in own),
                    window=len(windows),
                )
            )
        merged = [word.text for word in merge_by_time(windows)]
        assert merged == [word for word, _, _ in words], overlap
