"""Lines of words, and the files they are written to; read back by other programs' formats."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meeteval.io import SegLST

from espnet_ext.errors import InputError
from espnet_ext.text.transcript import LONGEST, PAUSE, WIDEST, Line, Word, lines_of, write_transcript

WORDS = (Word("one", 0.08, 0.4, 0.9), Word("<two>", 0.48, 0.8, 0.5), Word("three", 3661.0, 3661.4, 1.0))


def write(folder, kind: str) -> str:
    path = folder / f"a talk.{kind}"
    write_transcript(path, {path.stem: list(lines_of(WORDS))}, kind)
    return path.read_text()


def test_formats(tmp_path):
    assert write(tmp_path, "txt") == "one <two>\nthree\n"
    assert write(tmp_path, "srt") == (
        "1\n00:00:00,080 --> 00:00:01,300\none <two>\n\n2\n01:01:01,000 --> 01:01:02,000\nthree\n"
    )
    assert write(tmp_path, "vtt") == (
        "WEBVTT\n\n00:00:00.080 --> 00:00:01.300\none &lt;two&gt;\n\n01:01:01.000 --> 01:01:02.000\nthree\n"
    )
    assert write(tmp_path, "ctm").splitlines()[1] == "a_talk 1 0.480 0.320 <two> 0.500"
    content = json.loads(write(tmp_path, "json"))
    assert content["text"] == "one <two> three" and content["segments"][1]["start"] == 3661.0
    assert content["segments"][0]["words"][0] == {"text": "one", "start": 0.08, "end": 0.4, "confidence": 0.9}
    with pytest.raises(InputError, match="no format 'doc'"):
        write(tmp_path, "doc")


def test_several_recordings_and_speakers(tmp_path):
    """SegLST and CTM, read by MeetEval."""
    ann, bob = Line((Word("one", 0.5, 0.9, 0.25),), "ann"), Line((Word("two", 1.0, 1.5), Word("six", 1.5, 2.0)), "bob")
    recordings = {"a": [ann, bob], "b c": [ann]}
    write_transcript(tmp_path / "x.json", recordings, "seglst")
    read = SegLST(json.loads((tmp_path / "x.json").read_text()))
    assert [(item["session_id"], item["speaker"], item["words"]) for item in read] == [
        ("a", "ann", "one"), ("a", "bob", "two six"), ("b_c", "ann", "one"),
    ]  # fmt: skip
    assert (float(read[1]["start_time"]), float(read[1]["end_time"])) == (1.0, 2.0)
    write_transcript(tmp_path / "x.ctm", recordings, "ctm")
    words = [line.split() for line in (tmp_path / "x.ctm").read_text().splitlines()]
    assert words[0] == ["a", "1", "0.500", "0.400", "one", "0.250", "lex", "ann"] and len(words) == 4
    with pytest.raises(InputError, match="srt holds one recording, not 2"):
        write_transcript(tmp_path / "x.srt", recordings, "srt")


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=30), st.floats(0, 3), st.floats(0.05, 2)), max_size=60))
def test_lines_hold_all_words_and_are_short(drawn):
    words, time = [], 0.0
    for text, pause, length in drawn:
        words.append(Word(text, time + pause, time + pause + length, 1.0))
        time = words[-1].end
    lines = list(lines_of(words))
    assert [word for line in lines for word in line.words] == words
    for line in lines:
        assert len(line.words) == 1 or (len(line.text) <= WIDEST and line.end - line.start <= LONGEST)
        gaps = [b.start - a.end for a, b in zip(line.words, line.words[1:], strict=False)]
        assert all(gap < PAUSE for gap in gaps)
    for line, following in zip(lines, lines[1:], strict=False):  # no line could have gone on
        longer = Line((*line.words, following.words[0]))
        too_wide = len(longer.text) > WIDEST
        assert following.start - line.end >= PAUSE or longer.end - longer.start > LONGEST or too_wide


def test_subtitles_can_be_read(tmp_path):
    """A word that a model has heard for a moment stays until the next line; long lines are broken."""
    words = [Word("yes", 10.0, 10.08), Word("no", 10.9, 10.98)]
    long = [Word(f"word{number}", 20.0 + number / 4, 20.1 + number / 4) for number in range(10)]
    lines = [*(Line((word,)) for word in words), Line(tuple(long)), Line((Word("over", 21.0, 21.5),), "Ada")]
    write_transcript(tmp_path / "a.srt", {"a": lines}, "srt")
    assert (tmp_path / "a.srt").read_text().split("\n\n") == [
        "1\n00:00:10,000 --> 00:00:10,900\nyes",
        "2\n00:00:10,900 --> 00:00:11,900\nno",
        "3\n00:00:20,000 --> 00:00:22,350\nword0 word1 word2 word3 word4\nword5 word6 word7 word8 word9",
        "4\n00:00:21,000 --> 00:00:22,000\nAda: over\n",
    ]
