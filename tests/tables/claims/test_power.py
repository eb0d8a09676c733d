"""What a design can see, against simulated experiments and tables of the chi-square distribution."""

import math

import numpy as np
import pytest
from scipy import stats

from espnet_ext.tables.claims.power import Components, chance_of_words, components_of, smallest_difference, spread_of


@pytest.mark.parametrize(("seeds", "claims"), [(3, 1), (5, 1), (10, 18)])
def test_found_as_often_as_it_says_in_simulated_experiments(seeds, claims):
    sd = 0.7
    effect = smallest_difference(sd, seeds, claims)
    draws = np.random.default_rng(0).normal(0, sd, (2, 40000, seeds))
    p_values = stats.ttest_rel(draws[0] + effect, draws[1], axis=1).pvalue
    assert (p_values < 0.05 / claims).mean() == pytest.approx(0.8, abs=0.01)


def test_more_seeds_see_less_and_more_claims_need_more():
    assert smallest_difference(1, 10) < smallest_difference(1, 5) < smallest_difference(1, 5, claims=18)


def test_the_spread_of_a_pilot_has_the_interval_of_the_tables():
    spread = spread_of([10.0, 11.0, 12.0])
    assert spread.sd == pytest.approx(1)
    assert spread.ci95 == pytest.approx((0.5207, 6.2847), abs=1e-3)  # known factors for two degrees of freedom


def test_components_are_those_of_simulated_differences():
    """Means over many pilots, against the variances they were drawn with; and the spread of a longer experiment."""
    draw = np.random.default_rng(0).normal
    seeds, units, rounds = 6, 8, 4000
    sizes = (0.5, 1.2, 2.0)  # standard deviations: seed, unit, rest
    parts = [
        draw(0, sd, (rounds, *shape)) for sd, shape in zip(sizes, ((seeds, 1), (1, units), (seeds, units)), strict=True)
    ]
    found = [components_of(pilot) for pilot in sum(parts)]
    assert np.mean([each.unit for each in found]) == pytest.approx(sizes[1] ** 2, rel=0.05)
    assert np.mean([each.rest for each in found]) == pytest.approx(sizes[2] ** 2, rel=0.05)
    once = Components(*(sd**2 for sd in sizes))
    assert sum(parts).mean(axis=(1, 2)).std() == pytest.approx(once.standard_error(seeds, units), rel=0.05)
    thrice = parts[0] + parts[1] + parts[2] / np.sqrt(3)
    assert thrice.mean(axis=(1, 2)).std() == pytest.approx(once.standard_error(seeds, units, longer=3), rel=0.05)


@pytest.mark.parametrize(("sd_unit", "sd_utterance"), [(0.0, 1.0), (5.0, 1.0)])
def test_what_units_differ_by_because_of_their_words_is_told_from_what_they_are(sd_unit, sd_utterance):
    """Simulated errors of utterances: each unit has a rate, each utterance another, each training some chance."""
    draw = np.random.default_rng(1)
    seeds, units, utterances, rounds = 4, 12, 30, 300
    names = [str(index) for index in range(units) for _ in range(utterances)]
    found, spread = [], []
    for _ in range(rounds):
        words = draw.integers(5, 12, units * utterances)
        rates = np.repeat(draw.normal(0, sd_unit / 100, units), utterances)
        own = draw.normal(0, sd_utterance, units * utterances)
        errors = words * rates + own + draw.normal(0, 0.8, (seeds, units * utterances))
        sums = errors.reshape(seeds, units, -1).sum(-1) / words.reshape(units, -1).sum(-1)
        found.append(chance_of_words(components_of(100 * sums), words, errors, names))
        spread.append(100 * own.reshape(units, -1).sum(-1) / words.reshape(units, -1).sum(-1))
    chance, unit, rest = np.var(spread), np.mean([each.unit for each in found]), np.mean([each.rest for each in found])
    words = np.mean([each.words for each in found])
    assert unit == pytest.approx(chance + sd_unit**2, rel=0.12)
    if not sd_unit:  # of one pilot, no more than the units' component, which chance often makes too small
        assert 0.75 * unit < words <= unit
        return
    assert words == pytest.approx(chance, rel=0.12)
    halved = Components(0.0, unit, rest, words).standard_error(seeds, 2 * units, longer=0.5)
    assert halved == pytest.approx(math.sqrt((2 * chance + sd_unit**2 + 2 * rest / seeds) / (2 * units)), rel=0.05)


def test_a_component_is_not_below_zero_and_one_seed_has_none():
    assert components_of([[1, -1], [-1, 1]]) == Components(0, 0, 4)
    with pytest.raises(ValueError, match="two seeds"):
        components_of([[1, 2, 3]])


def test_one_training_has_no_spread():
    with pytest.raises(ValueError, match="at least two"):
        spread_of([10.0])
