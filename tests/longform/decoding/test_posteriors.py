"""Windows and the means of their posteriors, against the same written out."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.longform.decoding.posteriors import PosteriorMean, cut_windows


@settings(max_examples=200)
@given(
    st.integers(1, 500), st.integers(1, 12), st.integers(1, 30), st.floats(0.05, 1.0)
)
def test_windows_cover_the_recording(length, unit, frames, stride):
    places = list(cut_windows(length, unit, frames, stride))
    covered = np.zeros(length, dtype=bool)
    for window in places:
        covered[window.start : window.end] = True
        assert window.start == window.frame * unit < window.end <= length
    assert covered.all()
    assert places[-1].end == length and places[-1].frames is None
    assert all(window.end - window.start == frames * unit for window in places[:-1])
    steps = {
        second.frame - first.frame
        for first, second in zip(places, places[1:], strict=False)
    }
    assert steps <= {max(1, round(frames * stride))}
    if length <= frames * unit:
        assert len(places) == 1


def test_means_are_those_of_all_windows_and_memory_is_bounded():
    rng = np.random.default_rng(0)
    frames = 16
    total = 300
    step = 2
    parts = [
        (start, rng.random((frames, 5), dtype=np.float32))
        for start in range(0, total - frames + 1, step)
    ]
    sums = np.zeros((total, 5))
    counts = np.zeros((total, 1))
    for start, posteriors in parts:
        sums[start : start + frames] += posteriors
        counts[start : start + frames] += 1
    mean = PosteriorMean()
    found = []
    for start, posteriors in parts:
        mean.add(start, posteriors)
        found.append(mean.take(start + step))
        assert len(mean._sums) <= frames
    found.append(mean.take())
    assert np.allclose(np.concatenate(found), sums / counts, atol=1e-6)


def test_a_frame_that_no_window_covers_repeats_the_one_before():
    mean = PosteriorMean()
    mean.add(0, np.ones((3, 2), dtype=np.float32))
    mean.add(4, np.full((3, 2), 2, dtype=np.float32))
    mean.add(9, np.full((1, 2), 3, dtype=np.float32))
    assert mean.take(5)[:, 0].tolist() == [1, 1, 1, 1, 2]
    assert mean.take(8)[:, 0].tolist() == [2, 2, 2]
    assert mean.take()[:, 0].tolist() == [2, 3]
