"""What a design of so many seeds can see, before it is run: from the spread between trainings of a pilot."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

LEVEL = 0.05
POWER = 0.8


@dataclass(frozen=True)
class Spread:
    """Standard deviation between the trainings of one system, and its 95% interval, which is wide for few trainings."""

    sd: float
    ci95: tuple[float, float]


def spread_of(rates: list[float]) -> Spread:
    """The spread of the error rates of a pilot, whose interval is that of normal rates.

    Raises:
        ValueError: fewer than two rates.
    """
    if len(rates) < 2:
        raise ValueError("a spread needs at least two trainings")
    freedom = len(rates) - 1
    mean = math.fsum(rates) / len(rates)
    squares = math.fsum((rate - mean) ** 2 for rate in rates)
    low, high = (float(stats.chi2.ppf(share, freedom)) for share in (0.975, 0.025))
    return Spread(math.sqrt(squares / freedom), (math.sqrt(squares / low), math.sqrt(squares / high)))


@dataclass(frozen=True)
class Components:
    """What the difference between two systems varies with, as variances: the seed, the unit, and the rest.

    The rest is what neither a seed nor a unit has in common, mostly the chance that a single word is wrong. ``words``
    is how much of ``unit`` comes from which words a unit happens to have, see :func:`chance_of_words`. These two halve
    when each unit has twice as many words; the others do not.
    """

    seed: float
    unit: float
    rest: float
    words: float = 0.0

    def standard_error(self, seeds: int, units: int, longer: float = 1.0) -> float:
        """Of the mean difference, with units that are ``longer`` times as long as the pilot's."""
        unit = self.unit - self.words + self.words / longer
        return math.sqrt(self.seed / seeds + unit / units + self.rest / longer / (seeds * units))


def components_of(differences: ArrayLike) -> Components:
    """The components of a pilot's differences, (seeds, units): analysis of variance in two directions.

    An estimate below zero counts as zero.

    Raises:
        ValueError: fewer than two seeds or two units.
    """
    values = np.asarray(differences, dtype=float)
    seeds, units = values.shape
    if min(seeds, units) < 2:
        raise ValueError("components need at least two seeds and two units")
    rows = values.mean(axis=1, keepdims=True)
    columns = values.mean(axis=0, keepdims=True)
    rest = float(((values - rows - columns + values.mean()) ** 2).sum() / ((seeds - 1) * (units - 1)))
    seed, unit = float(rows.var(ddof=1)) - rest / units, float(columns.var(ddof=1)) - rest / seeds
    return Components(max(0.0, seed), max(0.0, unit), rest)


def chance_of_words(parts: Components, words: ArrayLike, differences: ArrayLike, units: Sequence[str]) -> Components:
    """The components with ``words``, from what utterances differ by within a unit.

    The mean over seeds of a unit's difference is a ratio of sums over its utterances, whose variance is that of a ratio
    of means (Cochran, Sampling Techniques, eq. 2.39). It holds ``rest / seeds``, which seeds do not share.

    Args:
        parts: of the same differences, in percent of the words.
        words: of each utterance, (utterances,).
        differences: in word errors, (seeds, utterances).
        units: of each utterance; each has at least two.
    """
    sizes, values = np.asarray(words, dtype=float), np.asarray(differences, dtype=float)
    means, names = values.mean(axis=0), np.asarray(units)
    variances = []
    for unit in np.unique(names):
        own, size = means[names == unit], sizes[names == unit]
        residuals = own - own.sum() / size.sum() * size
        variances.append(100**2 * len(own) / (len(own) - 1) * (residuals**2).sum() / size.sum() ** 2)
    shared = float(np.mean(variances)) - parts.rest / len(values)
    return replace(parts, words=min(parts.unit, max(0.0, shared)))


def smallest_difference(sd: float, seeds: int, claims: int = 1, power: float = POWER) -> float:
    """The smallest difference between two systems that the test of docs/statistics.md finds with this power.

    Each side has ``seeds`` trainings with a standard deviation of ``sd``, independent of each other: paired seeds can
    only do better. Units that favour one of the systems are left out, which a pilot of one system cannot know.

    Args:
        sd: standard deviation between trainings; the result has its unit.
        seeds: trainings of each system, at least 2.
        claims: of how many claims, none of which holds otherwise, this one is to pass Holm's correction.
        power: the share of experiments in which the difference is found.
    """
    freedom = seeds - 1
    limit = float(stats.t.ppf(1 - LEVEL / claims / 2, freedom))

    def missed(shift: float) -> float:
        return power - float(stats.nct.sf(limit, freedom, shift))

    shift = float(optimize.brentq(missed, 0.0, 10 * limit + 10))
    return shift * sd * math.sqrt(2 / seeds)
