"""Test claims: two systems on seeds crossed with units (speakers or recordings).

``docs/statistics.md`` says why it is tested like this.

Errors vary with the training (seed) and with the unit at once; both count. The variance
is that of two-way clustering (Cameron, Gelbach and Miller, "Robust inference with
multiway clustering", Journal of Business & Economic Statistics 29(2), 2011), the
degrees of freedom those of a sum of two variances (Satterthwaite, "An approximate
distribution of estimates of variance components", Biometrics Bulletin 2(6), 1946).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

# The t distribution; scipy.stats, which has it too, takes seconds to import.
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]

# For a verdict: with two, a t test has one degree of freedom and sees nothing.
LEAST_SEEDS = 3
# With fewer units, an exact sign-flip test must agree: it tries 2^n signs of n units.
EXACT_BELOW = 12
LEAST_P = 1e-4  # nobody knows the tails of so few trainings further out


@dataclass(frozen=True)
class CrossedTest:
    """The outcome of a test; rates are fractions."""

    difference: float  # rate of ``worse`` minus rate of ``better``, mean over seeds
    # Two-sided, of equally good systems; None below two seeds or two units.
    p_value: float | None
    least_p: float  # the smallest p-value that the design can give
    seeds: int  # trainings that differ: those with the same output are one
    units: int  # speakers or recordings
    # Standard error of the difference, its degrees of freedom; None as ``p_value``.
    spread: tuple[float, float] | None

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95% interval of the difference."""
        return self.compute_interval(0.95)

    def compute_interval(self, level: float) -> tuple[float, float] | None:
        """Compute an interval of the difference, for other trainings and other units.

        ``level`` is a fraction, such as 0.95. None as ``p_value``.
        """
        if self.spread is None:
            return None
        error, freedom = self.spread
        # The t quantile with half of the rest above it: the interval is two-sided.
        margin = float(stdtrit(freedom, (1 + level) / 2)) * error
        return self.difference - margin, self.difference + margin


@dataclass(frozen=True)
class _Gains:
    """Errors of ``worse`` minus those of ``better``, (seeds, units)."""

    errors: Floats
    lengths: Floats  # words of the reference, (units,)

    @property
    def units(self) -> int:
        """How many there are."""
        return len(self.lengths)

    @property
    def rates(self) -> Floats:
        """The difference of rates of each seed, (seeds,)."""
        return self.errors.sum(axis=1) / self.lengths.sum()

    @property
    def deviations(self) -> Floats:
        """How much each unit moves each seed's rate from what its length would.

        A rate is a ratio of sums, R = sum of errors / sum of lengths. Its change with
        unit u is, to first order, (errors_u - R lengths_u) / sum of lengths (Cochran,
        Sampling Techniques, 1977, chapter 6); over units they add up to 0.
        (seeds, units).
        """
        expected = np.outer(self.rates, self.lengths)
        return (self.errors - expected) / self.lengths.sum()


def run_crossed_test(
    better: ArrayLike, worse: ArrayLike, words: ArrayLike, *, fewest: bool = False
) -> CrossedTest:
    """Test whether two systems differ, on other trainings and other units than these.

    ``better`` and ``worse`` are errors, or changes of their number, (seeds, units),
    paired by seed; ``words`` is the reference length of each unit, (units,), which may
    be 0. ``fewest`` is an earlier, too strict rule: the degrees of freedom of the
    direction that has fewer. Raises ValueError: shapes that differ, nothing to test, or
    no words.
    """
    gains = _subtract_errors(better, worse, words)
    different = _count_different_seeds(better, worse)
    spread = None
    if different > 1 and gains.units > 1:
        spread = _estimate_standard_error(gains, fewest)
    return _test_difference(gains, different, spread)


def run_outputs_test(
    better: ArrayLike, worse: ArrayLike, words: ArrayLike
) -> CrossedTest:
    """Test whether the outputs at hand differ, on other units than these.

    It says nothing about other trainings: the only test that one or two seeds allow.
    The variance is that over units, of errors summed over seeds; fewer than
    ``EXACT_BELOW`` units must also pass the exact test. Arguments and errors are those
    of :func:`run_crossed_test`.
    """
    gains = _subtract_errors(better, worse, words)
    different = _count_different_seeds(better, worse)
    spread = None
    if gains.units > 1:
        error = float(np.sqrt(_estimate_unit_variance(gains)))
        spread = (error, _count_freedom(gains.lengths))
    return _test_difference(gains, different, spread)


