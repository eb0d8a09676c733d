"""Tests for claims: two systems on seeds crossed with units (speakers or recordings).
``docs/statistics.md`` says why.

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
from scipy.special import (
    stdtr,
    stdtrit,
)  # of the t distribution; scipy.stats takes seconds to import

LEAST_SEEDS = (
    3  # for a verdict; with two, a t test has one degree of freedom and sees nothing
)
EXACT_BELOW = 12  # with fewer units, an exact sign-flip test must agree
LEAST_P = 1e-4  # nobody knows the tails of so few trainings further out


@dataclass(frozen=True)
class CrossedTest:
    """The outcome of a test; rates are fractions."""

    difference: float  # rate of ``worse`` minus rate of ``better``, mean over seeds
    p_value: (
        float | None
    )  # two-sided, of equally good systems; None below two seeds or two units
    least_p: float  # the smallest p-value that the design can give
    seeds: int  # trainings that differ: those with the same output are one
    units: int  # speakers or recordings
    spread: (
        tuple[float, float] | None
    )  # standard error of the difference, its degrees of freedom; None as ``p_value``

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95% interval of the difference."""
        return self.interval(0.95)

    def interval(self, level: float) -> tuple[float, float] | None:
        """Return an interval of the difference, for other trainings and other units;
        None as ``p_value``.
        """
        if self.spread is None:
            return None
        error, freedom = self.spread
        margin = float(stdtrit(freedom, (1 + level) / 2)) * error
        return self.difference - margin, self.difference + margin


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
    gains, lengths = _gains(better, worse, words)
    different = _different(better, worse)
    spread = (
        _standard_error(gains, lengths, fewest)
        if different > 1 and gains.shape[1] > 1
        else None
    )
    return _tested(gains, lengths, different, spread)


def run_outputs_test(
    better: ArrayLike, worse: ArrayLike, words: ArrayLike
) -> CrossedTest:
    """Test whether the outputs at hand differ, on other units than these; it says
    nothing about other trainings.

    The only test that one or two seeds allow. The variance is that over units, of
    errors summed over seeds; fewer than ``EXACT_BELOW`` units must also pass the exact
    test. Arguments and errors are those of :func:`run_crossed_test`.
    """
    gains, lengths = _gains(better, worse, words)
    several = gains.shape[1] > 1
    spread = (
        (float(np.sqrt(_unit_variance(gains, lengths))), _freedom(lengths))
        if several
        else None
    )
    return _tested(gains, lengths, _different(better, worse), spread)


def _tested(
    gains: NDArray[np.float64],
    lengths: NDArray[np.float64],
    different: int,
    spread: tuple[float, float] | None,
) -> CrossedTest:
    """Test a mean difference; ``spread`` is its standard error and degrees of freedom,
    None if unknown.
    """
    units = gains.shape[1]
    difference = float((gains.sum(axis=1) / lengths.sum()).mean())
    exact = units < EXACT_BELOW
    least = max(LEAST_P, 2.0 ** (1 - units)) if exact else LEAST_P
    if spread is None:
        return CrossedTest(difference, None, least, different, units, None)
    error, freedom = spread
    ratio = (
        abs(difference) / error if error > 0 else (0.0 if difference == 0 else np.inf)
    )
    p_value = 2 * float(stdtr(freedom, -ratio))
    if exact:
        p_value = max(p_value, compute_sign_flip_p(gains.sum(axis=0)))
    return CrossedTest(
        difference, min(1.0, max(p_value, least)), least, different, units, spread
    )


def _different(better: ArrayLike, worse: ArrayLike) -> int:
    """Return the number of seeds that differ; without a training of their own, systems
    have one observation.
    """
    return len(
        np.unique(
            np.concatenate([np.asarray(better), np.asarray(worse)], axis=1), axis=0
        )
    )


def compute_sign_flip_p(gains: ArrayLike) -> float:
    """Exact two-sided p-value of a sign-flip test of paired differences: all 2^n signs
    are tried.

    >>> compute_sign_flip_p([3, 1, 2, 5, 4])  # five recordings that agree say no more than this
    0.0625
    """
    values = np.asarray(gains, dtype=float)
    sums = np.array(list(product((1, -1), repeat=len(values)))) @ values
    found = abs(values.sum())
    return float(min(1.0, 2 * np.mean((sums > found) | np.isclose(sums, found))))


