import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.multitalker.hypotheses import (
    WindowHypothesis,
    group_by_speaker,
    read_ctm,
    read_jsonl,
    word_times,
    write_ctm,
    write_jsonl,
)
from espnet_ext.multitalker.windows import RecordingWindow, Windowing

WINDOWING = Windowing(16.0, 0.5)


def hypothesis(window=0, speaker="a", words=("ONE", "TWO"), recording="r", **more):
    start, end = WINDOWING.span(window)
    return WindowHypothesis(recording, window, speaker, tuple(words), start, end, **more)


FULL = hypothesis(1, times=((8.0, 8.5), (9.25, 9.5)), confidences=(0.5, 1.0))


@st.composite
def some_hypotheses(draw):
    keys = st.tuples(st.sampled_from(["r", "s"]), st.integers(0, 4), st.sampled_from(["a", "b é"]))
    words = st.lists(st.sampled_from(["ONE", "你好", "DON'T", '"']), max_size=4)
    return [
        hypothesis(window, speaker, draw(words), recording)
        for recording, window, speaker in draw(st.lists(keys, min_size=1, max_size=8, unique=True))
    ]


@settings(deadline=None, max_examples=25)
@given(some_hypotheses())
def test_jsonl_comes_back(tmp_path_factory, hypotheses):
    path = tmp_path_factory.mktemp("jsonl") / "hyp.jsonl"
    write_jsonl(path, [*hypotheses, hypothesis(9, "full", times=FULL.times, confidences=FULL.confidences)])
    back = read_jsonl(path)
    assert sorted(back, key=repr) == sorted(
        [*hypotheses, hypothesis(9, "full", times=FULL.times, confidences=FULL.confidences)], key=repr
    )


def test_ctm_comes_back(tmp_path):
    hypotheses = [FULL, hypothesis(0), hypothesis(2, "b", ["THREE"]), hypothesis(1, "c", [])]
    write_ctm(tmp_path / "hyp.ctm", hypotheses)
    back = {(item.window, item.speaker): item for item in read_ctm(tmp_path / "hyp.ctm", WINDOWING)}
    assert back[1, "a"] == FULL
    assert back[0, "a"].words == ("ONE", "TWO")
    assert back[0, "a"].times == ((0.0, 8.0), (8.0, 16.0)), "words without times share the window"
    assert (back[2, "b"].start, back[2, "b"].end) == (16.0, 32.0)
    assert (1, "c") not in back, "CTM has no place for a window without words"


def test_ctm_of_a_recogniser_for_one_speaker(tmp_path):
    (tmp_path / "hyp.ctm").write_text(";; comment\nr 1 10.0 0.5 TWO\n\nr 1 9.0 0.5 ONE 0.75\nr 0 1 0.5 ZERO 0.5 lex\n")
    first, second = sorted(read_ctm(tmp_path / "hyp.ctm", WINDOWING, speaker="me"), key=lambda item: item.window)
    assert (first.speaker, first.words, first.confidences) == ("me", ("ZERO",), (0.5,))
    assert second.words == ("ONE", "TWO"), "in the order of time"
    assert second.confidences is None, "not all words have one"


@pytest.mark.parametrize(
    "line", ["r 1 x 0.5 A", "r x 1 0.5 A", "r 1 1 0.5", "r -1 1 0.5 A", "r 1 nan 0.5 A", "r 1 1 0.5 A high"]
)
def test_ctm_refuses(tmp_path, line):
    (tmp_path / "hyp.ctm").write_text(f"r 0 1 0.5 A\n{line}\n")
    with pytest.raises(InputError, match=r"hyp.ctm: line 2: .*fix it"):
        read_ctm(tmp_path / "hyp.ctm", WINDOWING)


GOOD = {"recording": "r", "window": 0, "start": 0, "end": 16, "speaker": "a", "words": ["A"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": "0"}, "window must be a whole number"),
        ({"window": True}, "window must be a whole number"),
        ({"window": -1}, "start at 0"),
        ({"end": 0}, "not a time span"),
        ({"start": "soon"}, "could not convert"),
        ({"words": "A"}, "words must be a list"),
        ({"words": ["A B"]}, "words must be a list"),
        ({"words": [""]}, "words must be a list"),
        ({"speaker": None}, "speaker must be a name"),
        ({"speaker": ""}, "words without a speaker"),
        ({"times": []}, "0 times for 1 words"),
        ({"times": [[1]]}, "unpack"),
        ({"confidences": [1, 2]}, "2 confidences for 1 words"),
    ],
)
def test_jsonl_refuses(tmp_path, change, message):
    (tmp_path / "hyp.jsonl").write_text(json.dumps(GOOD) + "\n\n" + json.dumps({**GOOD, "window": 1} | change) + "\n")
    with pytest.raises(InputError, match=f"hyp.jsonl: line 3: .*{message}"):
        read_jsonl(tmp_path / "hyp.jsonl")


def test_jsonl_refuses_other_files(tmp_path):
    path = tmp_path / "hyp.jsonl"
    with pytest.raises(InputError, match="no such file"):
        read_jsonl(path)
    for text, message in (("\n", "no hypothesis"), ("[1]\n", "line 1: no recording"), ("{\n", "line 1: not JSON")):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            read_jsonl(path)
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD) + "\n")
    with pytest.raises(InputError, match="r: speaker a appears twice in window 0"):
        read_jsonl(path)
    path.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_jsonl(path)


def test_grouping_fills_in_silence():
    windows = WINDOWING.cut("r", 30.0) + WINDOWING.cut("silent", 20.0)
    grouped = group_by_speaker([hypothesis(1, "b"), hypothesis(0, "a")], windows[:1] + windows[2:])
    assert list(grouped) == ["r", "silent"]
    assert [[item.words for item in grouped["r"][speaker]] for speaker in ("a", "b")] == [
        [("ONE", "TWO"), (), ()],
        [(), ("ONE", "TWO"), ()],
    ]
    assert [(item.start, item.end) for item in grouped["r"]["a"]] == [(0, 16), (8, 24), (16, 30)]
    assert grouped["silent"] == {}


def test_grouping_fills_in_windows_at_their_distance():
    grouped = group_by_speaker([hypothesis(1), hypothesis(4)])
    assert [(item.start, item.end) for item in grouped["r"]["a"]] == [(0, 16), (8, 24), (16, 32), (24, 40), (32, 48)]
    assert [item.start for item in group_by_speaker([hypothesis(2)])["r"]["a"]] == [0, 8, 16]


def test_nobody_heard_in_any_window():
    nobody = [WindowHypothesis("r", index, "", (), 8.0 * index, 8.0 * index + 16) for index in range(3)]
    assert group_by_speaker(nobody) == {"r": {}}


def test_windows_that_disagree():
    with pytest.raises(InputError, match="r: window 0 goes from 0.0 to 12.0 s, but from 0.0 to 16.0 s for speaker a"):
        group_by_speaker([hypothesis(0)], [RecordingWindow("r", 0, 0.0, 12.0)])


def test_word_times_share_out_the_window():
    assert word_times(hypothesis(1, words=["A", "B"])) == ((8.0, 16.0), (16.0, 24.0))
    assert word_times(hypothesis(1, words=[])) == ()
