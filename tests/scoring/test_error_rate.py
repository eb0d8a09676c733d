"""Counts against jiwer, kaldialign and a plain table of edit distances; intervals
against draws written out.
"""

import time

import jiwer
import kaldialign
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from espnet_ext.errors import InputError
from espnet_ext.scoring import error_rate
from espnet_ext.scoring.error_rate import (
    ErrorRate,
    align,
    bootstrap_interval,
    count_errors,
    count_pairs,
)

# Few different words make many ties; the odd ones are what a table of symbols or a
# terminal may stumble over.
WORDS = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "A",
        "*",
        "***",
        "<eps>",
        "你好",
        "你",
        "é",
        "e\u0301",
        "\u0301",
        "🙂",
        "-1",
        "0",
    ]
)
REFERENCES = st.lists(WORDS, min_size=1, max_size=12)
HYPOTHESES = st.lists(WORDS, max_size=12)


def cheapest_splits(
    reference: list[str], hypothesis: list[str]
) -> tuple[int, int, int]:
    """Fewest errors, and the fewest and most substitutions with which they can be had;
    the textbook's table.
    """
    previous = [(column, 0, 0) for column in range(len(hypothesis) + 1)]
    for row, word in enumerate(reference, start=1):
        current = [(row, 0, 0)]
        for column, other in enumerate(hypothesis, start=1):
            differs = word != other
            errors, fewest, most = previous[column - 1]
            ways = [(errors + differs, fewest + differs, most + differs)]
            ways += [
                (errors + 1, fewest, most)
                for errors, fewest, most in (previous[column], current[-1])
            ]
            least = min(way[0] for way in ways)
            ways = [way for way in ways if way[0] == least]
            current.append(
                (least, min(way[1] for way in ways), max(way[2] for way in ways))
            )
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
    assert counts.reference_length - counts.deletions + counts.insertions == len(
        hypothesis
    )

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


def test_empty_sides():
    assert count_errors([], ()) == ErrorRate(0, 0, 0, 0)
    assert count_errors(["a", "b"], []) == ErrorRate(0, 0, 2, 0)
    assert count_errors([], ["a", "b"]) == ErrorRate(0, 0, 0, 2)
    assert align([], ["a"]) == [(None, "a")]
    assert align(["a"], []) == [("a", None)]


def test_long_texts_take_seconds_and_little_memory():
    """144,000 characters, a recording of three hours: kaldialign would take four
    minutes and 83 GB.
    """
    spoken = list("a recording of three hours, in characters ") * 3430
    recognised = [mark for place, mark in enumerate(spoken) if place % 50] + ["x"]
    began = time.process_time()
    counts = count_errors(spoken, recognised)
    assert counts.errors == len(spoken) - len(recognised) + 2 and counts == count_pairs(
        align(spoken, recognised)
    )
    assert time.process_time() - began < 30


@pytest.mark.parametrize("function", [count_errors, align])
def test_plain_text_is_refused(function):
    with pytest.raises(TypeError, match="lists of words"):
        function("the cat", "the hat")
    with pytest.raises(TypeError, match="lists of words"):
        function(["the"], "the")
    with pytest.raises(ValueError, match="empty string"):
        align(["a", ""], ["a"])


def test_error_rates_add_up():
    total = sum(
        [ErrorRate(1, 2, 3, 4), ErrorRate(10, 20, 30, 40)], start=ErrorRate(0, 0, 0, 0)
    )
    assert total == ErrorRate(11, 22, 33, 44)
    assert (total.errors, total.reference_length) == (99, 66)
    assert total.rate == 1.5
    with pytest.raises(TypeError):
        total + 1


def test_implausible_error_rates_are_refused():
    with pytest.raises(ValueError, match="negative"):
        ErrorRate(1, 0, -1, 0)
    with pytest.raises(InputError, match="empty reference"):
        _ = ErrorRate(0, 0, 0, 3).rate


def made_up_set(
    seed: int, number: int = 400, with_none: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Errors and lengths of a test set whose utterances are of different difficulty."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 40, number)
    errors = generator.binomial(lengths, 0.1 * generator.uniform(0, 2, number))
    if (
        with_none
    ):  # none of the tokens that count, such as English words; insertions may be there
        lengths[::3] = 0
    return errors, lengths


def counts_of(errors, lengths) -> list[ErrorRate]:
    """Counts with as many errors: substitutions, and insertions where the reference is
    too short.
    """
    wrong = [
        (min(error, length), error, length)
        for error, length in zip(errors, lengths, strict=True)
    ]
    return [
        ErrorRate(int(n - sub), int(sub), 0, int(error - sub))
        for sub, error, n in wrong
    ]


@pytest.mark.parametrize("with_none", [False, True])
def test_interval_equals_drawing_utterances(with_none):
    errors, lengths = made_up_set(0, with_none=with_none)
    generator = np.random.default_rng(1)
    drawn = [generator.integers(0, len(errors), len(errors)) for _ in range(10_000)]
    expected = np.quantile(
        [errors[chosen].sum() / lengths[chosen].sum() for chosen in drawn],
        [0.025, 0.975],
    )
    interval = bootstrap_interval(counts_of(errors, lengths), seed=2)
    # A 2.5th percentile of 10,000 draws has a standard error of 1.1% of the width of
    # the interval.
    assert np.abs(np.array(interval) - expected).max() < 0.06 * (
        expected[1] - expected[0]
    )


def test_interval_agrees_with_kaldialign():
    generator = np.random.default_rng(3)
    references = [
        [str(word) for word in generator.integers(0, 50, length)]
        for length in generator.integers(5, 30, 200)
    ]
    hypotheses = [
        [word if generator.random() > 0.1 else "x" for word in text]
        for text in references
    ]
    low, high = bootstrap_interval(
        [count_errors(*pair) for pair in zip(references, hypotheses, strict=True)]
    )
    peer = kaldialign.bootstrap_wer_ci(
        references, hypotheses, seed=1
    )  # mean and 1.96 standard deviations
    assert low == pytest.approx(peer["ci95min"], abs=0.08 * 2 * peer["ci95"])
    assert high == pytest.approx(peer["ci95max"], abs=0.08 * 2 * peer["ci95"])


def test_interval_covers_the_true_rate_nineteen_times_in_twenty():
    covered = 0
    for seed in range(200):
        low, high = bootstrap_interval(
            counts_of(*made_up_set(seed, number=100)), replicas=300
        )
        covered += low <= 0.1 <= high
    assert stats.binomtest(covered, 200, 0.95).pvalue > 1e-4


def test_interval_is_seeded_and_does_not_depend_on_the_memory_it_takes(monkeypatch):
    counts = counts_of(*made_up_set(1))
    first = bootstrap_interval(counts, replicas=1000, seed=5)
    assert first != bootstrap_interval(counts, replicas=1000, seed=6)
    monkeypatch.setattr(error_rate, "_CHUNK_CELLS", 7)
    assert first == bootstrap_interval(counts, replicas=1000, seed=5)


def test_interval_of_few_utterances():
    assert bootstrap_interval(counts_of([0, 0, 0], [3, 4, 5])) == (0, 0)
    assert bootstrap_interval(counts_of([30, 60], [10, 20])) == (
        3,
        3,
    )  # insertions only
    # Only one has a reference, and draws without it are left out; it is drawn k times
    # with probability b(k; 3, 1/3).
    assert bootstrap_interval(counts_of([1, 1, 0], [4, 0, 0])) == (0.25, 2 / 4 + 1 / 4)
    for counts in ([], counts_of([1], [0])):
        with pytest.raises(ValueError, match="no utterance with a reference"):
            bootstrap_interval(counts)
