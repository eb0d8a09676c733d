"""``alignment.txt`` read back: the words and counts that were written."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.multitalker.turns import Turn
from espnet_ext.scoring.aligned_text import Aligned, parse_alignment, read_alignment
from espnet_ext.scoring.error_rate import ErrorRate, align
from espnet_ext.scoring.mixed import score_mixed_texts
from espnet_ext.scoring.report import alignment_blocks, summarise, write_reports
from espnet_ext.scoring.score import score_texts
from espnet_ext.scoring.speaker_attributed import score_speakers, summarise_speakers, write_speaker_reports

# Asterisks are words here too, though a gap looks like them; so are wide, combining and zero-width characters.
WORDS = st.sampled_from(["a", "b", "*", "**", "long-word", "我", "é", "e\u0301", "\u200d", "S", "REF:"])
TEXT = st.lists(WORDS, max_size=8)


def write(folder, reference, hypothesis, unit="word"):
    score = score_texts(reference, hypothesis, unit=unit)
    write_reports(folder, score, summarise(score, replicas=10))
    return list(read_alignment(folder / "alignment.txt"))


@given(TEXT.filter(bool), TEXT)
def test_words_come_back(reference, hypothesis):
    text = "".join(alignment_blocks(score_texts({"u": " ".join(reference)}, {"u": " ".join(hypothesis)})))
    (block,) = parse_alignment(StringIO(text))
    assert list(block.pairs) == align(reference, hypothesis)


def test_an_utterance(tmp_path):
    blocks = write(tmp_path, {"u1": "the cat down", "u2": "yes"}, {"u1": "the hat sat", "u2": ""})
    assert blocks == [
        Aligned("u1", None, ErrorRate(1, 2, 0, 0), (("the", "the"), ("cat", "hat"), ("down", "sat"))),
        Aligned("u2", None, ErrorRate(0, 0, 1, 0), (("yes", None),)),
    ]


def test_characters_and_mixed_text(tmp_path):
    (block,) = write(tmp_path / "char", {"u": "a bc"}, {"u": "ab"}, unit="char")
    assert [left for left, _ in block.pairs if left] == ["a", "\u2423", "b", "c"]
    score = score_mixed_texts({"u": "我想 go home"}, {"u": "我 go hum 吧"})
    write_reports(tmp_path / "mixed", score, summarise(score, replicas=10))
    (block,) = read_alignment(tmp_path / "mixed" / "alignment.txt")
    assert block.pairs == (("我", "我"), ("想", None), ("go", "go"), ("home", "hum"), (None, "吧"))


def test_speakers_of_a_recording(tmp_path):
    def turn(speaker, words):
        return Turn("r1", speaker, tuple(words.split()), 0.0, 1.0)

    result = score_speakers([turn("ann", "one two"), turn("bob", "three")], [turn("ann", "one"), turn("eve", "x")])
    write_speaker_reports(tmp_path, result, summarise_speakers(result, replicas=10))
    blocks = {block.speaker: block for block in read_alignment(tmp_path / "alignment.txt")}
    assert list(blocks) == ["ann", "bob", "eve"] and {block.key for block in blocks.values()} == {"r1"}
    assert blocks["ann"].pairs == (("one", "one"), ("two", None))
    assert blocks["eve"].counts == ErrorRate(0, 0, 0, 1)


def test_too_long_to_align(tmp_path):
    path = tmp_path / "alignment.txt"
    path.write_text("id: (u)\nScores: (#C #S #D #I) 3 1 0 2\n(too long to align: 4 x 6)\n\n", encoding="utf-8")
    assert list(read_alignment(path)) == [Aligned("u", None, ErrorRate(3, 1, 0, 2), ())]


GOOD = "id: (u)\nScores: (#C #S #D #I) 1 1 0 0\nREF:  a b\nHYP:  a c\nEVAL:   S\n\n"


@pytest.mark.parametrize(
    "bad",
    [
        GOOD.replace("id: (u)", "utterance u"),
        GOOD.replace("1 1 0 0", "2 0 0 0"),
        GOOD.replace("HYP:  a c", "HYP:  a"),
        GOOD.replace("HYP:  a c\n", ""),
        GOOD.replace("  S\n", "  D\n"),
        GOOD.replace("  S\n", "  X\n"),
        GOOD.removesuffix("\n"),
        GOOD[:40],
    ],
)
def test_what_scoring_did_not_write_is_refused(tmp_path, bad):
    path = tmp_path / "alignment.txt"
    path.write_text(GOOD + bad, encoding="utf-8")
    with pytest.raises(InputError, match=r"alignment\.txt: (line 7|breaks off)"):
        list(read_alignment(path))
