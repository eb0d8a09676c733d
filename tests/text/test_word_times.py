"""Word times: what is refused, the file with its table, and the text of a chunk."""

import itertools

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.audio.recordings import RecordingAudio
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.longform.decoding.decode import ZeroedAudio
from espnet_ext.text import word_times

WORDS = [
    word_times.Word("The", 0.1, 0.3),
    word_times.Word("cat", 0.3, 0.9),
    word_times.Word("sat.", 1.4, 2.0),
]


@pytest.mark.parametrize(
    "words, fault",
    [
        (WORDS, None),
        (
            [word_times.Word("a", 0.0, 0.5), word_times.Word("b", 0.4, 0.9)],
            None,
        ),  # rounding to 0.1 s
        ([word_times.Word("a", 0.0, 0.5), word_times.Word("b", 0.3, 0.9)], "overlaps"),
        (
            [word_times.Word("a", 1.0, 1.1), word_times.Word("b", 0.9, 1.4)],
            "decreasing",
        ),
        ([word_times.Word("a", 1.0, 0.5)], "ends before it begins"),
        ([word_times.Word("a", float("nan"), 0.5)], "has an impossible time"),
        ([word_times.Word("a", -1.0, 0.5)], "has an impossible time"),
        (
            [word_times.Word(word_times.DROPPED, -1.0, 0.5)],
            "word 1, unknown at -1 s, has an impossible time",
        ),
        ([word_times.Word("a", 8.0, 9.0)], "beyond the recording's end"),
    ],
)
def test_faults_name_the_word(words, fault):
    found = word_times.find_word_fault(words, seconds=5.0)
    assert (found is None) if fault is None else (fault in found and "word " in found)


def test_written_and_read(tmp_path):
    recordings = {
        "r2": WORDS,
        "r01": [word_times.Word("naïve", 12.3, 12.7)],
        "ü": [],
        "r3": WORDS[:1],
    }
    word_times.write_word_times(tmp_path / "words", recordings.items())
    table = read_table(tmp_path / "words.scp")
    for name, words in recordings.items():
        found = word_times.read_word_times(name, table[name])
        assert len(found) == len(words)
        for read, word in zip(found, words, strict=True):
            assert read.text == word.text
            assert (read.start, read.end) == pytest.approx((word.start, word.end))


def test_a_table_that_does_not_fit(tmp_path):
    word_times.write_word_times(tmp_path / "words", [("r2", WORDS), ("r1", WORDS)])
    (tmp_path / "short").write_bytes((tmp_path / "words.words").read_bytes()[:30])
    places = (
        "words.words:0",
        "words.words:99999",
        "words.words:-4",
        "words.words:x",
        "none.words:0",
    )
    for name, place in (*(("r1", place) for place in places), ("r2", "short:0")):
        with pytest.raises(InputError, match=f"word times of {name} cannot be read"):
            word_times.read_word_times(name, f"{tmp_path}/{place}")
    assert len(word_times.read_word_times("r2", f"{tmp_path}/words.words:0")) == 3


def test_words_that_straddle_a_cut_are_in_no_chunk():
    cuts = [0.0, 0.5, 1.4, 2.0]
    words = word_times.RecordingWords(WORDS)
    assert [
        words.join_between(start, end) for start, end in itertools.pairwise(cuts)
    ] == [
        "The",
        "",
        "sat.",
    ]
    assert (
        words.join_between(0.0, 2.0) == "The cat sat."
        and word_times.RecordingWords([]).join_between(0, 9) == ""
    )


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=30),
    st.integers(0, 300),
    st.integers(1, 200),
)
def test_text_and_regions_are_those_of_all_words_looked_at(drawn, start, length):
    """In tenths of a second, with regions among the words, against a look at each."""
    words, time = [], 36_000
    for number, (pause, duration) in enumerate(drawn):
        text = "<dropped>" if number % 5 == 4 else f"wörd{number}"
        words.append(
            word_times.Word(text, (time + pause) / 10, (time + pause + duration) / 10)
        )
        time += pause + duration
    first, last = 3600 + start / 10, 3600 + (start + length) / 10
    packed = word_times.RecordingWords(words)
    inside = [
        word.text
        for word in words
        if word.start >= first - 1e-6 and word.end <= last + 1e-6
    ]
    assert packed.join_between(first, last) == " ".join(
        text for text in inside if text != "<dropped>"
    )
    regions = [
        word
        for word in words
        if word.text == "<dropped>" and word.start < last and word.end > first
    ]
    expected = [(max(word.start, first), min(word.end, last)) for word in regions]
    found = [
        pair for pair in packed.find_dropped(first, last) if pair[1] - pair[0] > 0.01
    ]
    assert np.allclose(
        found, [pair for pair in expected if pair[1] - pair[0] > 0.01], atol=1e-3
    )


def test_overlapping_words_become_a_region():
    words = [*WORDS, word_times.Word("back", 0.5, 1.6), word_times.Word("on", 2.0, 2.5)]
    assert [word.text for word in word_times.drop_overlaps(words)] == [
        "The",
        "<dropped>",
        "on",
    ]
    assert (
        word_times.find_word_fault(word_times.drop_overlaps(words), seconds=5.0) is None
    )
    assert word_times.drop_overlaps(WORDS) == WORDS


def test_regions_are_silenced(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.full(32000, 0.5), 16000)
    word_times.write_regions(
        tmp_path / "zeroed", {"a": [(0.25, 0.5), (1.5, 9.0)], "b": [(0.0, 1.0)]}
    )
    regions = word_times.read_regions(tmp_path / "zeroed")
    assert regions == {"a": [(0.25, 0.5), (1.5, 9.0)], "b": [(0.0, 1.0)]}
    with RecordingAudio("a", tmp_path / "a.wav") as file:
        audio = ZeroedAudio(file, regions["a"])
        silent = (
            np.concatenate([audio.read(start, 1000) for start in range(0, 32000, 1000)])
            == 0
        )
    assert silent[4000:8000].all() and silent[24000:].all()
    assert not silent[:4000].any() and not silent[8000:24000].any()


@pytest.mark.parametrize("line", ["a 1.0", "a 2.0 1.0", "a x y"])
def test_bad_regions(tmp_path, line):
    (tmp_path / "zeroed").write_text(f"a 0 1\n{line}\n")
    with pytest.raises(InputError, match="line 2"):
        word_times.read_regions(tmp_path / "zeroed")
