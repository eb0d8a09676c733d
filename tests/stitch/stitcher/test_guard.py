"""The guard of stitchers: which transcripts it keeps, and how its limit is tuned."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.stitch.stitcher.guard import (
    find_best_limit,
    guard_merge,
    guard_transcripts,
    read_guard,
    tune_guard,
)
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.words import Segment, Word
from espnet_ext.text.writing import write_hypotheses, write_segments

WINDOW = Segment(
    "r",
    "a",
    ("A", "B", "C", "D"),
    0.0,
    16.0,
    ((1, 2), (2, 3), (3, 4), (4, 5)),
    window=0,
)


def test_a_transcript_that_is_near_stays_and_one_that_is_far_does_not():
    def stitched(text: str):
        return lambda windows: tuple(Word(word, 0, 1) for word in text.split())

    def texts(text: str, limit: float) -> str:
        return " ".join(
            word.text for word in guard_merge(stitched(text), limit)([WINDOW])
        )

    assert texts("A X C D", 0.25) == "A X C D"
    assert texts("A X X D", 0.25) == "A B C D"
    assert texts("A", 0.25) == "A B C D"
    assert texts("A", 1.0) == "A"


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.2, 0.5, 1.0]), st.integers(-3, 3)), max_size=5
    )
)
def test_no_limit_makes_fewer_errors_than_the_tuned_one_and_it_is_the_lowest(
    candidates,
):
    def gain(limit: float) -> int:
        return sum(fewer for distance, fewer in candidates if distance <= limit)

    limits = [0.0, *(distance for distance, _ in candidates)]
    best = max(map(gain, limits))
    assert find_best_limit(candidates) == min(
        limit for limit in limits if gain(limit) == best
    )


def test_a_limit_is_tuned_on_sets_and_read_again(tmp_path):
    """One stitcher's transcript corrects a word, the other loses all.

    The first is kept, the second is not.
    """
    far = Segment("s", "a", ("A", "B", "C", "D"), 0.0, 16.0, WINDOW.times, window=0)
    write_hypotheses(tmp_path / "heard.jsonl", [WINDOW, far])
    said = [
        Segment("r", "a", tuple("AXCD"), 0.0, 5.0),
        Segment("s", "a", tuple("ABCD"), 0.0, 5.0),
    ]
    write_segments(tmp_path / "said.json", said)
    write_segments(
        tmp_path / "made.json",
        [Segment("r", "a", tuple("AXCD")), Segment("s", "a", ("A",))],
    )
    files = [[tmp_path / name] for name in ("heard.jsonl", "made.json", "said.json")]
    tune_guard(*files, tmp_path / "guard.json")
    tuned = {"edits_per_word": 0.25, "transcripts": 2, "stitched": 1}
    assert json.loads((tmp_path / "guard.json").read_text()) == tuned
    assert read_guard(tmp_path) == 0.25
    guard_transcripts(*files[:2], [tmp_path / "guarded.json"], tmp_path)
    guarded = {
        turn.recording: "".join(turn.words)
        for turn in read_segments(tmp_path / "guarded.json")
    }
    assert guarded == {"r": "AXCD", "s": "ABCD"}


@pytest.mark.parametrize(
    "content", ["{", "{}", '{"edits_per_word": -1}', '{"edits_per_word": "many"}']
)
def test_a_guard_that_is_none(tmp_path, content):
    assert read_guard(tmp_path) is None
    (tmp_path / "guard.json").write_text(content)
    with pytest.raises(InputError, match=r"guard.json: .*delete the file"):
        read_guard(tmp_path)