def _test_difference(
    gains: _Gains, different: int, spread: tuple[float, float] | None
) -> CrossedTest:
    """Test a mean difference by its standard error and degrees of freedom.

    ``spread`` has the two, None if unknown; ``different`` is the number of seeds.
    """
    exact = gains.units < EXACT_BELOW
    # If all units agree, two of the 2^n signs are as extreme: p is 2 / 2^n.
    least = max(LEAST_P, 2.0 ** (1 - gains.units)) if exact else LEAST_P
    difference = float(gains.rates.mean())
    p_value = None
    if spread is not None:
        p_value = _compute_t_test_p(difference, *spread)
        if exact:
            units = gains.errors.sum(axis=0)
            p_value = max(p_value, compute_sign_flip_p(units))
        p_value = min(1.0, max(p_value, least))
    return CrossedTest(
        difference=difference,
        p_value=p_value,
        least_p=least,
        seeds=different,
        units=gains.units,
        spread=spread,
    )


def _compute_t_test_p(difference: float, error: float, freedom: float) -> float:
    """Compute the two-sided p-value of a difference by its standard error."""
    if difference == 0:
        return 1.0
    # All units gain alike. The caller allows no p-value below the design's least.
    if error == 0:
        return 0.0
    return 2 * float(stdtr(freedom, -abs(difference) / error))


def _count_different_seeds(better: ArrayLike, worse: ArrayLike) -> int:
    """Count the seeds that differ; those of the same outputs are one observation.

    So it is with systems that have no training of their own, whatever seeds they had.
    """
    # Side by side: a seed is another one if either system differs.
    both = np.concatenate([np.asarray(better), np.asarray(worse)], axis=1)
    return len(np.unique(both, axis=0))


def compute_sign_flip_p(gains: ArrayLike) -> float:
    """Compute the exact two-sided p-value of a sign-flip test of paired differences.

    All 2^n signs of the differences, (n,), are tried: if systems are equally good, each
    difference might as well have the other sign. Memory grows with 2^n n.

    Five recordings that agree say no more than this:

    >>> compute_sign_flip_p([3, 1, 2, 5, 4])
    0.0625
    """
    values = np.asarray(gains, dtype=float)
    signs = list(product((1, -1), repeat=len(values)))
    sums = np.array(signs) @ values
    found = abs(values.sum())
    # Sums that are equal in exact numbers may differ in their last bits.
    at_least = (sums > found) | np.isclose(sums, found)
    # One tail, and twice that: for each choice of signs the opposite one is there too.
    p_value = 2 * np.mean(at_least)
    return float(min(1.0, p_value))


def estimate_interval(
    errors: ArrayLike, words: ArrayLike
) -> tuple[float, float] | None:
    """Estimate the 95% interval of an error rate on other units; None below two units.

    The interval holds for the trainings that are there: a t interval of a ratio of
    sums, with units as clusters, the same for one seed and for the mean of several.
    ``errors`` is (seeds, units), ``words`` (units,), as of :func:`run_crossed_test`;
    the ends are fractions, the lower at least 0.
    """
    given = np.asarray(errors)
    # A system minus one without errors is the system.
    perfect = np.zeros_like(given)
    counts = _subtract_errors(perfect, given, words)
    if counts.units < 2:
        return None
    means = counts.errors.mean(axis=0)
    rate = float(means.sum() / counts.lengths.sum())
    error = float(np.sqrt(_estimate_unit_variance(counts)))
    freedom = _count_freedom(counts.lengths)
    margin = float(stdtrit(freedom, 0.975)) * error
    return max(0.0, rate - margin), rate + margin


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number, in the same order.

    By Holm (Scandinavian Journal of Statistics 6(2), 1979): if those at most 0.05 are
    called, the chance of any wrong call among all is at most 0.05.

    >>> correct_by_holm([0.01, 0.04, 0.02])
    [0.03, 0.04, 0.04]
    """
    factors = list_holm_factors(p_values, len(p_values))
    return multiply_in_order(p_values, factors)


def list_holm_factors(p_values: Sequence[float], number: int) -> list[int]:
    """List by what Holm multiplies each p-value.

    The smallest by the ``number`` of tests, which may be more than there are p-values,
    the next by one less.

    >>> list_holm_factors([0.01, 0.04, 0.02], 4)
    [4, 2, 3]
    """
    factors = [number] * len(p_values)
    for rank, place in enumerate(_sort_places(p_values)):
        factors[place] = max(1, number - rank)
    return factors


def multiply_in_order(p_values: Sequence[float], factors: Sequence[int]) -> list[float]:
    """Multiply p-values; none comes out below that of a smaller one, or above 1.

    Otherwise a smaller factor could call the larger of two p-values alone.
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for place in _sort_places(p_values):
        multiplied = factors[place] * p_values[place]
        highest = max(highest, min(1.0, multiplied))
        corrected[place] = highest
    return corrected


