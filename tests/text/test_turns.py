import json

import meeteval.io
import pytest

from espnet_ext.errors import InputError
from espnet_ext.text.turns import Turn, in_order, read_turns, serialise, word_spans, words_by_speaker, write_turns

TURNS = [
    Turn("r", "b", ("TWO", "你好"), 2.5, 4.0),
    Turn("r", "a", ("ONE",), 0.0, 3.0),
    Turn("s", "a", ("NO", "TIME")),
    Turn("t", "", ()),
]


def test_turns_come_back_in_order(tmp_path):
    write_turns(tmp_path / "turns.json", TURNS)
    assert read_turns(tmp_path / "turns.json") == [TURNS[1], TURNS[0], *TURNS[2:]]


def test_meeteval_takes_them(tmp_path):
    write_turns(tmp_path / "turns.json", TURNS[:2])
    loaded = meeteval.io.asseglst(json.loads((tmp_path / "turns.json").read_text()))
    assert [(turn["session_id"], turn["speaker"], turn["words"], float(turn["start_time"])) for turn in loaded] == [
        ("r", "a", "ONE", 0.0),
        ("r", "b", "TWO 你好", 2.5),
    ]


def test_a_recording_with_words_without_times_keeps_its_order():
    turns = [Turn("s", "a", ("ONE",), 5.0, 6.0), Turn("s", "a", ("TWO",)), Turn("s", "a", ("THREE",), 1.0, 2.0)]
    assert in_order([*turns, *TURNS]) == [TURNS[1], TURNS[0], *turns, *TURNS[2:]]
    silent = Turn("s", "b", ())
    assert in_order([turns[0], silent, turns[2]]) == [silent, turns[2], turns[0]], "silence has no place in time"
    assert words_by_speaker(turns) == {"s": {"a": ("ONE", "TWO", "THREE")}}


def test_words_by_speaker_joins_in_the_order_of_time():
    later = Turn("r", "a", ("LAST",), 9.0, 9.5)
    assert words_by_speaker([later, *TURNS]) == {
        "r": {"a": ("ONE", "LAST"), "b": ("TWO", "你好")},
        "s": {"a": ("NO", "TIME")},
        "t": {},
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"session_id": ""}, "session_id is empty"),
        ({"words": ["A"]}, "no words"),
        ({"speaker": None}, "no speaker"),
        ({"speaker": ""}, "without a speaker"),
        ({"end_time": -1}, "not a time span"),
        ({"end_time": None}, "not a time span"),
        ({"start_time": "soon"}, "start_time is 'soon'"),
        ({"end_time": float("nan")}, "not a time span"),
    ],
)
def test_refused(tmp_path, change, message):
    good = {"session_id": "r", "speaker": "a", "start_time": 0, "end_time": 1, "words": "A"}
    (tmp_path / "turns.json").write_text(json.dumps([good, good | change]))
    with pytest.raises(InputError, match=f"turns.json: turn 2: .*{message}"):
        read_turns(tmp_path / "turns.json")


@pytest.mark.parametrize(
    ("text", "message"), [("[]", "not a list of turns"), ("{", "not JSON"), ("[1]", "turn 1: not")]
)
def test_files_refused(tmp_path, text, message):
    (tmp_path / "turns.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read_turns(tmp_path / "turns.json")
    with pytest.raises(InputError, match="no such file"):
        read_turns(tmp_path / "other.json")


def test_a_list_without_turns_is_silence_where_that_may_be(tmp_path):
    write_turns(tmp_path / "turns.json", [])
    assert read_turns(tmp_path / "turns.json", may_be_empty=True) == []


def test_words_share_their_turn_by_letters():
    assert word_spans(Turn("r", "a", ("A", "ABCD"), 1.0, 8.0)) == [(1.0, 3.0), (3.0, 8.0)]


def test_times_that_are_not_known():
    with pytest.raises(InputError, match="r: a turn of a has no times: give start_time and end_time"):
        word_spans(Turn("r", "a", ("A",)))


def test_serialised_in_the_order_of_starts():
    turns = [
        Turn("m", "a", ("A1",), 0.0, 5.0),
        Turn("m", "b", ("B1", "B2"), 1.0, 3.0),
        Turn("m", "a", ("A2",), 5.0, 6.0),
    ]
    assert serialise(turns[::-1]) == ("A1 <sc> B1 B2 <sc> A2", ["a", "b", "a"])
