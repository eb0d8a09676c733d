"""What other recognisers write: each format is read as the same windows, and what does not fit is refused."""

import json

import pytest

from espnet_ext.errors import InputError
from espnet_ext.multitalker.hypotheses import WindowHypothesis, write_jsonl
from espnet_ext.multitalker.importers import read_grouped

SEGMENTS = "talk-w00000 talk 0 16\ntalk-w00001 talk 8 24\n"
# window, start of the window, word, time in the window
WORDS = [(0, 0, "so", 1.0), (0, 0, "far", 9.5), (1, 8, "far", 1.5), (1, 8, "away", 4.0)]
EXPECTED = {
    "talk": {
        "speaker": (
            WindowHypothesis("talk", 0, "speaker", ("so", "far"), 0, 16, ((1.0, 1.5), (9.5, 10.0))),
            WindowHypothesis("talk", 1, "speaker", ("far", "away"), 8, 24, ((9.5, 10.0), (12.0, 12.5))),
        )
    }
}


@pytest.fixture
def segments(tmp_path):
    (tmp_path / "segments").write_text(SEGMENTS)
    return tmp_path / "segments"


def ctm_of_kaldi() -> str:
    return "".join(f"talk-w{w:05d} 1 {at:.2f} 0.50 {word}\n" for w, _, word, at in WORDS)


def ctm_of_nemo() -> str:
    return ";; comment\n" + "".join(f"talk-w{w:05d} A {at:.2f} 0.50 {word} NA lex NA\n" for w, _, word, at in WORDS)


def rttm() -> str:
    speaker = "SPEAKER talk-w00000 1 1.0 9.0 <NA> <NA> speaker <NA> <NA>\n"
    return speaker + "".join(
        f"LEXEME talk-w{w:05d} 1 {at:.2f} 0.50 {word} lex speaker NA\n" for w, _, word, at in WORDS
    )


@pytest.mark.parametrize(("name", "make"), [("a.ctm", ctm_of_kaldi), ("b.ctm", ctm_of_nemo), ("c.rttm", rttm)])
def test_windows_of_a_segments_file(tmp_path, segments, name, make):
    """The channel is no window: 1 and A are the same."""
    (tmp_path / name).write_text(make())
    assert read_grouped(tmp_path / name, segments) == EXPECTED


def whisper_words(window: int, shift: float) -> list[dict]:
    return [
        {"word": f" {word}", "start": at + shift, "end": at + shift + 0.5} for w, _, word, at in WORDS if w == window
    ]


@pytest.mark.parametrize("relative", [True, False])
def test_whispers_windows_in_one_file(tmp_path, relative):
    items = []
    for window, start in ((0, 0.0), (1, 8.0)):
        place = {"offset": start, "duration": 16} if relative else {"start": start, "end": start + 16}
        parts = [{"text": "", "words": whisper_words(window, 0.0 if relative else start)}]
        items.append({**place, "segments": parts})
    (tmp_path / "talk.json").write_text(json.dumps(items))
    assert read_grouped(tmp_path / "talk.json") == EXPECTED


def test_a_file_of_whisper_for_each_window(tmp_path, segments):
    for window in (0, 1):
        content = {"text": "", "segments": [{"text": "", "words": whisper_words(window, 0.0)}], "language": "en"}
        (tmp_path / f"talk-w0000{window}.json").write_text(json.dumps(content))
    files = [tmp_path / f"talk-w0000{window}.json" for window in (1, 0)]
    assert read_grouped(files, segments) == EXPECTED


def test_whisperx_with_speakers_and_words_without_times(tmp_path):
    words = [
        {"word": "In", "start": 1.0, "end": 1.5, "score": 0.5},
        {"word": "1999,"},
        {"word": "yes", "start": 2.5, "end": 3.0, "score": 0.25, "speaker": "B"},
    ]
    content = {
        "segments": [{"start": 1.0, "end": 3.0, "text": "", "speaker": "A", "words": words}],
        "word_segments": [],
    }
    (tmp_path / "talk.json").write_text(json.dumps(content))
    found = read_grouped(tmp_path / "talk.json")["talk"]
    assert found["A"][0].words == ("In", "1999,") and found["A"][0].times == ((1.0, 1.5), (1.5, 3.0))
    assert (found["B"][0].words, found["B"][0].confidences) == (("yes",), (0.25,))


