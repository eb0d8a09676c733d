"""Long recordings in parts: what is cut, and that nothing is lost or doubled."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import text_windows
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.stitch.stitcher.long_recordings import (
    Longest,
    cut_at_silence,
    cut_by_half,
    find_longest,
    merge_parts,
)
from espnet_ext.synthetic.english import build_english_grammar
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment


def windows(*texts: str, overlap: float = 0.5) -> tuple[Segment, ...]:
    return tuple(text_windows.windows(*texts, overlap=overlap))


def texts(stretches) -> list[list[str]]:
    return [[" ".join(item.words) for item in stretch] for stretch in stretches]


def test_cuts_lie_behind_silence_and_are_few():
    some = windows("A", "", "B", "", "C", "D", "", "", "")
    assert texts(cut_at_silence(some, Longest(4, 99))) == [
        ["A", "", "B", ""],
        ["C", "D", "", ""],
    ]
    speaks_on = windows("A", "B", "C", "", "D")
    assert texts(cut_at_silence(speaks_on, Longest(2, 99))) == [
        ["A", "B", "C", ""],
        ["D"],
    ]
    assert cut_at_silence(windows("", "", ""), Longest(1, 1)) == []


def list_texts(windows: Sequence[Segment]) -> list[str]:
    texts = []
    for item in windows:
        texts += item.words
    return texts


TEXTS = st.lists(
    st.lists(st.sampled_from("ABC"), max_size=3).map(" ".join), min_size=1, max_size=12
)


@given(TEXTS, st.integers(1, 8), st.integers(1, 16))
@settings(max_examples=80)
def test_stretches_hold_all_words_and_are_no_longer_than_they_must_be(
    spoken, most, words
):
    some = windows(*spoken)
    longest = Longest(most, words)
    stretches = cut_at_silence(some, longest)
    kept = []
    for stretch in stretches:
        kept += list_texts(stretch)
    assert kept == list_texts(some)
    for stretch in stretches:
        assert longest.holds(stretch) or all(item.words for item in stretch[:-1])


@given(TEXTS, st.integers(1, 8), st.integers(1, 30), st.sampled_from([0.0, 0.25, 0.5]))
@settings(max_examples=80)
def test_parts_cover_all_windows_and_share_none_with_the_next_but_one(
    spoken, most, words, overlap
):
    some = windows(*spoken, overlap=overlap)
    parts = cut_by_half(some, Longest(most, words))
    assert parts[0][0] == some[0] and parts[-1][-1] == some[-1]
    for left, right in zip(parts, parts[1:], strict=False):
        assert left[0].window < right[0].window <= left[-1].window + 1
    for left, right in zip(parts, parts[2:], strict=False):
        assert left[-1].end <= right[0].start + 1e-6


ENGLISH = re.findall(
    r"[a-z]+",
    (Path(__file__).parents[3] / "LICENSE").read_text(encoding="utf-8").lower(),
)[:600]
GRAMMAR = [
    word
    for number in range(60)
    for word in build_english_grammar()
    .draw_sentence(random.Random(number % 25))
    .split()
]


@pytest.mark.parametrize(
    ("text", "longest", "overlap", "timed"),
    [
        (ENGLISH, Longest(5, 10_000), 0.5, True),
        (ENGLISH, Longest(1000, 300), 0.25, False),
        (ENGLISH, None, 0.25, True),
        (GRAMMAR, Longest(4, 10_000), 0.25, True),
        (GRAMMAR, Longest(1000, 300), 0.5, True),
        (GRAMMAR, None, 0.5, False),
        (GRAMMAR, Longest(5, 10_000), 0.5, False),
    ],
)
def test_parts_without_errors_are_merged_into_what_was_said(
    text, longest, overlap, timed
):
    """4 words a second, with words and phrases that come back.

    Parts are rewritten without an error.
    """
    for seconds in (70.0, 75.0, 80.0):
        said = text[: int(4 * seconds)]
        some = []
        for item in Windowing(16.0, overlap).cut("r", seconds):
            places = range(int(4 * item.start), int(4 * item.end))
            words = tuple(said[at] for at in places)
            times = tuple((at / 4, at / 4 + 0.25) for at in places)
            heard = replace(item, speaker="a", words=words)
            some.append(replace(heard, times=times if timed else None))
        parts = cut_by_half(tuple(some), longest or Longest(2 * len(some) // 3, 10_000))
        assert len(parts) > 1
        rewritten = []
        for part in parts:
            first = int(4 * part[0].start)
            last = int(4 * part[-1].end)
            rewritten.append((part, tuple(said[first:last])))
        merged = merge_parts(rewritten)
        assert [word.text for word in merged] == said


def test_errors_at_the_ends_of_parts_are_corrected_by_the_parts_beside():
    text = [f"W{number}" for number in range(360)]
    some = tuple(
        Segment(
            "r",
            "a",
            tuple(text[int(4 * item.start) : int(4 * item.end)]),
            item.start,
            item.end,
            window=item.window,
        )
        for item in Windowing(16.0, 0.5).cut("r", 90.0)
    )
    parts = []
    for part in cut_by_half(some, Longest(5, 10_000)):
        words = text[int(4 * part[0].start) : int(4 * part[-1].end)]
        parts.append(
            (part, (*(["X", "Y"] if parts else []), *words[2 * bool(parts) : -2], "Z"))
        )
    assert [word.text for word in merge_parts(parts)] == [*text[:-2], "Z"]


def test_the_length_of_nearly_all_examples():
    examples = [windows(*["A"] * count) for count in range(1, 101)]
    assert find_longest(examples) == Longest(99, 198)
    assert find_longest(examples[:1]) == Longest(1, 2)
    with pytest.raises(ValueError, match="0 windows"):
        Longest(0, 5)