def estimate_interval(
    errors: ArrayLike, words: ArrayLike
) -> tuple[float, float] | None:
    """95% interval of an error rate on other units, for the trainings that are there;
    fractions; None below two units.

    A t interval of a ratio of sums, with units as clusters. It is the same for one seed
    and for the mean of several. ``errors`` is (seeds, units), ``words`` (units,), as of
    :func:`run_crossed_test`.
    """
    counts = np.asarray(errors)
    counts, lengths = _gains(np.zeros_like(counts), counts, words)
    if counts.shape[1] < 2:
        return None
    rate = float(counts.mean(axis=0).sum() / lengths.sum())
    margin = float(stdtrit(_freedom(lengths), 0.975)) * float(
        np.sqrt(_unit_variance(counts, lengths))
    )
    return max(0.0, rate - margin), rate + margin


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number (Holm, Scandinavian Journal of Statistics 6(2),
    1979), in the same order.

    If those at most 0.05 are called, the chance of any wrong call among all is at most
    0.05.

    >>> correct_by_holm([0.01, 0.04, 0.02])
    [0.03, 0.04, 0.04]
    """
    return multiply_in_order(p_values, list_holm_factors(p_values, len(p_values)))


def list_holm_factors(p_values: Sequence[float], number: int) -> list[int]:
    """Return by what Holm multiplies each p-value: the smallest by the number of tests,
    which may be more than there are p-values, the next by one less.

    >>> list_holm_factors([0.01, 0.04, 0.02], 4)
    [4, 2, 3]
    """
    factors = [number] * len(p_values)
    for rank, place in enumerate(_rising(p_values)):
        factors[place] = max(1, number - rank)
    return factors


def multiply_in_order(p_values: Sequence[float], factors: Sequence[int]) -> list[float]:
    """Multiply p-values; none comes out below that of a smaller one, or above 1."""
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for place in _rising(p_values):
        highest = max(highest, min(1.0, factors[place] * p_values[place]))
        corrected[place] = highest
    return corrected


def _rising(p_values: Sequence[float]) -> list[int]:
    """Return the places of p-values, the smallest first."""
    return sorted(range(len(p_values)), key=lambda place: p_values[place])


def _gains(
    better: ArrayLike, worse: ArrayLike, words: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second, lengths = (
        np.asarray(values, dtype=np.float64) for values in (better, worse, words)
    )
    if (
        first.ndim != 2
        or first.shape != second.shape
        or lengths.shape != first.shape[1:]
    ):
        raise ValueError(
            "need errors of (seeds, units) and words of (units,), got shapes "
            f"{first.shape}, {second.shape} and "
            f"{lengths.shape}"
        )
    if not first.size:
        raise ValueError("there is no seed or no unit to test")
    if lengths.min() < 0 or not lengths.any():
        raise ValueError("lengths of references must be at least 0, and one above 0")
    return second - first, lengths


def _standard_error(
    gains: NDArray[np.float64], lengths: NDArray[np.float64], fewest: bool
) -> tuple[float, float]:
    """Estimate the standard error of the mean difference of rates, and its degrees of
    freedom.

    The variance is that over seeds plus that over units minus that of both together,
    which is in each of the two; it is never taken to be less than the larger of the
    two.
    """
    seeds = len(gains)
    over_seeds = float((gains.sum(axis=1) / lengths.sum()).var(ddof=1)) / seeds
    over_units = _unit_variance(gains, lengths)
    both = _interaction(gains, lengths)
    variance = max(over_seeds + over_units - both, over_seeds, over_units)
    freedom = min(seeds - 1.0, _freedom(lengths))
    parts = over_seeds**2 / (seeds - 1) + over_units**2 / _freedom(lengths)
    if not fewest and parts > 0:  # at least as many as the direction with fewer has
        freedom = max(freedom, variance**2 / parts)
    return float(np.sqrt(variance)), freedom


def _deviations(
    gains: NDArray[np.float64], lengths: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how much each unit moves each seed's rate away from what its length alone
    would, (seeds, units).
    """
    total = lengths.sum()
    return (gains - np.outer(gains.sum(axis=1) / total, lengths)) / total


def _unit_variance(gains: NDArray[np.float64], lengths: NDArray[np.float64]) -> float:
    units = gains.shape[1]
    return (
        units
        / (units - 1)
        * float((_deviations(gains, lengths).mean(axis=0) ** 2).sum())
    )


def _interaction(gains: NDArray[np.float64], lengths: NDArray[np.float64]) -> float:
    seeds, units = gains.shape
    deviations = _deviations(gains, lengths)
    rest = deviations - deviations.mean(axis=0)
    return units / (units - 1) * float((rest**2).sum()) / (seeds * (seeds - 1))


def _freedom(lengths: NDArray[np.float64]) -> float:
    """Count the degrees of freedom of the units: their number minus one, or fewer if a
    few hold most of the words.
    """
    squares = lengths**2
    return max(1.0, float(squares.sum() ** 2 / (squares**2).sum()) - 1)
