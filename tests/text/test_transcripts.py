"""One detection of formats and one reader for each: what they accept, what they find,
and what they refuse.
"""

import json
from dataclasses import replace

import meeteval.io
import pytest

from espnet_ext.errors import InputError
from espnet_ext.text.formats import read_ctm
from espnet_ext.text.transcripts import detect_format, read_segments, read_transcripts
from espnet_ext.text.words import Segment

ANN, BOB = (
    Segment("r1", "ann", ("one", "two"), 0.0, 2.5),
    Segment("r1", "bob", (), 3.0, 4.0),
)
TURN = {
    "session_id": "r1",
    "speaker": "ann",
    "words": "one two",
    "start_time": 0,
    "end_time": 2.5,
}
WHISPER = {
    "text": "one two",
    "segments": [{"start": 0, "end": 2.5, "text": " one two", "speaker": "ann"}],
}
NEMO = {
    "audio_filepath": "audio/u1.wav",
    "duration": 1,
    "text": "one two",
    "pred_text": "one too",
}
TEXTS = {
    "kaldi": "u1 one two\nu2\n",
    "trn": ";; comment\none two (u1)\n (u2)\n",
    "stm": ";; comment\nr1 1 ann 0.0 2.5 <o,f0,female> one two\nr1 1 bob 3 4\n",
    "ctm": "r1 A 0.5 0.4 one 0.9\nr1 A 1.0 0.25 two\n",
    "rttm": (
        "SPEAKER r1 1 0.5 1 <NA> <NA> ann <NA> <NA>\nLEXEME r1 1 0.5 0.4 one lex ann "
        "0.9\n"
    ),
    "seglst": json.dumps([TURN]),
    "whisper": json.dumps(WHISPER),
    "nemo": json.dumps(NEMO)
    + "\n"
    + json.dumps({**NEMO, "audio_filepath": "u2.wav", "text": ""})
    + "\n",
    "srt": (
        "1\n00:00:00,000 --> 00:00:02,500\nann: one\ntwo\n\n2\n00:00:03,000 --> "
        "00:00:04,000\nbob: six\n"
    ),
    "vtt": (
        "WEBVTT\n\n00:00.000 --> 00:02.500\n<v ann>one <i>two</i>\n\n00:03.000 --> "
        "00:04.000\n<v bob>six\n"
    ),
}
SUFFIXES = {"kaldi": ".txt", "seglst": ".json", "whisper": ".json", "nemo": ".json"}


@pytest.mark.parametrize("form", TEXTS)
def test_formats_are_known_by_name_or_content(tmp_path, form):
    for name in ("file", f"file{SUFFIXES.get(form, f'.{form}')}"):
        (tmp_path / name).write_text(TEXTS[form])
        assert detect_format(tmp_path / name) == form
        assert read_transcripts(tmp_path / name).format == form


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("stm", [ANN, BOB]),
        (
            "ctm",
            [
                Segment("r1", "A", ("one",), 0.5, 0.9),
                Segment("r1", "A", ("two",), 1.0, 1.25),
            ],
        ),
        ("rttm", [Segment("r1", "ann", ("one",), 0.5, 0.9)]),
        ("seglst", [ANN]),
        ("srt", [ANN, replace(BOB, words=("six",))]),
    ],
)
def test_what_they_hold(tmp_path, form, expected):
    (tmp_path / f"r1.{form}").write_text(TEXTS[form])
    found = read_segments(tmp_path / f"r1.{form}")
    assert [(s.recording, s.speaker, s.words, s.span) for s in found] == [
        (s.recording, s.speaker, s.words, s.span) for s in expected
    ]


def test_subtitles_of_both_kinds_and_whisper_agree(tmp_path):
    for form in ("srt", "vtt"):
        (tmp_path / f"r1.{form}").write_text(TEXTS[form])
    assert read_segments(tmp_path / "r1.srt") == read_segments(tmp_path / "r1.vtt")
    (tmp_path / "r1.json").write_text(TEXTS["whisper"])
    (turn,) = read_segments(tmp_path / "r1.json")
    assert (turn.recording, turn.speaker, turn.words, turn.span) == (
        "r1",
        "ann",
        ("one", "two"),
        (0.0, 2.5),
    )


