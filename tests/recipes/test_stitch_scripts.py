"""libricss_stitch's scripts: what stitchers fix and break, and the cosine of one voice."""

from collections import Counter
from math import inf
from pathlib import Path

import numpy as np
import pytest

from espnet_ext.multitalker.heard.hypotheses import WindowHypothesis, write_jsonl
from espnet_ext.recipe.run import load_script
from espnet_ext.stitcher.simulated_errors import spoken_words
from espnet_ext.text.turns import Turn, write_turns

LOCAL = Path(__file__).parents[2] / "egs" / "libricss_stitch" / "local"
fixed = load_script(LOCAL / "fixed_and_broken.py")
voice = load_script(LOCAL / "same_voice.py")


def test_the_distance_is_that_of_the_window_in_whose_middle_a_word_lies():
    windows = [WindowHypothesis("r", number, "a", (), 3.0 * number, 3.0 * number + 6) for number in range(3)]
    words = spoken_words([Turn("r", "a", tuple("ABCDEF"), 0.0, 12.0)])  # middles 1, 3, 5, 7, 9, 11
    found = [fixed.from_edge(word, windows) for word in words]
    assert found == [5.0, 3.0, 2.0, 2.0, 3.0, 5.0]
    assert fixed.from_edge(words[0], windows[:1]) == inf  # one window: no edge cuts anything


def test_words_are_fixed_broken_and_inserted(tmp_path):
    write_turns(tmp_path / "references.json", [Turn("r", "a", ("ONE", "TWO", "THREE", "FOUR"), 0.0, 4.0)])
    heard = ("ONE", "TOO", "THREE", "FOUR", "FIVE")
    times = tuple((0.9 * place, 0.9 * place + 0.5) for place in range(5))
    write_jsonl(tmp_path / "heard.jsonl", [WindowHypothesis("r", 0, "a", heard, 0.0, 5.0, times)])
    write_turns(tmp_path / "stitched.json", [Turn("r", "a", ("ONE", "TWO", "FREE", "FOUR"))])
    counts: dict[str, Counter] = {}
    for what, place, count in fixed.changes(
        *(tmp_path / name for name in ("references.json", "heard.jsonl", "stitched.json"))
    ):
        counts.setdefault(place, Counter())[what] += count
    by_length = {"fixed": 1, "broken": 1, "unchanged": 2, "merged insertions": 1, "stitched insertions": 0}
    assert counts["up to 10 words"] == by_length
    assert counts["over 3 s from an edge"] == {"fixed": 1, "broken": 1, "unchanged": 2}


@pytest.mark.parametrize("seed", range(3))
def test_the_equal_error_is_the_best_of_all_thresholds(seed):
    rng = np.random.default_rng(seed)
    same, other = rng.normal(0.8, 0.1, 50), rng.normal(0.5, 0.1, 70)
    threshold, error = voice.equal_error(same, other)
    apart = [abs((same < limit).mean() - (other >= limit).mean()) for limit in np.concatenate([same, other])]
    assert abs((same < threshold).mean() - (other >= threshold).mean()) == pytest.approx(min(apart))
    assert error == pytest.approx(((same < threshold).mean() + (other >= threshold).mean()) / 2)
    np.testing.assert_array_equal(voice.middle(np.arange(10), 4), [3, 4, 5, 6])
    assert len(voice.middle(np.arange(3), 4)) == 3
