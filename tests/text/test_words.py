"""Words and segments: their order, the times of words, lines, and the serialised
target.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.text.words import (
    LONGEST,
    PAUSE,
    WIDEST,
    Segment,
    Word,
    join_words_by_speaker,
    serialise,
    sort_by_start,
    split_into_lines,
)

TURNS = [
    Segment("r", "b", ("TWO", "你好"), 2.5, 4.0),
    Segment("r", "a", ("ONE",), 0.0, 3.0),
    Segment("s", "a", ("NO", "TIME")),
    Segment("t", "", ()),
]


def test_a_recording_with_words_without_times_keeps_its_order():
    turns = [
        Segment("s", "a", (word,), *span)
        for word, span in (("ONE", (5, 6)), ("TWO", ()), ("THREE", (1, 2)))
    ]
    assert sort_by_start([*turns, *TURNS]) == [TURNS[1], TURNS[0], *turns, *TURNS[2:]]
    silent = Segment("s", "b", ())
    assert sort_by_start([turns[0], silent, turns[2]]) == [
        silent,
        turns[2],
        turns[0],
    ], "silence has no place in time"
    assert join_words_by_speaker(turns) == {"s": {"a": ("ONE", "TWO", "THREE")}}


def test_words_by_speaker_joins_in_the_order_of_time():
    said = join_words_by_speaker([Segment("r", "a", ("LAST",), 9.0, 9.5), *TURNS])
    assert said == {
        "r": {"a": ("ONE", "LAST"), "b": ("TWO", "你好")},
        "s": {"a": ("NO", "TIME")},
        "t": {},
    }


def test_times_of_words_that_have_none():
    """By their letters, but by their number for P4's merging."""
    words = Segment("r", "a", ("A", "ABCD"), 1.0, 8.0)
    assert words.word_spans == ((1.0, 3.0), (3.0, 8.0))
    assert [(word.start, word.end) for word in words.timed_words] == [
        (1.0, 4.5),
        (4.5, 8.0),
    ]
    assert (
        replace(words, words=()).word_spans
        == replace(words, words=()).timed_words
        == ()
    )
    with pytest.raises(InputError, match="r: a turn of a has no times"):
        _ = Segment("r", "a", ("A",)).word_spans


def test_serialised_in_the_order_of_starts():
    turns = [
        Segment("m", "a", ("A1",), 0.0, 5.0),
        Segment("m", "b", ("B1", "B2"), 1.0, 3.0),
        Segment("m", "a", ("A2",), 5.0, 6.0),
    ]
    assert serialise(turns[::-1]) == ("A1 <sc> B1 B2 <sc> A2", ["a", "b", "a"])


@given(
    st.lists(
        st.tuples(
            st.text("ab", min_size=1, max_size=30), st.floats(0, 3), st.floats(0.05, 2)
        ),
        max_size=60,
    )
)
def test_lines_hold_all_words_and_are_short(drawn):
    words, time = [], 0.0
    for text, pause, length in drawn:
        words.append(Word(text, time + pause, time + pause + length, 1.0))
        time = words[-1].end
    lines = list(split_into_lines(words))
    assert [word for line in lines for word in line.timed_words] == words
    for line in lines:
        assert len(line.words) == 1 or (
            len(line.text) <= WIDEST and line.end - line.start <= LONGEST
        )
        gaps = [
            b.start - a.end
            for a, b in zip(line.timed_words, line.timed_words[1:], strict=False)
        ]
        assert all(gap < PAUSE for gap in gaps)
    for line, following in zip(
        lines, lines[1:], strict=False
    ):  # no line could have gone on
        longer = Segment.from_words((*line.timed_words, following.timed_words[0]))
        too_wide = len(longer.text) > WIDEST
        assert (
            following.start - line.end >= PAUSE
            or longer.end - longer.start > LONGEST
            or too_wide
        )