def test_texts_of_utterances(tmp_path):
    for form, expected in (
        ("kaldi", "one two"),
        ("trn", "one two"),
        ("nemo", "one two"),
    ):
        (tmp_path / "file").write_text(TEXTS[form])
        assert read_transcripts(tmp_path / "file").plain == {"u1": expected, "u2": ""}
    assert read_transcripts(tmp_path / "file", recognised=True).texts["u1"] == "one too"
    with pytest.raises(InputError, match="nemo does not say who spoke when"):
        read_segments(tmp_path / "file")


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.stm", TEXTS["stm"].replace("<o,f0,female> ", "")), ("a.ctm", TEXTS["ctm"])],
)
def test_as_meeteval_reads(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    theirs = meeteval.io.load(tmp_path / name, parse_float=float).to_seglst()
    assert [
        (turn.recording, turn.start, turn.end, turn.text)
        for turn in read_segments(tmp_path / name)
    ] == [
        (turn["session_id"], turn["start_time"], turn["end_time"], turn["words"])
        for turn in theirs
    ]


def test_times_of_words_of_whisper(tmp_path):
    """Words without times, such as numerals of WhisperX, lie in their segment, between
    their neighbours.
    """
    was = {"word": "was", "start": 11.9, "end": 12.1, "score": 0.8}
    parts = [
        {
            "start": 10.4,
            "end": 12.8,
            "text": "2014 was good",
            "words": [{"word": "2014"}, was, {"word": "good"}],
        },
        {"start": 20, "end": 21, "text": "250", "words": [{"word": "250"}]},
    ]
    (tmp_path / "talk.json").write_text(json.dumps({"segments": parts}))
    first, second = read_segments(tmp_path / "talk.json")
    assert (
        first.times == ((10.4, 11.9), (11.9, 12.1), (12.1, 12.8))
        and first.confidences is None
    )
    assert second.times == ((20.0, 21.0),)


def test_words_of_each_tools_ctm(tmp_path):
    lines = [
        ";; a comment",
        "r 1 0.5 0.25 five",
        "r A .5 1e-2 six 0.5",
        "",
        "s 1 2 0 seven NA lex bob",
        "s 1 2. 1 8 -1.5 lex <NA>",
    ]
    (tmp_path / "x.ctm").write_text("\n".join(lines) + "\n")
    assert list(read_ctm(tmp_path / "x.ctm")) == [
        Segment("r", "", ("five",), 0.5, 0.75, channel="1"),
        Segment("r", "", ("six",), 0.5, 0.51, confidences=(0.5,), channel="A"),
        Segment("s", "bob", ("seven",), 2.0, 2.0, channel="1"),
        Segment("s", "", ("8",), 2.0, 3.0, confidences=(-1.5,), channel="1"),
    ]
    assert [turn.speaker for turn in read_segments(tmp_path / "x.ctm")] == [
        "1",
        "A",
        "bob",
        "1",
    ]


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        *(
            ("a.ctm", f"r 1 0 1 a\n{line}\n", "line 2")
            for line in (
                "r 1 0 1",
                "r 1 0 1 a 0.5 lex bob more",
                "r 1 -0.1 1 a",
                "r 1 0 -1 a",
                "r 1 nan 1 a",
                "r 1 0 1e999 a",
                "r 1 1_0 1 a",
                "r 1 ９ 1 a",
                "r 1 0 1 a high",
            )
        ),
        ("a.rttm", "LEXEME r 1 x 1 A lex a\n", "line 1"),
        ("a.trn", "one two\n", "line 1"),
        ("a.trn", "one (u1)\ntwo (u1)\n", "line 2"),
        ("a.trn", "{ uh / um / @ } yes (u1)\n", "line 1"),
        ("a.stm", "r1 1 ann 2 1 one\n", "line 1"),
        ("a.stm", "r1 1 ann one two\n", "line 1"),
        ("a.stm", "r1 1 ann 0 1 { a / b }\n", "line 1"),
        (
            "a.srt",
            "1\n00:00:02,000 --> 00:00:03,000\none\n\n2\n00:00:04 --> soon\n",
            "line 6",
        ),
        ("a.srt", "no cue\n", "cue"),
        *(
            ("a.json", json.dumps([TURN, TURN | change]), "turn 2")
            for change in (
                {"session_id": ""},
                {"words": ["A"]},
                {"speaker": None},
                {"speaker": ""},
                {"end_time": -1},
                {"end_time": None},
                {"start_time": "soon"},
                {"end_time": float("nan")},
            )
        ),
        ("a.json", "[]", "not a list of turns"),
        ("a.json", "{", "not JSON"),
        ("a.json", "[1]", "entry 1"),
        ("a.json", "", "empty"),
        ("a.json", '{"text": "a"}', "neither"),
        ("a.json", '[{"segments": [{"start": 0, "end": 1}]}]', "entry 1"),
        ("a.json", '[{"offset": 3, "segments": []}]', "entry 1"),
        ("a.json", '{"segments": [{"words": [{"start": 0}]}]}', "neither"),
        ("a.jsonl", '{"audio_filepath": "u.wav"}\n{"audio_filepath": 3}\n', "line 1"),
        ("a.jsonl", '{"audio_filepath": "u.wav", "text": "a"}\n{"a\n', "line 2"),
        ("a.jsonl", '{"recording": "r", "window": 0}\n', "join them first"),
        ("missing.stm", None, "no such file"),
        ("missing.json", None, "no such file"),
        ("missing", None, "no such file"),
    ],
)
def test_refused_with_file_and_place(tmp_path, name, text, place):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=f"{name}.*{place}"):
        read_segments(tmp_path / name)
