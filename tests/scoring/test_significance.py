"""The test for claims: against independent computations, and by simulation."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from bench_claims import Design, share_called
from scipy import stats

from espnet_ext.scoring.significance import (
    LEAST_P,
    compute_sign_flip_p,
    correct_by_holm,
    estimate_interval,
    run_crossed_test,
)


def experiment(seeds: int, units: int, effect: int = 0, seed: int = 0):
    generator = np.random.default_rng(seed)
    better = generator.poisson(30, (seeds, units))
    worse = generator.poisson(30 + effect, (seeds, units))
    words = generator.integers(80, 120, units)
    return better, worse, words


def test_the_variance_is_that_of_two_way_clustering():
    """Over seeds, plus over units, minus that of single cells: sums over clusters."""
    better, worse, words = experiment(5, 20, 2)
    gains = worse - better
    every = 5 * words.sum()  # words, of all seeds
    difference = gains.sum() / every
    scores = (gains - difference * words) / every  # of each seed and unit
    over_seeds = 5 / 4 * sum(row.sum() ** 2 for row in scores)
    over_units = 20 / 19 * sum(column.sum() ** 2 for column in scores.T)
    by_seed = gains.sum(axis=1) / words.sum()
    own = (gains - by_seed[:, None] * words) / every
    rest = own - own.mean(axis=0)
    cells = 20 / 19 * 5 / 4 * (rest**2).sum()
    variance = over_seeds + over_units - cells
    error = math.sqrt(max(variance, over_seeds, over_units))
    found = run_crossed_test(better, worse, words, fewest=True)
    assert found.difference == pytest.approx(difference)
    assert (found.seeds, found.units) == (5, 20)
    low, high = found.ci95
    margin = stats.t.ppf(0.975, 4) * error
    assert (high - low) / 2 == pytest.approx(margin, rel=1e-6)
    p_value = 2 * stats.t.sf(difference / error, 4)
    assert found.p_value == pytest.approx(p_value, rel=1e-6)
    # Satterthwaite: of the sum of both variances, each with the degrees of freedom of
    # its direction.
    lengths = words**2
    units = lengths.sum() ** 2 / (lengths**2).sum() - 1
    parts = over_seeds**2 / 4 + over_units**2 / units
    freedom = error**4 / parts
    found = run_crossed_test(better, worse, words)
    assert found.spread == pytest.approx((error, max(4, freedom)), rel=1e-6)


def test_exchanging_the_systems_exchanges_the_sign_only():
    better, worse, words = experiment(4, 15, 3)
    one = run_crossed_test(better, worse, words)
    other = run_crossed_test(worse, better, words)
    assert other.difference == -one.difference
    assert other.p_value == one.p_value
    low, high = one.ci95
    assert other.ci95 == pytest.approx((-high, -low))


def test_the_interval_leaves_out_zero_where_the_test_calls():
    for effect in range(8):
        found = run_crossed_test(*experiment(4, 30, effect, seed=effect))
        low, high = found.ci95
        leaves_out_zero = low > 0 or high < 0
        assert (found.p_value < 0.05) == leaves_out_zero


def test_few_seeds_with_equal_trainings_are_no_evidence():
    """Units agree on a difference that the trainings do not: the seeds decide."""
    words = np.full(40, 100)
    better = np.full((3, 40), 30)
    worse = better + np.array([[12], [-6], [3]])
    assert run_crossed_test(better, worse, words).p_value > 0.5
    # A test over units alone, which must vary a little, would call it.
    varied = better.sum(axis=0) + np.arange(40) % 2
    over_units = stats.ttest_rel(worse.sum(axis=0), varied)
    assert over_units.pvalue < 1e-6


def test_copies_of_one_training_count_as_one():
    better, worse, words = experiment(1, 20, 5)
    copies = np.repeat(better, 4, axis=0)
    other_copies = np.repeat(worse, 4, axis=0)
    found = run_crossed_test(copies, other_copies, words)
    assert (found.seeds, found.p_value, found.ci95) == (1, None, None)


@pytest.mark.parametrize("units", [4, 5, 6, 11])
def test_p_values_are_never_below_what_the_units_can_give(units: int):
    words = np.full(units, 100)
    generator = np.random.default_rng(0)
    better = generator.integers(10, 13, (6, units))
    worse = better + 30 + generator.integers(0, 2, (6, units))
    found = run_crossed_test(better, worse, words)
    least = max(2 / 2**units, LEAST_P)
    assert found.p_value == pytest.approx(least) == found.least_p


def test_p_values_are_never_below_what_few_trainings_can_tell():
    better, _, _ = experiment(3, 30)
    # No variance at all.
    worse = better + 20
    found = run_crossed_test(better, worse, np.full(30, 100))
    assert found.p_value == LEAST_P


def test_sign_flips_are_all_counted():
    gains = [4, -1, 3, 2, 0, 5]
    as_extreme = 0
    for signs in product((1, -1), repeat=6):
        flipped = [sign * gain for sign, gain in zip(signs, gains, strict=True)]
        as_extreme += abs(sum(flipped)) >= abs(sum(gains))
    assert compute_sign_flip_p(gains) == pytest.approx(as_extreme / 2**6)


def test_units_without_words_count_with_their_errors():
    better = [[1, 2, 0], [2, 1, 0], [1, 1, 0]]
    worse = [[1, 2, 3], [2, 2, 3], [1, 1, 4]]
    found = run_crossed_test(better, worse, [10, 10, 0])
    assert found.difference == pytest.approx(11 / 60)


@pytest.mark.parametrize(
    ("better", "worse", "words", "message"),
    [
        ([[1, 2]], [[1]], [5, 5], r"shapes \(1, 2\), \(1, 1\)"),
        ([[1, 2]], [[1, 2]], [5], r"and \(1,\)"),
        (np.zeros((0, 2)), np.zeros((0, 2)), [5, 5], "no seed or no unit"),
        ([[1, 2]], [[1, 2]], [0, 0], "one above 0"),
        ([[1, 2]], [[1, 2]], [-1, 5], "at least 0"),
    ],
)
def test_what_cannot_be_tested_is_refused(better, worse, words, message):
    with pytest.raises(ValueError, match=message):
        run_crossed_test(better, worse, words)


def test_holm_is_that_of_its_definition():
    p_values = [0.04, 0.001, 0.2, 0.01, 0.01]
    ordered = sorted(p_values)
    expected = []
    for p_value in p_values[:3]:
        smaller = range(ordered.index(p_value) + 1)
        multiplied = [min(1, (5 - rank) * ordered[rank]) for rank in smaller]
        expected.append(max(multiplied))
    found = correct_by_holm(p_values)
    assert found[:3] == pytest.approx(expected)
    assert found[3] == found[4] == pytest.approx(0.04)
    assert correct_by_holm([]) == []
    assert min(correct_by_holm([0.03, 0.03, 0.03])) > 0.05


def test_the_interval_of_a_rate_covers_it_as_often_as_it_says():
    generator = np.random.default_rng(1)
    words = generator.integers(50, 150, 25)
    hits = 0
    for _ in range(400):
        rates = np.clip(generator.normal(0.2, 0.06, 25), 0, 1)
        errors = generator.binomial(words, rates)
        low, high = estimate_interval([errors], words)
        hits += low <= 0.2 <= high
    assert 0.92 <= hits / 400 <= 0.98
    low, _ = estimate_interval([[0, 0, 1]], [10, 10, 10])
    assert low == 0.0
    assert estimate_interval([[3]], [10]) is None


def most_called(rounds: int) -> float:
    """The level of the test, and two standard errors of so many experiments."""
    return 0.05 + 2 * math.sqrt(0.05 * 0.95 / rounds)


@pytest.mark.parametrize(
    "design", [Design(3, 40, 0.045), Design(3, 8, 0.02), Design(10, 40, 0.06)]
)
def test_a_null_effect_is_called_at_most_five_times_in_a_hundred(design: Design):
    assert share_called(design, 0.0, 500) <= most_called(500)


def test_a_rule_of_failure_keeps_the_level():
    """Trainings that fail make the test call equal systems, if they are left in."""
    design = Design(10, 40, 0.01, failing=0.1, speaker_of_system=0.0)
    assert share_called(replace(design, equal=True), 0.0, 300) > 0.10
    assert share_called(replace(design, rule=True), 0.0, 300) <= most_called(300)


def test_an_effect_that_seeds_agree_on_is_found():
    assert share_called(Design(5, 40, 0.02), 0.10, 200) > 0.9
    assert share_called(Design(10, 40, 0.045), 0.10, 200) > 0.9
