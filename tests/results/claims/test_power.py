"""What a design can see, against simulated experiments and tables of the chi-square distribution."""

import numpy as np
import pytest
from scipy import stats

from espnet_ext.results.claims.power import Components, components_of, smallest_difference, spread_of


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


def test_a_component_is_not_below_zero_and_one_seed_has_none():
    assert components_of([[1, -1], [-1, 1]]) == Components(0, 0, 4)
    with pytest.raises(ValueError, match="two seeds"):
        components_of([[1, 2, 3]])


def test_one_training_has_no_spread():
    with pytest.raises(ValueError, match="at least two"):
        spread_of([10.0])
