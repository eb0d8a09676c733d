"""Which words are lost near the edges of windows, counted by hand."""

import pytest
from count_errors import added, count_errors, seconds_between_edges

from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.posteriors import MovingWindow
from espnet_ext.text.transcript import Word

WORDS = [Word("a", 0.0, 0.4), Word("b", 4.0, 4.5), Word("c", 4.5, 5.5), Word("d", 5.5, 6.0), Word("e", 9.0, 9.2)]


def test_deletions_near_edges():
    """Edges at 5, 10 ...: b and c end 0.5 s beside one, e 0.8 s; the beginning of the recording is none."""
    pairs = [("a", None), ("b", None), ("c", "c"), (None, "x"), ("d", "y"), ("e", None)]
    found = count_errors(pairs, WORDS, step=5.0)
    assert found == {"words": 5, "substituted": 1, "deleted": 3, "inserted": 1, "near": 2, "near_deleted": 1}
    assert added([found, found])["deleted"] == 6


def test_edges_are_where_decoding_moves_its_windows():
    """62 frames of 80 ms in 5 s, an eighth of which is 8 frames and a half 31; and what a decoder's windows do."""
    assert seconds_between_edges(5.0, 0.125) == pytest.approx(0.64)
    assert seconds_between_edges(5.0, 0.5) == pytest.approx(2.48)
    for context in (5.0, 10.0, 15.0, 20.0, 40.0):
        for stride in (0.125, 0.5):
            old = 0.08 * max(1, round(round(context / 0.08) * stride))  # the results that are kept
            assert seconds_between_edges(context, stride) == pytest.approx(old, rel=1e-12)


def test_the_windows_are_those_of_the_package(monkeypatch):
    import count_errors as script

    moved = [MovingWindow(0, 10, 0, 10), MovingWindow(7, 10, 7, 17)]
    monkeypatch.setattr(script, "windows", lambda *sizes: iter(moved))
    assert seconds_between_edges(5.0, 0.125) == pytest.approx(0.56)


def test_an_alignment_of_other_words_is_refused():
    with pytest.raises(InputError, match="decode and score again"):
        count_errors([("z", "z")], WORDS, step=5.0)
