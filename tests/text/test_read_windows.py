"""What other recognisers write: each format is read as the same windows, and what does
not fit is refused.
"""

import json
import re

import pytest

from espnet_ext.errors import InputError
from espnet_ext.text.window_hypotheses import read_grouped
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import write_hypotheses

SEGMENTS = "talk-w00000 talk 0 16\ntalk-w00001 talk 8 24\n"
# window, start of the window, word, time in the window
WORDS = [(0, 0, "so", 1.0), (0, 0, "far", 9.5), (1, 8, "far", 1.5), (1, 8, "away", 4.0)]
EXPECTED = {
    "talk": {
        "speaker": (
            Segment(
                "talk",
                "speaker",
                ("so", "far"),
                0,
                16,
                ((1.0, 1.5), (9.5, 10.0)),
                window=0,
            ),
            Segment(
                "talk",
                "speaker",
                ("far", "away"),
                8,
                24,
                ((9.5, 10.0), (12.0, 12.5)),
                window=1,
            ),
        )
    }
}


@pytest.fixture
def segments(tmp_path):
    (tmp_path / "segments").write_text(SEGMENTS)
    return tmp_path / "segments"


def ctm_of_kaldi() -> str:
    return "".join(
        f"talk-w{w:05d} 1 {at:.2f} 0.50 {word}\n" for w, _, word, at in WORDS
    )


def ctm_of_nemo() -> str:
    return ";; comment\n" + "".join(
        f"talk-w{w:05d} A {at:.2f} 0.50 {word} NA lex NA\n" for w, _, word, at in WORDS
    )


def rttm() -> str:
    speaker = "SPEAKER talk-w00000 1 1.0 9.0 <NA> <NA> speaker <NA> <NA>\n"
    return speaker + "".join(
        f"LEXEME talk-w{w:05d} 1 {at:.2f} 0.50 {word} lex speaker NA\n"
        for w, _, word, at in WORDS
    )


@pytest.mark.parametrize(
    ("name", "make"),
    [("a.ctm", ctm_of_kaldi), ("b.ctm", ctm_of_nemo), ("c.rttm", rttm)],
)
def test_windows_of_a_segments_file(tmp_path, segments, name, make):
    """The channel is no window: 1 and A are the same."""
    (tmp_path / name).write_text(make())
    assert read_grouped(tmp_path / name, segments) == EXPECTED


def whisper_words(index: int, shift: float) -> list[dict]:
    return [
        {"word": f" {word}", "start": at + shift, "end": at + shift + 0.5}
        for w, _, word, at in WORDS
        if w == index
    ]


@pytest.mark.parametrize("relative", [True, False])
def test_whispers_windows_in_one_file(tmp_path, relative):
    items = []
    for window, start in ((0, 0.0), (1, 8.0)):
        place = (
            {"offset": start, "duration": 16}
            if relative
            else {"start": start, "end": start + 16}
        )
        parts = [
            {"text": "", "words": whisper_words(window, 0.0 if relative else start)}
        ]
        items.append({**place, "segments": parts})
    (tmp_path / "talk.json").write_text(json.dumps(items))
    assert read_grouped(tmp_path / "talk.json") == EXPECTED


def test_a_file_of_whisper_for_each_window(tmp_path, segments):
    for window in (0, 1):
        content = {
            "text": "",
            "segments": [{"text": "", "words": whisper_words(window, 0.0)}],
            "language": "en",
        }
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
        "segments": [
            {"start": 1, "end": 3, "text": "", "speaker": "A", "words": words}
        ],
        "word_segments": [],
    }
    (tmp_path / "talk.json").write_text(json.dumps(content))
    found = read_grouped(tmp_path / "talk.json")["talk"]
    assert found["A"][0].words == ("In", "1999,") and found["A"][0].times == (
        (1.0, 1.5),
        (1.5, 2.5),
    )
    assert (found["B"][0].words, found["B"][0].confidences) == (("yes",), (0.25,))


def test_transformers_chunks_share_their_time_by_letters(tmp_path):
    (tmp_path / "talk.json").write_text(
        json.dumps({"text": "", "chunks": [{"timestamp": [2, 4], "text": " a bcdef"}]})
    )
    (item,) = read_grouped(tmp_path / "talk.json")["talk"]["speaker"]
    assert item.words == ("a", "bcdef") and item.times == ((2.0, 2.5), (2.5, 4.0))