def _sort_places(p_values: Sequence[float]) -> list[int]:
    """Return the places of p-values, the smallest first."""
    return sorted(range(len(p_values)), key=lambda place: p_values[place])


def _subtract_errors(better: ArrayLike, worse: ArrayLike, words: ArrayLike) -> _Gains:
    """Subtract the errors of one system from those of another.

    Raises ValueError: as :func:`run_crossed_test`.
    """
    first = np.asarray(better, dtype=np.float64)
    second = np.asarray(worse, dtype=np.float64)
    lengths = np.asarray(words, dtype=np.float64)
    paired = first.ndim == 2 and first.shape == second.shape
    if not paired or lengths.shape != first.shape[1:]:
        raise ValueError(
            "need errors of (seeds, units) and words of (units,), got shapes "
            f"{first.shape}, {second.shape} and {lengths.shape}"
        )
    if not first.size:
        raise ValueError("there is no seed or no unit to test")
    if lengths.min() < 0 or not lengths.any():
        raise ValueError("lengths of references must be at least 0, and one above 0")
    return _Gains(second - first, lengths)


def _estimate_standard_error(gains: _Gains, fewest: bool) -> tuple[float, float]:
    """Estimate the mean difference's standard error and its degrees of freedom."""
    seeds = len(gains.errors)
    over_seeds = float(gains.rates.var(ddof=1)) / seeds
    over_units = _estimate_unit_variance(gains)
    # Cameron, Gelbach and Miller: V = V_seeds + V_units - V_both. What is particular to
    # one seed on one unit is in each of the first two, and so would be counted twice.
    # V_both is an estimate, too: where it is large by chance, V must not come out below
    # what one direction alone gives.
    both = _estimate_interaction(gains)
    variance = max(over_seeds + over_units - both, over_seeds, over_units)
    seed_freedom = seeds - 1.0
    unit_freedom = _count_freedom(gains.lengths)
    freedom = min(seed_freedom, unit_freedom)
    # Satterthwaite: for a sum of variances, V^2 / (V_1^2 / f_1 + V_2^2 / f_2). Of a sum
    # it is at least the smaller of f_1 and f_2, but here V_both is subtracted.
    seed_part = over_seeds**2 / seed_freedom
    unit_part = over_units**2 / unit_freedom
    parts = seed_part + unit_part
    if not fewest and parts > 0:
        freedom = max(freedom, variance**2 / parts)
    return float(np.sqrt(variance)), freedom


def _estimate_unit_variance(gains: _Gains) -> float:
    """Estimate the variance over units of the rate that is the mean over seeds."""
    units = gains.units
    # Of each unit its mean over seeds: a unit is one cluster, all of its seeds.
    means = gains.deviations.mean(axis=0)
    squares = float((means**2).sum())
    # n / (n - 1): the usual correction for few clusters, as in a sample variance.
    return units / (units - 1) * squares


def _estimate_interaction(gains: _Gains) -> float:
    """Estimate the variance that is particular to one seed on one unit."""
    seeds, units = gains.errors.shape
    deviations = gains.deviations
    rest = deviations - deviations.mean(axis=0)
    squares = float((rest**2).sum())
    # Both counts lose one: the means over seeds are subtracted here, and deviations add
    # up to 0 over units. Another factor of seeds makes it that of a mean over seeds.
    return units / (units - 1) * squares / (seeds * (seeds - 1))


def _count_freedom(lengths: Floats) -> float:
    """Count the degrees of freedom of the units: their number minus one, or fewer.

    Fewer if a few hold most of the words. Deviations grow with a unit's length, so that
    their squares have weights w = length^2; Satterthwaite's formula for such a sum is
    (sum w)^2 / sum w^2, the number of units where all are equal.
    """
    weights = lengths**2
    total = weights.sum()
    effective = float(total**2 / (weights**2).sum())
    return max(1.0, effective - 1)