def test_transformers_chunks_share_their_time_by_letters(tmp_path):
    (tmp_path / "talk.json").write_text(
        json.dumps({"text": "", "chunks": [{"timestamp": [2, 4], "text": " ab cdefgh"}]})
    )
    (item,) = read_grouped(tmp_path / "talk.json")["talk"]["speaker"]
    assert item.words == ("ab", "cdefgh") and item.times == ((2.0, 2.5), (2.5, 4.0))


def test_turns_of_seglst_are_windows_of_their_speaker(tmp_path):
    """What others say meanwhile says nothing about a speaker."""

    def turn(who, start, end, words):
        return {"session_id": "talk", "speaker": who, "start_time": start, "end_time": end, "words": words}

    turns = [turn("b", 8, 30, "no"), turn("a", 0, 10, "A B C D"), turn("a", 5, 15, "C D E F")]
    (tmp_path / "talk.json").write_text(json.dumps(turns))
    found = read_grouped(tmp_path / "talk.json")["talk"]
    assert [(item.window, item.start, item.words) for item in found["a"]] == [
        (0, 0, ("A", "B", "C", "D")), (1, 5, ("C", "D", "E", "F")),
    ]  # fmt: skip
    assert len(found["b"]) == 1


def test_ours(tmp_path):
    every = [item for speakers in EXPECTED["talk"].values() for item in speakers]
    write_jsonl(tmp_path / "talk.jsonl", every)
    assert read_grouped(tmp_path / "talk.jsonl") == EXPECTED


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.ctm", "r 1 x 0.5 A\n", "a.ctm: line 1 is not `recording channel start duration word"),
        ("a.ctm", "talk-w00000 1 1 0.5\n", "line 1 is not"),
        ("a.ctm", "talk-w00000 1 nan 0.5 A\n", "line 1 is not"),
        ("a.ctm", "talk-w00000 1 1 0.5 A high\n", "line 1 is not"),
        ("a.ctm", "other 1 1 0.5 A\n", "other is not in --segments"),
        ("a.ctm", "talk-w00000 1 20 0.5 A\n", "A at 20.0 s lies outside its window, 0.0 to 16.0 s"),
        ("a.ctm", "\n", "empty file"),
        ("a.ctm", ";; nothing\n", "holds no word"),
        ("a.txt", "A", "hypotheses end in .jsonl, .json, .ctm or .rttm"),
        ("a.json", "{", "not JSON"),
        ("a.json", "[1]", "entry 1: not an object"),
        ("a.json", '{"text": "A"}', "neither Whisper's JSON nor SegLST"),
        ("a.json", '{"segments": [{"words": [{"start": 0}]}]}', "neither Whisper's JSON nor SegLST"),
        ("a.rttm", "LEXEME talk-w00000 1 x 1 A lex a\n", "line 1 is not `LEXEME"),
        ("missing.ctm", None, "no such file"),
        ("missing.json", None, "no such file of hypotheses"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, segments, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_grouped(tmp_path / name, segments)


def test_a_window_without_times_or_span_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"segments": [{"text": "A B"}]}')
    with pytest.raises(InputError, match="a: no times: give --segments"):
        read_grouped(tmp_path / "a.json")


def test_segments_that_are_none(tmp_path):
    (tmp_path / "segments").write_text("w talk 8 x\n")
    (tmp_path / "a.ctm").write_text("w 1 0 1 A\n")
    with pytest.raises(InputError, match="w: `talk 8 x` is not `recording start end`"):
        read_grouped(tmp_path / "a.ctm", tmp_path / "segments")
