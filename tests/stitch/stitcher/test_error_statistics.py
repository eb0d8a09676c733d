"""What is counted of a recogniser's errors, by hand and by known probabilities."""

import numpy as np
import pytest

from espnet_ext.stitch.stitcher.error_statistics import (
    count_errors_of_windows,
    fit_errors,
)
from espnet_ext.stitch.stitcher.simulated_errors import (
    SimulatedErrors,
    simulate_recordings,
)
from espnet_ext.text.window_hypotheses import group_by_speaker
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import write_hypotheses, write_segments


def test_a_few_words_counted_by_hand():
    """A word a second; two windows have heard C and D.

    D is wrong in both, as the same word, and E in the second.
    """
    turns = [Segment("r", "a", tuple("ABCDEF"), 0.0, 6.0)]
    heard = [
        Segment("r", "a", tuple("ABCY"), 0.0, 4.0, window=0),
        Segment("r", "a", tuple("CYX"), 2.0, 6.0, window=1),
    ]
    counts = count_errors_of_windows(group_by_speaker(heard), turns)
    assert sum(counts.words.values()) == 8 and dict(counts.confusions["D"]) == {"Y": 2}
    assert counts.kinds == {"substitutions": 3, "deletions": 1}
    assert (sum(counts.shared.values()), sum(counts.both.values())) == (2, 1)
    assert (counts.same, counts.wrong_twice) == (1, 1)
    # D lies half a second from the end of window 0, and 1.5 s from the start of window
    # 1
    assert counts.wrong[False, 0.5] == 1 and counts.words[False, 0.5] == 2
    assert (counts.turns, counts.moved) == (2, 0)


def test_an_utterance_of_a_wrong_speaker_is_no_deletion():
    turns = [
        Segment("r", "a", tuple("ABC"), 0.0, 3.0),
        Segment("r", "b", tuple("DEF"), 3.0, 6.0),
    ]
    heard = [Segment("r", "b", tuple("ABCDEF"), 0.0, 6.0, window=0)]
    counts = count_errors_of_windows(group_by_speaker(heard), turns)
    assert (counts.turns, counts.moved, sum(counts.kinds.values())) == (2, 1, 0)


def recordings(count: int = 60) -> list[Segment]:
    rng = np.random.default_rng(0)
    turns = []
    for number in range(count):
        start = 0.0
        for place in range(8):
            words = tuple(f"W{word}" for word in rng.integers(60, size=12))
            end = start + 4.0
            turns.append(Segment(f"r{number:02d}", "ab"[place % 2], words, start, end))
            start = end - 1.0  # a second of overlap
    return turns


KNOWN = SimulatedErrors(
    rates={"alone": (0.5, 0.4, 0.2, 0.1, 0.1), "overlapped": (0.7, 0.6, 0.4, 0.3, 0.3)},
    speaker=0.1,
    deletion=0.3,
    insertion=0.1,
    correlation=0.5,
    same=0.6,
    confusions={
        f"W{word}": {f"W{(word + 7) % 60}": 3, f"W{(word + 9) % 60}": 1}
        for word in range(60)
    },
)


def test_known_probabilities_are_found_again_in_files(tmp_path):
    turns = recordings()
    write_segments(tmp_path / "ref.json", turns)
    write_hypotheses(
        tmp_path / "hyp.jsonl",
        simulate_recordings(turns, Windowing(8.0, 0.5), KNOWN, 1),
    )
    fit_errors(tmp_path / "hyp.jsonl", tmp_path / "ref.json", tmp_path / "errors.json")
    found = SimulatedErrors.model_validate_json((tmp_path / "errors.json").read_text())
    for name in ("alone", "overlapped"):
        assert found.rates[name] == pytest.approx(KNOWN.rates[name], abs=0.12)
    # with two speakers, half of the utterances that are given to any speaker keep their
    # own
    assert found.speaker == pytest.approx(KNOWN.speaker / 2, abs=0.03)
    assert found.deletion == pytest.approx(KNOWN.deletion, abs=0.08)
    assert found.insertion == pytest.approx(KNOWN.insertion, abs=0.08)
    assert found.correlation == pytest.approx(KNOWN.correlation, abs=0.12)
    assert set(found.confusions["W0"]) >= {"W7", "W9"}
    assert found.confusions["W0"]["W7"] > found.confusions["W0"]["W9"]
