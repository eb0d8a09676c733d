"""Which words are lost near the edges of windows, counted by hand."""

import pytest
from count_errors import added, count_errors

from espnet_ext.data.transcript import Word
from espnet_ext.errors import InputError

WORDS = [Word("a", 0.0, 0.4), Word("b", 4.0, 4.5), Word("c", 4.5, 5.5), Word("d", 5.5, 6.0), Word("e", 9.0, 9.2)]


def test_deletions_near_edges():
    """Edges at 5, 10 ...: b and c end 0.5 s beside one, e 0.8 s; the beginning of the recording is none."""
    pairs = [("a", None), ("b", None), ("c", "c"), (None, "x"), ("d", "y"), ("e", None)]
    found = count_errors(pairs, WORDS, step=5.0)
    assert found == {"words": 5, "substituted": 1, "deleted": 3, "inserted": 1, "near": 2, "near_deleted": 1}
    assert added([found, found])["deleted"] == 6


def test_an_alignment_of_other_words_is_refused():
    with pytest.raises(InputError, match="decode and score again"):
        count_errors([("z", "z")], WORDS, step=5.0)
