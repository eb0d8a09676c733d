import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.window_hypotheses import NOBODY, group_by_speaker
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment, word_times
from espnet_ext.text.writing import write_hypotheses

WINDOWING = Windowing(16.0, 0.5)


def hypothesis(window=0, speaker="a", words=("ONE", "TWO"), recording="r", **more):
    start, end = WINDOWING.span(window)
    return Segment(recording, speaker, tuple(words), start, end, **more, window=window)


FULL = hypothesis(1, times=((8.0, 8.5), (9.25, 9.5)), confidences=(0.5, 1.0))


@st.composite
def some_hypotheses(draw):
    keys = st.tuples(st.sampled_from(["r", "s"]), st.integers(0, 4), st.sampled_from(["a", "b é"]))
    words = st.lists(st.sampled_from(["ONE", "你好", "DON'T", '"']), max_size=4)
    return [
        hypothesis(window, speaker, draw(words), recording)
        for recording, window, speaker in draw(st.lists(keys, min_size=1, max_size=8, unique=True))
    ]


@settings(max_examples=25)
@given(some_hypotheses())
def test_jsonl_comes_back(tmp_path_factory, hypotheses):
    path = tmp_path_factory.mktemp("jsonl") / "hyp.jsonl"
    write_hypotheses(path, [*hypotheses, hypothesis(1, "full", times=FULL.times, confidences=FULL.confidences)])
    every = [*hypotheses, hypothesis(1, "full", times=FULL.times, confidences=FULL.confidences)]
    assert sorted(read_hypotheses(path), key=repr) == sorted(every, key=repr)


GOOD = {"recording": "r", "window": 0, "start": 0, "end": 16, "speaker": "a", "words": ["A"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": "0"}, "window must be a whole number"),
        ({"window": True}, "window must be a whole number"),
        ({"window": -1}, "window must be a whole number from 0"),
        ({"end": 0}, "not a time span"),
        ({"start": "soon"}, "could not convert"),
        ({"words": "A"}, "words must be a list"),
        ({"words": ["A B"]}, "words must be a list"),
        ({"words": [""]}, "words must be a list"),
        ({"speaker": None}, "speaker must be a name"),
        ({"speaker": ""}, "words without a speaker"),
        ({"times": []}, "0 times for 1 words"),
        ({"times": [[1]]}, "unpack"),
        ({"times": [[2, 1]]}, "A ends at 1.0 s, before it starts at 2.0 s"),
        ({"times": [[18, 19]]}, "A at 18.0 s lies outside its window, 0.0 to 16.0 s"),
        ({"confidences": [1, 2]}, "2 confidences for 1 words"),
    ],
)
def test_jsonl_refuses(tmp_path, change, message):
    (tmp_path / "hyp.jsonl").write_text(json.dumps(GOOD) + "\n\n" + json.dumps({**GOOD, "window": 1} | change) + "\n")
    with pytest.raises(InputError, match=f"hyp.jsonl: line 3: .*{message}"):
        read_hypotheses(tmp_path / "hyp.jsonl")


def test_jsonl_refuses_other_files(tmp_path):
    path = tmp_path / "hyp.jsonl"
    with pytest.raises(InputError, match="no such file"):
        read_hypotheses(path)
    for text, message in (("\n", "no hypothesis"), ("[1]\n", "line 1: no recording"), ("{\n", "line 1: not JSON")):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            read_hypotheses(path)
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD) + "\n")
    with pytest.raises(InputError, match="r: speaker a appears twice in window 0"):
        read_hypotheses(path)
    path.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_hypotheses(path)


def test_grouping_fills_in_silence():
    windows = WINDOWING.cut("r", 30.0) + WINDOWING.cut("silent", 20.0)
    silent = [Segment(w.recording, NOBODY, (), w.start, w.end, window=w.index) for w in windows[:1] + windows[2:]]
    grouped = group_by_speaker([*silent, hypothesis(1, "b"), hypothesis(0, "a")])
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


def test_windows_that_disagree():
    with pytest.raises(InputError, match="r: window 0 goes from 0.0 to 12.0 s, but from 0.0 to 16.0 s for speaker a"):
        group_by_speaker([Segment("r", NOBODY, (), 0.0, 12.0, window=0), hypothesis(0)])


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        (
            {0: 8, 1: 0},
            "r: window 1 starts at 0.0 s, but window 0 at 8.0 s: number windows in the order of their starts",
        ),
        ({0: 0, 1: 0}, "r: window 1 starts at 0.0 s, but window 0 at 0.0 s"),
        ({1: 0, 2: 8, 3: 16}, "r: window 1 starts at 0.0 s: count windows from 0"),
        ({1: 0}, "r: window 1 starts at 0.0 s: count windows from 0"),
    ],
)
def test_windows_that_are_numbered_wrongly(starts, message):
    heard = [Segment("r", "a", ("A",), float(at), at + 16.0, window=index) for index, at in starts.items()]
    with pytest.raises(InputError, match=message):
        group_by_speaker(heard)


def test_word_times_share_out_the_window():
    assert word_times(hypothesis(1, words=["A", "B"])) == ((8.0, 16.0), (16.0, 24.0))
    assert word_times(hypothesis(1, words=[])) == ()
