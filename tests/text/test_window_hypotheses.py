import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.window_hypotheses import NOBODY, group_by_speaker
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import write_hypotheses

WINDOWING = Windowing(16.0, 0.5)


def hypothesis(window=0, speaker="a", words=("ONE", "TWO"), recording="r", **more):
    start, end = WINDOWING.place_window(window)
    return Segment(recording, speaker, tuple(words), start, end, **more, window=window)


@st.composite
def some_hypotheses(draw):
    keys = st.tuples(
        st.sampled_from(["r", "s"]), st.integers(0, 4), st.sampled_from(["a", "b é"])
    )
    words = st.lists(st.sampled_from(["ONE", "你好", "DON'T", '"']), max_size=4)
    return [
        hypothesis(window, speaker, draw(words), recording)
        for recording, window, speaker in draw(
            st.lists(keys, min_size=1, max_size=8, unique=True)
        )
    ]


@settings(max_examples=25)
@given(some_hypotheses())
def test_jsonl_comes_back(tmp_path_factory, hypotheses):
    path = tmp_path_factory.mktemp("jsonl") / "hyp.jsonl"
    every = [
        *hypotheses,
        hypothesis(1, "full", times=((8.0, 8.5), (9.25, 9.5)), confidences=(0.5, 1.0)),
    ]
    write_hypotheses(path, every)
    assert sorted(read_hypotheses(path), key=repr) == sorted(every, key=repr)


GOOD = {
    "recording": "r",
    "window": 0,
    "start": 0,
    "end": 16,
    "speaker": "a",
    "words": ["A"],
}


LINES = [json.dumps(GOOD), json.dumps({**GOOD, "window": 1})]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        *(
            (json.dumps({**GOOD, "window": 2} | change), "line 3")
            for change in (
                {"window": "0"},
                {"window": True},
                {"window": -1},
                {"window": 10**9},
                {"end": 0},
                {"start": "soon"},
                {"recording": ""},
                {"words": "A"},
                {"words": ["A B"]},
                {"words": [""]},
                {"words": [1]},
                {"speaker": None},
                {"speaker": ""},
                {"times": []},
                {"times": [[1]]},
                {"times": [[2, 1]]},
                {"times": [[18, 19]]},
                {"times": [[1, float("nan")]]},
                {"confidences": [1, 2]},
            )
        ),
        *((line, "line 3") for line in ("[1]", "{", '{"recording": "r"}')),
        (json.dumps(GOOD), "r: speaker a .* window 0"),
    ],
)
def test_lines_that_are_refused(tmp_path, line, place):
    (tmp_path / "hyp.jsonl").write_text("\n".join([*LINES, line]))
    with pytest.raises(InputError, match=f"hyp.jsonl: {place}"):
        read_hypotheses(tmp_path / "hyp.jsonl")


@pytest.mark.parametrize("content", [None, b"\n", b"\xff\n"])
def test_files_that_are_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "hyp.jsonl").write_bytes(content)
    with pytest.raises(InputError, match="hyp.jsonl: "):
        read_hypotheses(tmp_path / "hyp.jsonl")


def test_grouping_fills_in_silence():
    windows = WINDOWING.cut("r", 30.0) + WINDOWING.cut("silent", 20.0)
    silent = [
        Segment(w.recording, NOBODY, (), w.start, w.end, window=w.window)
        for w in windows[:1] + windows[2:]
    ]
    grouped = group_by_speaker([*silent, hypothesis(1, "b"), hypothesis(0, "a")])
    assert list(grouped) == ["r", "silent"]
    assert [
        [item.words for item in grouped["r"][speaker]] for speaker in ("a", "b")
    ] == [
        [("ONE", "TWO"), (), ()],
        [(), ("ONE", "TWO"), ()],
    ]
    assert [(item.start, item.end) for item in grouped["r"]["a"]] == [
        (0, 16),
        (8, 24),
        (16, 30),
    ]
    assert grouped["silent"] == {}


def test_grouping_fills_in_windows_at_their_distance():
    grouped = group_by_speaker([hypothesis(1), hypothesis(4)])
    assert [(item.start, item.end) for item in grouped["r"]["a"]] == [
        (0, 16),
        (8, 24),
        (16, 32),
        (24, 40),
        (32, 48),
    ]
    assert [item.start for item in group_by_speaker([hypothesis(2)])["r"]["a"]] == [
        0,
        8,
        16,
    ]


@pytest.mark.parametrize(
    "starts", [{0: 8, 1: 0}, {0: 0, 1: 0}, {1: 0, 2: 8, 3: 16}, {1: 0}]
)
def test_windows_that_are_numbered_wrongly(starts):
    heard = [
        Segment("r", "a", ("A",), float(at), at + 16.0, window=index)
        for index, at in starts.items()
    ]
    with pytest.raises(InputError, match="r: window 1 starts at"):
        group_by_speaker(heard)


def test_windows_that_disagree():
    with pytest.raises(InputError, match="r: window 0 "):
        group_by_speaker([Segment("r", NOBODY, (), 0.0, 12.0, window=0), hypothesis(0)])