def test_turns_of_seglst_are_windows_of_their_speaker(tmp_path):
    """What others say meanwhile says nothing about a speaker."""

    def turn(who, start, end, words):
        return {
            "session_id": "talk",
            "speaker": who,
            "start_time": start,
            "end_time": end,
            "words": words,
        }

    turns = [
        turn("b", 8, 30, "no"),
        turn("a", 0, 10, "A B C D"),
        turn("a", 5, 15, "C D E F"),
    ]
    (tmp_path / "talk.json").write_text(json.dumps(turns))
    found = read_grouped(tmp_path / "talk.json")["talk"]
    assert [(item.window, item.start, item.words) for item in found["a"]] == [
        (0, 0, ("A", "B", "C", "D")), (1, 5, ("C", "D", "E", "F")),
    ]  # fmt: skip
    assert len(found["b"]) == 1


def test_ours(tmp_path):
    every = [item for speakers in EXPECTED["talk"].values() for item in speakers]
    write_hypotheses(tmp_path / "talk.jsonl", every)
    assert read_grouped(tmp_path / "talk.jsonl") == EXPECTED


@pytest.mark.parametrize(
    ("name", "content", "segments", "place"),
    [
        ("a.ctm", "talk-w00000 1 1 0.5 A high\n", SEGMENTS, "a.ctm: line 1"),
        ("a.ctm", "other 1 1 0.5 A\n", SEGMENTS, "a.ctm: other"),
        ("a.ctm", "\n", SEGMENTS, "a.ctm: "),
        ("a.ctm", ";; nothing\n", SEGMENTS, "a.ctm: "),
        ("a.txt", "A", SEGMENTS, "a.txt: kaldi"),
        ("missing.ctm", None, SEGMENTS, "missing.ctm: "),
        ("a.json", '{"segments": [{"text": "A B"}]}', None, "a.json: a: "),
        ("a.json", '{"segments": []}', "a talk 8 x\n", "segments: a: "),
        (
            "a.json",
            '{"segments": [{"start": 20, "end": 21, "text": "A"}]}',
            "a talk 0 16\n",
            "talk: A at 20.0 s",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, name, content, segments, place):
    """What is not of its format is refused by the readers (test_transcripts.py)."""
    for path, text in ((tmp_path / name, content), (tmp_path / "segments", segments)):
        if text is not None:
            path.write_text(text)
    with pytest.raises(InputError, match=place):
        read_grouped(tmp_path / name, tmp_path / "segments" if segments else None)


def test_two_channels_are_two_speakers(tmp_path):
    (tmp_path / "m.ctm").write_text(
        "m A 0.0 0.5 one\nm B 0.1 0.5 uno\nm A 0.6 0.5 two\n"
    )
    found = read_grouped(tmp_path / "m.ctm")["m"]
    assert {who: windows[0].words for who, windows in found.items()} == {
        "A": ("one", "two"),
        "B": ("uno",),
    }


def test_a_silent_file_does_not_end_all(tmp_path, capsys):
    (tmp_path / "a.json").write_text(
        '{"segments": [{"start": 1, "end": 2, "text": "one"}]}'
    )
    (tmp_path / "b.json").write_text('{"text": "", "segments": [], "language": "en"}')
    assert list(read_grouped([tmp_path / "a.json", tmp_path / "b.json"])) == ["a"]
    assert "b.json: no word in it" in capsys.readouterr().err


def test_a_window_that_is_given_twice_is_refused(tmp_path, segments):
    """Its words would be there twice."""
    for name in ("a.ctm", "b.ctm"):
        (tmp_path / name).write_text(ctm_of_kaldi())
    with pytest.raises(InputError, match=r"b\.ctm: talk: .*a\.ctm"):
        read_grouped([tmp_path / "a.ctm", tmp_path / "b.ctm"], segments)
    for name in ("a.jsonl", "b.jsonl"):
        write_hypotheses(tmp_path / name, EXPECTED["talk"]["speaker"])
    with pytest.raises(InputError, match=r"b\.jsonl: talk: .*a\.jsonl"):
        read_grouped([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])


def test_a_window_in_a_file_for_each_speaker(tmp_path, segments):
    for who in "AB":
        lines = "".join(
            f"talk-w00000 1 {at} 0.5 {who}{at} NA lex {who}\n" for at in (1.0, 2.0)
        )
        (tmp_path / f"{who}.ctm").write_text(
            lines + "talk-w00001 1 1.0 0.5 end NA lex A\n" * (who == "A")
        )
    found = read_grouped([tmp_path / "A.ctm", tmp_path / "B.ctm"], segments)["talk"]
    assert found["A"][0].words == ("A1.0", "A2.0") and found["B"][0].words == (
        "B1.0",
        "B2.0",
    )


def test_windows_without_hypotheses_are_silent_and_named(tmp_path, capsys):
    """Nobody may have spoken in them; or they were not decoded."""
    (tmp_path / "segments").write_text(
        "w0 talk 0 16\nw1 talk 16 32\nw2 talk 32 48\nother talk2 0 5\n"
    )
    (tmp_path / "a.ctm").write_text("w0 1 1 0.5 so\nw2 1 1 0.5 far\n")
    (tmp_path / "w1.ctm").write_text("")
    windows = read_grouped(
        [tmp_path / "a.ctm", tmp_path / "w1.ctm"], tmp_path / "segments"
    )["talk"]["speaker"]
    assert [item.words for item in windows] == [("so",), (), ("far",)] and windows[
        1
    ].start == 16
    assert capsys.readouterr().err == ""
    assert (
        read_grouped(tmp_path / "a.ctm", tmp_path / "segments")["talk"]["speaker"]
        == windows
    )
    assert capsys.readouterr().err == (
        f"warning: {tmp_path}/segments: window w1 without hypotheses: taken as silent\n"
    )
    write_hypotheses(tmp_path / "a.jsonl", [windows[0], windows[2]])
    read_grouped(tmp_path / "a.jsonl")
    assert (
        capsys.readouterr().err == "warning: talk: window 1 missing: taken as silent\n"
    )


def windows_of(*spans: tuple[float, float]) -> str:
    """Whisper's JSON of windows with an offset and a duration, and a word near each of
    their ends.
    """
    items = []
    for start, length in spans:
        words = [
            {"word": "w", "start": at, "end": at + 0.5} for at in (0.5, length - 1)
        ]
        items.append(
            {"offset": start, "duration": length, "segments": [{"words": words}]}
        )
    return json.dumps(items)


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        (
            "talk.json",
            windows_of((0, 20), (15, 20), (75, 20)),
            "talk: .* 35.0 to 75.0 s",
        ),
        ("talk.ctm", "talk 1 15 0.5 a\ntalk 1 8 0.5 b\n", "talk: .* 15.00 to 8.00 s"),
        ("talk.ctm", "talk 1 1000 50000 a\ntalk 1 52000 40000 b\n", "talk: .* 45000 s"),
    ],
)
def test_what_is_probably_wrong_is_said(tmp_path, capsys, name, content, place):
    (tmp_path / name).write_text(content)
    read_grouped(tmp_path / name)
    err = capsys.readouterr().err
    assert re.match(f"warning: .*{place}", err) and err.count("\n") == 1


@pytest.mark.parametrize(
    "places",
    [
        [(0, 20), (15, 20), (30, 20)],
        [(0, 20), (10, 20), (20, 10.4)],
        [(0, 20), (20, 20)],
        [(3, 4), (9, 6), (17, 2), (30, 10)],
        [(0, 7200)],
    ],
)
def test_windows_that_overlap_touch_or_were_cut_at_pauses_are_no_doubt(
    tmp_path, capsys, places
):
    (tmp_path / "talk.json").write_text(windows_of(*places))
    read_grouped(tmp_path / "talk.json")
    assert capsys.readouterr().err == ""


def test_several_files_of_one_window_each_may_be_windows_of_one_recording(
    tmp_path, capsys
):
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(
            '{"segments": [{"start": 0, "end": 2, "text": "A B"}]}'
        )
    assert list(read_grouped([tmp_path / "a.json", tmp_path / "b.json"])) == ["a", "b"]
    assert "2 utterances are taken as 2 recordings" in capsys.readouterr().err
