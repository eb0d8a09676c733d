"""Selections of utterances against brute force, and the files that they leave."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.sem.curriculum import (
    Selection,
    read_audio_share,
    select_utterances,
    write_selection,
)

LENGTHS = st.dictionaries(
    st.text("abc", min_size=1, max_size=4),
    st.tuples(st.integers(1, 9), st.integers(1, 40)),
)


@given(LENGTHS, st.integers(1, 9), st.integers(1, 40))
def test_the_shortest_of_a_mean_length(lengths, max_tokens, mean):
    """As many of the shortest as have at most this mean: one more would be too many."""
    tokens, characters = (
        {key: value[place] for key, value in lengths.items()} for place in (0, 1)
    )
    kept = [key for key in tokens if tokens[key] <= max_tokens]
    assert select_utterances(tokens, characters, Selection(max_tokens)) == kept
    found = select_utterances(tokens, characters, Selection(max_tokens, mean))
    left = sorted(characters[key] for key in kept if key not in found)
    assert sum(characters[key] for key in found) <= mean * len(found)
    if left:
        assert sum(characters[key] for key in found) + left[0] > mean * (len(found) + 1)
        assert all(characters[key] <= left[0] for key in found)


def test_parts_by_the_endings_of_ids():
    tokens = {
        "1-2-3-train-clean-100": 3,
        "1-2-3-train-other-500": 3,
        "4-train-clean-360": 3,
    }
    chosen = select_utterances(
        tokens, tokens, Selection(parts=("train-clean-100", "train-clean-360"))
    )
    assert chosen == ["1-2-3-train-clean-100", "4-train-clean-360"]


def test_files(tmp_path):
    write_table(
        tmp_path / "text", {"a": "ONE TWO", "b": "ONE", "c": "THREE THREE THREE"}
    )
    write_table(tmp_path / "speech_shape", {"a": "3000", "b": "1000", "c": "6000"})
    write_table(tmp_path / "text_shape.bpe", {"a": "4,60", "b": "2,60", "c": "9,60"})
    output = tmp_path / "speech_shape.tokens5"
    write_selection(tmp_path / "text", str(tmp_path), "bpe", Selection(5), str(output))
    assert read_table(output) == {"a": "3000", "b": "1000"}
    assert json.loads((tmp_path / "speech_shape.tokens5.json").read_text()) == {
        "utterances": 2, "of": 3, "audio_share": 0.4
    }  # fmt: skip
    assert (
        read_audio_share(output) == 0.4
        and Selection(5).name == "tokens5"
        and Selection(60, 75, ("a",)).name
    )
    with pytest.raises(InputError, match="no utterance is short enough"):
        write_selection(
            tmp_path / "text", str(tmp_path), "bpe", Selection(1), str(output)
        )
    write_table(tmp_path / "speech_shape", {"a": "3000", "b": "1000"})
    with pytest.raises(InputError, match="its shapes are not of"):
        write_selection(
            tmp_path / "text", str(tmp_path), "bpe", Selection(5), str(output)
        )
