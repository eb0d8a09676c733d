"""Greedy CTC decoding in parts, against runs of the most probable tokens."""

import itertools

import numpy as np
import pytest

from espnet_ext.longform.decoding.greedy import GreedyDecoder


@pytest.mark.parametrize("size", [1, 7, 200])
def test_tokens_have_their_frames_and_confidences(size):
    values = (
        np.random.default_rng(3).dirichlet(np.full(4, 0.3), size=200).astype(np.float32)
    )
    expected = []
    frame = 0
    for token, run in itertools.groupby(values.argmax(axis=1).tolist()):
        end = frame + len(list(run))
        if token:
            expected.append(
                (
                    token,
                    frame,
                    end,
                    pytest.approx(values[frame:end, token].max(), abs=1e-6),
                )
            )
        frame = end
    decoder = GreedyDecoder()
    found = [
        token
        for start in range(0, 200, size)
        for token in decoder.step(values[start : start + size])
    ]
    assert [tuple(token) for token in found + decoder.finish()] == expected
