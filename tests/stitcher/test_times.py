"""Times of a stitched transcript's words, and its turns."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.multitalker.turns import Turn
from espnet_ext.stitcher.hypotheses import WindowHypothesis
from espnet_ext.stitcher.times import stitched_times, timed_turns


def window(index: int, words: str, *times: tuple[float, float]) -> WindowHypothesis:
    return WindowHypothesis("r", index, "a", tuple(words.split()), 8.0 * index, 8.0 * index + 16, times=times or None)


HEARD = (window(0, "A B C", (1, 1.5), (9, 9.5), (15, 15.2)), window(1, "B C D", (9.1, 9.4), (15, 15.3), (20, 20.5)))


def test_words_have_the_times_of_those_they_are_aligned_with():
    times = stitched_times(["A", "B", "C", "D"], HEARD)
    assert [start for start, _ in times] == pytest.approx([1, 9, 15, 20], abs=0.2)
    # a word that no window has begins between its neighbours
    start, end = stitched_times(["A", "X", "B", "C", "D"], HEARD)[1]
    assert 1 <= start <= 9.1 and start <= end


def test_without_times_words_share_their_window():
    assert stitched_times(["A", "B"], [window(0, "A B")]) == ((0, 8), (8, 16))
    assert stitched_times([], [window(0, "")]) == ()
    assert stitched_times(["A"], [window(0, "")]) == ((0.0, 0.0),)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("ABCX"), max_size=8))
def test_starts_never_fall(words):
    times = stitched_times(words, HEARD)
    assert len(times) == len(words)
    assert all(start <= end for start, end in times)
    assert [start for start, _ in times] == sorted(start for start, _ in times)


def test_turns_are_divided_at_pauses_and_stand_in_order():
    other = WindowHypothesis("r", 0, "b", ("Z",), 0.0, 16.0, times=((5.0, 6.0),))
    grouped = {"r": {"a": HEARD, "b": (other,)}}
    turns = [Turn("r", "a", tuple("ABCD")), Turn("r", "b", ("Z",)), Turn("r", "b", ())]
    timed = timed_turns(turns, grouped)
    assert [(turn.speaker, "".join(turn.words)) for turn, _ in timed] == [
        ("a", "A"), ("b", "Z"), ("a", "B"), ("a", "C"), ("a", "D"),
    ]  # fmt: skip
    assert all(turn.start == spans[0][0] and len(spans) == len(turn.words) for turn, spans in timed)
