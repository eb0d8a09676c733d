"""Transcripts of windows without a trained stitcher, and the times of their words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_windows import windows

from espnet_ext.errors import InputError
from espnet_ext.stitch.stitcher.long_recordings import time_stitched_words
from espnet_ext.stitch.stitcher.transcripts import MERGES, make_whole_turns, merge_all
from espnet_ext.text.window_hypotheses import group_by_speaker
from espnet_ext.text.words import Segment, Word


def window(index: int, words: str, *times: tuple[float, float]) -> Segment:
    return Segment(
        "r",
        "a",
        tuple(words.split()),
        8.0 * index,
        8.0 * index + 16,
        times=times or None,
        window=index,
    )


def merged(method: str, heard: list[Segment]) -> list[Segment]:
    return make_whole_turns(merge_all(group_by_speaker(heard), MERGES[method]))


def test_merging():
    assert merged("overlapping", windows("A B C D X", "C D E F G")) == [
        Segment("r", "a", tuple("ABCDEFG"))
    ]
    assert merged("block", windows("A B", "", "C", overlap=0.0)) == [
        Segment("r", "a", ("A", "B", "C"))
    ]
    assert merged("no", [Segment("r", "a", ("A", "B"), 0.0, 60.0, window=0)]) == [
        Segment("r", "a", ("A", "B"))
    ]
    silent = [
        Segment("r", "", (), 8.0 * index, 8.0 * index + 16, window=index)
        for index in range(3)
    ]
    assert merged("overlapping", silent) == [Segment("r", "", ())]


@pytest.mark.parametrize(
    ("method", "message"),
    [("block", "windows 0 and 1 overlap"), ("no", "r has 2 windows")],
)
def test_windows_that_a_method_cannot_merge(method, message):
    with pytest.raises(InputError, match=message):
        merged(method, windows("A B", "B C"))


HEARD = (
    window(0, "A B C", (1, 1.5), (9, 9.5), (15, 15.2)),
    window(1, "B C D", (9.1, 9.4), (15, 15.3), (20, 20.5)),
)


def test_words_have_the_times_of_those_they_are_aligned_with():
    times = time_stitched_words(["A", "B", "C", "D"], HEARD)
    assert [word.start for word in times] == pytest.approx([1, 9, 15, 20], abs=0.2)
    # a word that no window has begins between its neighbours
    word = time_stitched_words(["A", "X", "B", "C", "D"], HEARD)[1]
    assert word.text == "X" and 1 <= word.start <= 9.1 and word.start <= word.end


def test_without_times_words_share_their_window():
    assert time_stitched_words(["A", "B"], [window(0, "A B")]) == (
        Word("A", 0, 8),
        Word("B", 8, 16),
    )
    assert time_stitched_words([], [window(0, "")]) == ()
    assert time_stitched_words(["A"], [window(0, "")]) == (Word("A", 0.0, 0.0),)


@settings(max_examples=50)
@given(st.lists(st.sampled_from("ABCX"), max_size=8))
def test_starts_never_fall(words):
    times = time_stitched_words(words, HEARD)
    assert [word.text for word in times] == words
    assert all(word.start <= word.end for word in times)
    assert [word.start for word in times] == sorted(word.start for word in times)
