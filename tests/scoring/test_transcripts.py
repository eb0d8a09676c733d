"""Readers of other toolkits' transcripts: what they accept, what they find out, and what they refuse."""

import meeteval.io
import pytest

from espnet_ext.errors import InputError
from espnet_ext.scoring.recordings import recorded_turns
from espnet_ext.scoring.transcripts import detect_format, read_transcripts
from espnet_ext.text.turns import Turn

KALDI = "u1 one two\nu2\n"
TRN = ";; comment\none two (u1)\n (u2)\n"
STM = ";; comment\nr1 1 ann 0.0 2.5 <o,f0,female> one two\nr1 1 bob 3 4\n"
CTM = "r1 A 0.5 0.4 one 0.9\nr1 A 1.0 0.25 two\n"
SEGLST = '[{"session_id": "r1", "speaker": "ann", "words": "one two", "start_time": 0, "end_time": 2.5}]\n'


@pytest.mark.parametrize(
    ("text", "form"), [(KALDI, "kaldi"), (TRN, "trn"), (STM, "stm"), (CTM, "ctm"), (SEGLST, "seglst")]
)
def test_formats_are_known_by_name_or_content(tmp_path, text, form):
    (tmp_path / "file").write_text(text)
    assert detect_format(tmp_path / "file") == form
    assert read_transcripts(tmp_path / "file").format == form
    suffix = {"kaldi": ".txt", "seglst": ".json"}.get(form, f".{form}")
    (tmp_path / f"file{suffix}").write_text(text)
    assert detect_format(tmp_path / f"file{suffix}") == form


def test_kaldi_text_that_looks_a_little_like_another(tmp_path):
    (tmp_path / "text").write_text("u1 one 2 3 four\nu2 [noise] (laughs)\n")
    assert read_transcripts(tmp_path / "text").texts == {"u1": "one 2 3 four", "u2": "[noise] (laughs)"}


@pytest.mark.parametrize(("name", "text"), [("a.stm", STM.replace("<o,f0,female> ", "")), ("a.ctm", CTM)])
def test_as_meeteval_reads(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    theirs = meeteval.io.load(tmp_path / name, parse_float=float).to_seglst()
    ours = read_transcripts(tmp_path / name).turns
    assert [(turn.recording, turn.start, turn.end, " ".join(turn.words)) for turn in ours] == [
        (turn["session_id"], turn["start_time"], turn["end_time"], turn["words"]) for turn in theirs
    ]


def test_what_they_hold(tmp_path):
    for name, text in (("a.trn", TRN), ("a.stm", STM), ("a.ctm", CTM), ("a.json", SEGLST)):
        (tmp_path / name).write_text(text)
    assert read_transcripts(tmp_path / "a.trn").texts == {"u1": "one two", "u2": ""}
    stm = read_transcripts(tmp_path / "a.stm")
    assert stm.turns == (Turn("r1", "ann", ("one", "two"), 0.0, 2.5), Turn("r1", "bob", (), 3.0, 4.0))
    ctm = read_transcripts(tmp_path / "a.ctm")
    assert ctm.turns == (Turn("r1", "A", ("one",), 0.5, 0.9), Turn("r1", "A", ("two",), 1.0, 1.25))
    assert ctm.channels == ("A", "A")
    assert read_transcripts(tmp_path / "a.json").turns == (Turn("r1", "ann", ("one", "two"), 0.0, 2.5),)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.trn", "one two\n", "line 1 does not end in an id"),
        ("a.trn", "one (u1)\ntwo (u1)\n", "line 2: id u1 comes twice"),
        ("a.trn", "{ one / two } (u1)\n", "line 1 has alternatives"),
        ("a.stm", "r1 1 ann 0.0\n", "line 1 is not `file channel speaker start end words`"),
        ("a.stm", "r1 1 ann 3.0 2.0 one\n", "line 1: from 3.0 to 2.0 s is not a time span"),
        ("a.ctm", "r1 1 0.0 one\n", r"line 1 is not `recording channel start duration word"),
        ("a.ctm", "r1 1 0.0 -1 one\n", "line 1 is not `rec"),
        ("a.ctm", "r1 1 0.0 * <ALT_BEGIN>\n", "line 1 is not `rec"),
        ("a.txt", "u1 a\nu1 b\n", "id u1 comes twice"),
        ("a.stm", "", "empty file"),
        ("a.srt", "1\n00:00:00,000 --> 00:00:01,000\none\n", "subtitles cannot be scored: give"),
    ],
)
def test_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_transcripts(tmp_path / name)


def test_stretches_that_are_not_scored(tmp_path):
    (tmp_path / "ref.stm").write_text(
        "r1 A ann 0 4 one two\nr1 A ann 4 6 IGNORE_TIME_SEGMENT_IN_SCORING\nr1 B bob 4 6 six\n"
    )
    (tmp_path / "hyp.ctm").write_text("r1 A 0 1 one\nr1 A 4.5 1 noise\nr1 B 4.5 1 six\n")
    real, heard = recorded_turns(*(read_transcripts(tmp_path / name) for name in ("ref.stm", "hyp.ctm")))
    assert [turn.words for turn in real] == [("one", "two"), ("six",)]
    assert [turn.words for turn in heard] == [("one",), ("six",)], "the stretch is of one channel"
    (tmp_path / "hyp.stm").write_text("r1 1 x 0 8 aa bb cc dd\n")
    _, heard = recorded_turns(*(read_transcripts(tmp_path / name) for name in ("ref.stm", "hyp.stm")))
    assert [turn.words for turn in heard] == [("aa",), ("bb",), ("dd",)], "no such channel: of the recording"


def test_silence_of_files_that_cannot_say_so(tmp_path):
    (tmp_path / "ref.stm").write_text("r1 1 ann 0 4 one\nr2 1 ann 0 4 two\n")
    (tmp_path / "hyp.ctm").write_text("r1 1 0 1 one\n")
    (tmp_path / "hyp.json").write_text("[]")
    reference = read_transcripts(tmp_path / "ref.stm")
    _, heard = recorded_turns(reference, read_transcripts(tmp_path / "hyp.ctm"))
    assert [(turn.recording, turn.words) for turn in heard] == [("r1", ("one",)), ("r2", ())]
    _, heard = recorded_turns(reference, read_transcripts(tmp_path / "hyp.json"))
    assert [(turn.recording, turn.words) for turn in heard] == [("r1", ()), ("r2", ())]


def test_normalised_turns(tmp_path):
    pytest.importorskip("whisper_normalizer")
    (tmp_path / "ref.stm").write_text("r1 1 ann 0 4 Twenty-one COLOURS, please\n")
    (tmp_path / "hyp.ctm").write_text("r1 1 0 1 Twenty-One\n")
    reference, hypothesis = (read_transcripts(tmp_path / name) for name in ("ref.stm", "hyp.ctm"))
    real, heard = recorded_turns(reference, reference, "whisper_english")
    assert [turn.words for turn in real] == [turn.words for turn in heard] == [("21", "colors", "please")]
    assert recorded_turns(reference, hypothesis, "lower")[1][0].words == ("twenty-one",)
    with pytest.raises(InputError, match=r"hyp.ctm: whisper_english joins words"):
        recorded_turns(reference, hypothesis, "whisper_english")
    (tmp_path / "text").write_text("r1 one\n")
    with pytest.raises(InputError, match="kaldi does not say who spoke when"):
        recorded_turns(reference, read_transcripts(tmp_path / "text"))
