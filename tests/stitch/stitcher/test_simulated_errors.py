"""Simulated hypotheses, counted against the probabilities that they were made with."""

import numpy as np
import pytest

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import count_errors
from espnet_ext.stitch.stitcher.simulated_errors import (
    SimulatedErrors,
    simulate_hypotheses,
    simulate_recordings,
)
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.window_hypotheses import NOBODY
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import write_segments
from espnet_ext.work.files import write_json

WORDS = tuple(f"W{number:02d}" for number in range(60))  # a word a second


def errors(*rates: float, **shares: float) -> SimulatedErrors:
    return SimulatedErrors(
        rates={"alone": rates or (0.0,) * 5, "overlapped": (0.0,) * 5}, **shares
    )


def test_without_errors_windows_hold_the_words_whose_middle_they_hold():
    turns = [
        Segment("r", "a", WORDS[:6], 0.0, 6.0),
        Segment("r", "b", WORDS[6:8], 10.0, 12.0),
    ]
    heard = simulate_recordings(turns, Windowing(4.0, 0.5), errors(), 0)
    assert [(item.window, item.speaker, item.words) for item in heard] == [
        (0, "a", WORDS[0:4]), (1, "a", WORDS[2:6]), (2, "a", WORDS[4:6]),
        (3, NOBODY, ()), (4, "b", WORDS[6:8]),
    ]  # fmt: skip


def test_there_are_as_many_errors_as_wanted_and_more_at_edges():
    """A word lies 0.5 s and the next 1.5 s from each of the four inner edges."""
    turns = [Segment(f"r{number}", "a", WORDS, 0.0, 60.0) for number in range(200)]
    chosen = errors(0.9, 0.4, 0.9, 0.2, 0.1, deletion=0.3, insertion=0.2)
    total = count_errors([], [])
    for item in simulate_recordings(turns, Windowing(20.0, 0.0), chosen, 1):
        total += count_errors(
            WORDS[20 * item.window : 20 * item.window + 20], item.words
        )
    expected = 200 * (52 * 0.1 + 4 * 0.4 + 4 * 0.2)
    counted = (
        np.array([total.deletions, total.insertions, total.substitutions]) / expected
    )
    np.testing.assert_allclose(counted, [0.3, 0.2, 0.5], atol=0.05)


def test_an_utterance_goes_to_another_speaker():
    turns = [
        Segment("r", "a", WORDS[:4], 0.0, 4.0),
        Segment("r", "b", WORDS[4:8], 4.0, 8.0),
    ]
    chosen = errors(speaker=1.0)  # drawn of both
    heard = [
        item
        for seed in range(100)
        for item in simulate_recordings(turns, Windowing(4.0, 0.0), chosen, seed)
    ]
    swapped = sum(
        (item.speaker == "a") == bool(set(item.words) & set(WORDS[4:8]))
        for item in heard
    )
    assert len(heard) == 200
    assert 70 < swapped < 130


def test_the_same_seed_gives_the_same_file(tmp_path):
    write_segments(tmp_path / "ref.json", [Segment("r", "a", WORDS, 0.0, 60.0)])
    chosen = tmp_path / "errors.json"
    windowing = Windowing(8.0)
    write_json(chosen, errors(*[0.3] * 5).model_dump())
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        output = tmp_path / f"{name}.jsonl"
        simulate_hypotheses(
            tmp_path / "ref.json", output, windowing=windowing, errors=chosen, seed=seed
        )
    one, again, other = (
        (tmp_path / f"{name}.jsonl").read_bytes() for name in ("one", "again", "other")
    )
    assert one == again != other
    assert len(read_hypotheses(tmp_path / "one.jsonl")) == 14


@pytest.mark.parametrize("content", ["{", '{"often": 1}', "{}"])
def test_errors_that_are_none(tmp_path, content):
    write_segments(tmp_path / "ref.json", [Segment("r", "a", WORDS, 0.0, 60.0)])
    (tmp_path / "errors.json").write_text(content)
    files = {"windowing": Windowing(), "errors": tmp_path / "errors.json"}
    with pytest.raises(InputError, match=r"errors.json: "):
        simulate_hypotheses(tmp_path / "ref.json", tmp_path / "out", **files)
