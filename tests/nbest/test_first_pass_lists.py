"""Distinct hypotheses, and utterances that are longer than the model's window."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.codeswitch.text_rules import LIBRISPEECH
from espnet_ext.nbest.lists import Hypothesis, NBest
from espnet_ext.nbest.utterances import combine, cut, first_pass

SCORED = st.lists(
    st.tuples(st.sampled_from(["", "A", "B", "A B", "C"]), st.integers(-20, 0).map(float)),
    min_size=1,
    max_size=5,
    unique_by=lambda pair: pair[0],
).map(lambda piece: sorted(piece, key=lambda pair: -pair[1]))


def test_the_best_of_each_text_is_kept() -> None:
    found = [(" Ten cats.", -1.0), ("10 cats", -1.5), ("ten, cats", -2.0), ("Tin cats!", -2.5), ("Tint", -3.0)]
    lists = first_pass(
        "u", np.zeros(10), lambda _: found, rate=10, longest=2, rules=LIBRISPEECH, count=2, ref="Ten cats"
    )
    assert lists == NBest("u", (Hypothesis("TEN CATS", -1.0), Hypothesis("TIN CATS", -2.5)), "TEN CATS")


def test_a_list_may_stay_short_and_an_empty_text_is_a_hypothesis() -> None:
    lists = first_pass("u", np.zeros(5), lambda _: [("...", -1.0)], rate=10, longest=2, rules=LIBRISPEECH, count=5)
    assert lists == NBest("u", (Hypothesis("", -1.0),), None)


def test_long_audio_is_decoded_in_pieces() -> None:
    samples = np.concatenate([np.full(15, 1.0), np.zeros(4), np.full(11, 2.0)])

    def decode(piece: np.ndarray) -> list[tuple[str, float]]:
        word = "one" if piece.max() == 1 else "two"
        assert not {1.0, 2.0} <= set(piece)  # cut in the silence
        return [(word, -1.0), (f"{word} more", -1.5)]

    lists = first_pass("u", samples, decode, rate=10, longest=2, rules=LIBRISPEECH, count=3)
    assert [(hyp.text, hyp.score) for hyp in lists.hyps] == [
        ("ONE TWO", -2.0),
        ("ONE TWO MORE", -2.5),
        ("ONE MORE TWO", -2.5),
    ]


@given(st.lists(SCORED, min_size=1, max_size=3), st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_combinations_are_the_best_of_all(pieces: list, count: int) -> None:
    every: dict[str, float] = {}
    for choice in product(*pieces):
        text = " ".join(" ".join(text for text, _ in choice).split())
        every[text] = max(sum(score for _, score in choice), every.get(text, -math.inf))
    found = combine(pieces, count)
    assert found[0][1] == max(every.values())
    assert all(every[text] >= score for text, score in found)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert len({text for text, _ in found}) == len(found) <= count


@given(st.integers(1, 400), st.integers(20, 100), st.integers(0, 1000))
@settings(max_examples=200, deadline=None)
def test_pieces_are_short_enough_and_lose_nothing(length: int, longest: int, seed: int) -> None:
    samples = np.random.default_rng(seed).normal(size=length)
    pieces = cut(samples, longest, quiet=4)
    assert np.array_equal(np.concatenate(pieces), samples)
    assert len(pieces) == math.ceil(length / longest)
    assert all(0 < len(piece) <= longest for piece in pieces)


@pytest.mark.parametrize("quiet_at", [52, 60, 68])
def test_a_cut_is_where_it_is_quiet(quiet_at: int) -> None:
    samples = np.random.default_rng(1).normal(size=120)
    samples[quiet_at - 5 : quiet_at + 5] *= 0.01
    first, _ = cut(samples, 80, quiet=6)
    assert abs(len(first) - quiet_at) <= 5
