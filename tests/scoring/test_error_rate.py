"""Counts against jiwer, kaldialign and a plain table of edit distances."""

import random

import jiwer
import kaldialign
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import ErrorRate, align, count_errors

# Few different words make many ties; the odd ones are what a table of symbols or a terminal may stumble over.
WORDS = st.sampled_from(
    ["a", "b", "c", "A", "*", "***", "<eps>", "你好", "你", "é", "e\u0301", "\u0301", "🙂", "-1", "0"]
)
REFERENCES = st.lists(WORDS, min_size=1, max_size=12)
HYPOTHESES = st.lists(WORDS, max_size=12)


def cheapest_splits(reference: list[str], hypothesis: list[str]) -> tuple[int, int, int]:
    """Fewest errors, and the fewest and most substitutions with which they can be had; the textbook's table."""
    previous = [(column, 0, 0) for column in range(len(hypothesis) + 1)]
    for row, word in enumerate(reference, start=1):
        current = [(row, 0, 0)]
        for column, other in enumerate(hypothesis, start=1):
            differs = word != other
            errors, fewest, most = previous[column - 1]
            ways = [(errors + differs, fewest + differs, most + differs)]
            ways += [(errors + 1, fewest, most) for errors, fewest, most in (previous[column], current[-1])]
            least = min(way[0] for way in ways)
            ways = [way for way in ways if way[0] == least]
            current.append((least, min(way[1] for way in ways), max(way[2] for way in ways)))
        previous = current
    return previous[-1]


def split_of(counts: ErrorRate) -> tuple[int, int, int]:
    return counts.substitutions, counts.deletions, counts.insertions


def check_against_peers(reference: list[str], hypothesis: list[str]) -> None:
    counts = count_errors(reference, hypothesis)
    errors, fewest, most = cheapest_splits(reference, hypothesis)
    assert counts.errors == errors
    assert fewest <= counts.substitutions <= most
    assert counts.reference_length == len(reference)
    assert counts.hypothesis_length == len(hypothesis)

    kaldi = kaldialign.edit_distance(reference, hypothesis)
    assert split_of(counts) == (kaldi["sub"], kaldi["del"], kaldi["ins"])

    peer = jiwer.process_words(" ".join(reference), " ".join(hypothesis))
    assert counts.errors == peer.substitutions + peer.deletions + peer.insertions
    if fewest == most:  # only one cheapest split: jiwer has no other choice
        assert split_of(counts) == (peer.substitutions, peer.deletions, peer.insertions)
        assert counts.correct == peer.hits


@given(REFERENCES, HYPOTHESES)
@example(["a", "b"], ["b", "a"])
@example(["a"], [])
@example(["a"], ["b"] * 12)
@example(["a"], ["a"] * 12)
@example(["a"] * 12, ["a"])
@example(["a", "b"] * 6, ["b", "a"] * 6)
@settings(max_examples=300)
def test_counts_equal_jiwer_kaldialign_and_the_textbook(reference, hypothesis):
    check_against_peers(reference, hypothesis)


@pytest.mark.parametrize("vocabulary", [2, 50, 5000])
def test_counts_of_long_random_text(vocabulary):
    generator = random.Random(vocabulary)
    words = [f"w{index}" for index in range(vocabulary)]
    for length in (1, 40, 300):
        reference = generator.choices(words, k=length)
        hypothesis = [w for w in reference if generator.random() > 0.1]
        hypothesis += generator.choices(words, k=length // 10)
        check_against_peers(reference, hypothesis)


def test_thousands_of_words():
    generator = random.Random(0)
    reference = generator.choices([f"w{index}" for index in range(2000)], k=6000)
    hypothesis = reference.copy()
    for place in range(0, 6000, 100):  # far apart, so that each stays one substitution
        hypothesis[place] = "other"
    hypothesis[50:51] = []
    hypothesis += ["more", "words"]
    assert count_errors(reference, hypothesis) == ErrorRate(5939, 60, 1, 2)


@given(REFERENCES, HYPOTHESES)
@settings(max_examples=200)
def test_alignment_holds_both_texts_and_agrees_with_the_counts(reference, hypothesis):
    pairs = align(reference, hypothesis)
    assert [left for left, _ in pairs if left is not None] == reference
    assert [right for _, right in pairs if right is not None] == hypothesis
    assert count_errors(reference, hypothesis) == ErrorRate(
        correct=sum(left == right for left, right in pairs),
        substitutions=sum(None not in pair and pair[0] != pair[1] for pair in pairs),
        deletions=sum(right is None for _, right in pairs),
        insertions=sum(left is None for left, _ in pairs),
    )


def test_empty_sides():
    assert count_errors([], []) == ErrorRate(0, 0, 0, 0)
    assert count_errors(["a", "b"], []) == ErrorRate(0, 0, 2, 0)
    assert count_errors([], ["a", "b"]) == ErrorRate(0, 0, 0, 2)
    assert align([], ["a"]) == [(None, "a")]
    assert align(["a"], []) == [("a", None)]


def test_any_sequence_of_strings_is_taken():
    assert count_errors(("a", "b"), ["a", "b"]) == ErrorRate(2, 0, 0, 0)
    assert align(("a", "b"), ["a", "b"]) == [("a", "a"), ("b", "b")]


def test_composed_and_decomposed_accents_differ():
    assert count_errors(["caf\u00e9"], ["cafe\u0301"]) == ErrorRate(0, 1, 0, 0)


@pytest.mark.parametrize("function", [count_errors, align])
def test_plain_text_is_refused(function):
    with pytest.raises(TypeError, match="lists of words"):
        function("the cat", "the hat")
    with pytest.raises(TypeError, match="lists of words"):
        function(["the"], "the")


def test_align_refuses_an_empty_word():
    with pytest.raises(ValueError, match="empty string"):
        align(["a", ""], ["a"])


def test_error_rates_add_up():
    total = sum([ErrorRate(1, 2, 3, 4), ErrorRate(10, 20, 30, 40)], start=ErrorRate(0, 0, 0, 0))
    assert total == ErrorRate(11, 22, 33, 44)
    assert (total.errors, total.reference_length, total.hypothesis_length) == (99, 66, 77)
    assert total.rate == 1.5
    with pytest.raises(TypeError):
        total + 1


def test_implausible_error_rates_are_refused():
    with pytest.raises(ValueError, match="negative"):
        ErrorRate(1, 0, -1, 0)
    with pytest.raises(InputError, match="empty reference"):
        _ = ErrorRate(0, 0, 0, 3).rate
    with pytest.raises(AttributeError):
        ErrorRate(1, 0, 0, 0).correct = 2
