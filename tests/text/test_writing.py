"""Transcripts are written as other programs read them, and come back through our own
readers.
"""

import json

import meeteval.io
import pytest
from meeteval.io import SegLST

from espnet_ext.errors import InputError
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.words import Segment, Word, split_into_lines
from espnet_ext.text.writing import write_segments, write_transcript

WORDS = (
    Word("one", 0.08, 0.4, 0.9),
    Word("<two>", 0.48, 0.8, 0.5),
    Word("three", 3661.0, 3661.4, 1.0),
)


def write(folder, kind: str) -> str:
    path = folder / f"a talk.{kind}"
    write_transcript(path, {path.stem: list(split_into_lines(WORDS))}, kind)
    return path.read_text()


def test_formats(tmp_path):
    assert write(tmp_path, "txt") == "one <two>\nthree\n"
    assert write(tmp_path, "srt") == (
        "1\n00:00:00,080 --> 00:00:01,300\none <two>\n\n2\n01:01:01,000 --> "
        "01:01:02,000\nthree\n"
    )
    assert write(tmp_path, "vtt") == (
        "WEBVTT\n\n00:00:00.080 --> 00:00:01.300\none &lt;two&gt;\n\n01:01:01.000 "
        "--> 01:01:02.000\nthree\n"
    )
    assert write(tmp_path, "ctm").splitlines()[1] == "a_talk 1 0.480 0.320 <two> 0.500"
    content = json.loads(write(tmp_path, "json"))
    assert (
        content["text"] == "one <two> three"
        and content["segments"][1]["start"] == 3661.0
    )
    assert content["segments"][0]["words"][0] == {
        "text": "one",
        "start": 0.08,
        "end": 0.4,
        "confidence": 0.9,
    }
    with pytest.raises(InputError, match="no format 'doc'"):
        write(tmp_path, "doc")


@pytest.mark.parametrize("kind", ["json", "seglst", "ctm", "srt", "vtt"])
def test_what_is_written_is_read_again(tmp_path, kind):
    """Of each speaker in the order of time; with times as exact as the format's."""
    lines = [
        Segment.from_words([Word("one", 0.5, 0.875), Word("two", 1.0, 1.25)], "ann"),
        Segment.from_words([WORDS[2]], "bob"),
    ]
    path = tmp_path / f"talk.{kind}"
    write_transcript(path, {"talk": lines}, kind)
    found = read_segments(path)
    assert {turn.recording for turn in found} == {"talk"} and {
        turn.speaker for turn in found
    } == {"ann", "bob"}
    assert [word for turn in found for word in turn.words] == ["one", "two", "three"]
    assert (found[0].start, found[-1].start) == (0.5, 3661.0)
    if kind == "json":
        assert found[0].times == lines[0].times and found[0].confidences == (1.0, 1.0)


def test_several_recordings_and_speakers(tmp_path):
    """SegLST and CTM, read by MeetEval."""
    ann = Segment.from_words((Word("one", 0.5, 0.9, 0.25),), "ann")
    bob = Segment.from_words((Word("two", 1.0, 1.5), Word("six", 1.5, 2.0)), "bob")
    recordings = {"a": [ann, bob], "b c": [ann]}
    write_transcript(tmp_path / "x.json", recordings, "seglst")
    read = SegLST(json.loads((tmp_path / "x.json").read_text()))
    assert [(item["session_id"], item["speaker"], item["words"]) for item in read] == [
        ("a", "ann", "one"),
        ("a", "bob", "two six"),
        ("b_c", "ann", "one"),
    ]
    assert (float(read[1]["start_time"]), float(read[1]["end_time"])) == (1.0, 2.0)
    write_transcript(tmp_path / "x.ctm", recordings, "ctm")
    words = [line.split() for line in (tmp_path / "x.ctm").read_text().splitlines()]
    assert (
        words[0] == ["a", "1", "0.500", "0.400", "one", "0.250", "lex", "ann"]
        and len(words) == 4
    )
    with pytest.raises(InputError, match="srt holds one recording, not 2"):
        write_transcript(tmp_path / "x.srt", recordings, "srt")


def test_subtitles_can_be_read(tmp_path):
    """A word that a model recognises in a moment stays until the next line; long lines
    are broken.
    """
    long = [
        Word(f"word{number}", 20.0 + number / 4, 20.1 + number / 4)
        for number in range(10)
    ]
    parts = [[Word("yes", 10.0, 10.08)], [Word("no", 10.9, 10.98)], long]
    lines = [
        *map(Segment.from_words, parts),
        Segment.from_words([Word("over", 21.0, 21.5)], "Ada"),
    ]
    write_transcript(tmp_path / "a.srt", {"a": lines}, "srt")
    assert (tmp_path / "a.srt").read_text().split("\n\n") == [
        "1\n00:00:10,000 --> 00:00:10,900\nyes",
        "2\n00:00:10,900 --> 00:00:11,900\nno",
        "3\n00:00:20,000 --> 00:00:22,350\nword0 word1 word2 word3 word4\nword5 "
        "word6 word7 word8 word9",
        "4\n00:00:21,000 --> 00:00:22,000\n[Ada]: over\n",
    ]


def test_turns_come_back_in_order_and_meeteval_takes_them(tmp_path):
    turns = [
        Segment("r", "b", ("TWO", "你好"), 2.5, 4.0),
        Segment("r", "a", ("ONE",), 0.0, 3.0),
    ]
    rest = [Segment("s", "a", ("NO", "TIME")), Segment("t", "", ())]
    write_segments(tmp_path / "turns.json", [*turns, *rest])
    assert read_segments(tmp_path / "turns.json") == [*turns[::-1], *rest]
    write_segments(tmp_path / "turns.json", turns)
    loaded = meeteval.io.asseglst(json.loads((tmp_path / "turns.json").read_text()))
    assert [
        (turn["session_id"], turn["speaker"], turn["words"], float(turn["start_time"]))
        for turn in loaded
    ] == [
        ("r", "a", "ONE", 0.0),
        ("r", "b", "TWO 你好", 2.5),
    ]
    write_segments(tmp_path / "turns.json", [])
    assert read_segments(tmp_path / "turns.json", may_be_empty=True) == []


@pytest.mark.parametrize(("recording", "speaker"), [(";;talk", "ann"), ("talk", "NA")])
def test_names_that_a_ctm_cannot_hold_are_refused(tmp_path, recording, speaker):
    path = tmp_path / "talk.ctm"
    with pytest.raises(InputError, match=recording if speaker == "ann" else "'NA'"):
        write_transcript(path, {recording: [Segment.from_words(WORDS, speaker)]}, "ctm")
    assert not path.exists()
