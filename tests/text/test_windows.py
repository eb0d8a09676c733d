import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import validate
from espnet_ext.kaldi.data_dir import DataDir, parse_segment
from espnet_ext.text.windows import (
    Windowing,
    cut_into_windows,
    make_window_id,
    parse_window_id,
)


@pytest.mark.parametrize(("overlap", "shift"), [(0.0, 16.0), (0.25, 12.0), (0.5, 8.0)])
def test_shift_of_the_papers_overlaps(overlap, shift):
    assert Windowing(16.0, overlap).shift == shift
    windows = Windowing(16.0, overlap).cut("r", 60.0)
    assert [window.start for window in windows] == [
        shift * index for index in range(len(windows))
    ]
    assert windows[-1].end == 60.0


@settings(max_examples=50)
@given(st.floats(0.01, 500), st.floats(1, 30), st.floats(0, 0.5))
def test_windows_cover_the_recording(seconds, length, overlap):
    windows = Windowing(length, overlap).cut("r", seconds)
    assert windows[0].start == 0
    assert windows[-1].end == seconds
    assert [window.window for window in windows] == list(range(len(windows)))
    for before, after in zip(windows, windows[1:], strict=False):
        assert before.end - before.start == pytest.approx(length)
        assert before.start < after.start <= before.end + 1e-6
    for before, after in zip(windows, windows[2:], strict=False):
        assert before.end <= after.start + 1e-6, (
            "odd windows stand side by side, and so do even ones"
        )
    assert len(windows) == 1 or windows[-2].end < seconds, (
        "the last window hears something new"
    )


@pytest.mark.parametrize("overlap", [-0.1, 0.51, 1.0, math.nan])
def test_an_overlap_that_windows_cannot_give(overlap):
    with pytest.raises(InputError, match="windows cannot overlap by"):
        Windowing(16.0, overlap)


@pytest.mark.parametrize("length", [0.0, -1.0, math.inf, math.nan])
def test_no_length(length):
    with pytest.raises(InputError, match="give a length above 0"):
        Windowing(length)
    with pytest.raises(InputError, match="recording r of"):
        Windowing().cut("r", length)


def test_data_dir_of_windows():
    data = DataDir(
        wav_scp={"b": "b.wav", "a-w00001": "a.wav"},
        utt2spk={},
        reco2dur={"b": "17", "a-w00001": "5.5"},
    )
    cut = cut_into_windows(data, Windowing(16.0, 0.5))
    assert validate(cut, require_text=False) == []
    assert [parse_window_id(key) for key in cut.utterances] == [
        ("a-w00001", 0),
        ("b", 0),
        ("b", 1),
    ]
    assert parse_segment(cut.segments[make_window_id("b", 1)]) == ("b", 8.0, 17.0)
    assert cut.utt2dur[make_window_id("b", 1)] == "9"
    with pytest.raises(InputError, match="recording b has no duration"):
        cut_into_windows(
            DataDir(wav_scp={"b": "b.wav"}, utt2spk={"b": "b"}), Windowing()
        )
