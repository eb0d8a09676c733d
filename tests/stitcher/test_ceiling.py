"""The ceiling of merging: the best of all choices, by trying them all out."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.multitalker.heard.hypotheses import WindowHypothesis, write_jsonl
from espnet_ext.scoring.error_rate import count_errors
from espnet_ext.stitcher.ceiling import best_choice, slots_of, write_ceiling
from espnet_ext.text.turns import Turn, read_turns, write_turns

SLOTS = st.lists(st.sampled_from([("A",), ("B",), ("A", None), ("A", "B"), ("C", "B")]), max_size=6)


@settings(max_examples=200)
@given(SLOTS, st.lists(st.sampled_from("ABC"), max_size=6))
def test_no_choice_has_fewer_errors(slots, reference):
    found = best_choice(slots, reference)
    every = [tuple(word for word in choice if word) for choice in itertools.product(*slots)]
    assert found in every
    assert count_errors(reference, found).errors == min(count_errors(reference, each).errors for each in every)


def window(index: int, *words: tuple[str, float]) -> WindowHypothesis:
    times = tuple((at, at + 0.5) for _, at in words)
    return WindowHypothesis("r", index, "a", tuple(word for word, _ in words), 8.0 * index, 8.0 * index + 16, times)


def test_what_can_be_chosen():
    """A word that another window could have heard, and did not, can be left out; other lone words cannot."""
    windows = [window(0, ("A", 2), ("B", 9), ("X", 12)), window(1, ("C", 9), ("D", 13.5), ("E", 20)), window(2)]
    assert slots_of(windows) == [("A",), ("B", "C"), ("X", None), ("D", None), ("E", None)]


def test_the_ceiling_of_a_set(tmp_path):
    nobody = WindowHypothesis("s", 0, "", (), 0.0, 16.0)
    write_jsonl(tmp_path / "heard.jsonl", [window(0, ("A", 2), ("B", 9)), window(1, ("C", 9)), nobody])
    said = [Turn("r", "a", ("A", "C"), 0.0, 12.0), Turn("s", "a", ("A",), 0.0, 1.0)]
    write_turns(tmp_path / "said.json", said)
    write_ceiling(tmp_path / "heard.jsonl", tmp_path / "said.json", tmp_path / "out.json")
    assert read_turns(tmp_path / "out.json") == [Turn("r", "a", ("A", "C")), Turn("s", "", ())]
