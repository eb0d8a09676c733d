"""Confidence intervals and paired tests of error rates by the bootstrap.

Bisani and Ney, "Bootstrap estimates for confidence intervals in ASR performance evaluation", ICASSP 2004: draw as many
utterances as the test set has, with replacement, take the error rate of the draw, repeat; the interval lies between the
percentiles of these rates. Two systems are compared on the same draws, so that what makes an utterance hard for both
cancels out. Utterances of one speaker are not independent; if there are many speakers, resample whole speakers instead
(Liu et al., "Statistical testing on ASR performance via blockwise bootstrap", Interspeech 2020): sum the counts
of each with :func:`sum_blocks` first. Intervals from a handful of utterances or speakers are too narrow.

An utterance may have none of the tokens that are counted (English words in a Mandarin sentence). A draw that has none
at all has no rate and is left out, which matters only where few utterances have any.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

REPLICAS = 10_000  # the number in Bisani and Ney's experiments
_CHUNK_CELLS = 4_000_000  # draws held at once, 32 MB


@dataclass(frozen=True)
class PairedTest:
    """Two systems on the same utterances; rates are fractions and ``difference`` is a's rate minus b's.

    Attributes:
        ci95: 95% interval of the difference.
        p_value: two-sided, for "the systems are equally good"; below 0.05 exactly if the interval does not contain 0
            (up to the rounding of percentiles).
        probability_of_improvement: share of the replicas in which b has fewer errors (Bisani and Ney, 2004, "poi").
    """

    rate_a: float
    rate_b: float
    difference: float
    ci95: tuple[float, float]
    p_value: float
    probability_of_improvement: float


def bootstrap_interval(
    errors: ArrayLike, lengths: ArrayLike, *, replicas: int = REPLICAS, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    """Percentile interval of the error rate sum(errors) / sum(lengths), as fractions.

    ``errors`` and ``lengths`` (reference lengths) hold one number per utterance. Same seed, same interval.

    Raises:
        ValueError: no utterances, shapes that differ, a length below 0 or none above, or a level or number of replicas
            out of range.
    """
    sums = _replicate([errors, lengths], replicas, seed)
    return _percentiles(sums[:, 0] / sums[:, 1], level)


def paired_bootstrap(
    errors_a: ArrayLike, errors_b: ArrayLike, lengths: ArrayLike, *, replicas: int = REPLICAS, seed: int = 0
) -> PairedTest:
    """Test whether systems a and b differ, on the same utterances.

    The p-value is twice the smaller of the shares of replicas in which the difference is <= 0 and >= 0, with one
    replica added to each so that it is never 0; it is at most 1, which is what two equal systems get.
    Exchanging a and b exchanges the signs and changes nothing else.

    ``errors_a`` and ``errors_b`` may also be changes of the number of errors from one system to another (and negative):
    then the test is of a difference of differences, such as whether a gained less from more data than b.

    Raises:
        ValueError: as :func:`bootstrap_interval`.
    """
    sums = _replicate([errors_a, errors_b, lengths], replicas, seed)
    differences = (sums[:, 0] - sums[:, 1]) / sums[:, 2]
    below, above = int((differences <= 0).sum()), int((differences >= 0).sum())
    total_a, total_b, words = (int(np.asarray(column).sum()) for column in (errors_a, errors_b, lengths))
    return PairedTest(
        rate_a=total_a / words,
        rate_b=total_b / words,
        difference=(total_a - total_b) / words,
        ci95=_percentiles(differences, 0.95),
        p_value=min(1.0, 2 * (min(below, above) + 1) / (len(differences) + 1)),
        probability_of_improvement=float((differences > 0).mean()),
    )


def sum_blocks(values: ArrayLike, blocks: Sequence[str]) -> NDArray[np.int64]:
    """Sum ``values`` over each block (the speaker of each utterance, say), in the order of the blocks' names.

    >>> sum_blocks([1, 2, 4], ["bob", "alice", "bob"])
    array([2, 5])
    """
    values = np.asarray(values, dtype=np.int64)
    if len(values) != len(blocks):
        raise ValueError(f"{len(values)} values but {len(blocks)} names of blocks")
    names, index = np.unique(np.asarray(blocks), return_inverse=True)
    sums = np.zeros(len(names), dtype=np.int64)
    np.add.at(sums, index, values)
    return sums


def _replicate(columns: list[ArrayLike], replicas: int, seed: int) -> NDArray[np.int64]:
    """Sums of each column over each bootstrap draw, (draws, columns); the last column is the lengths.

    Utterances with equal counts are interchangeable, so a draw needs only how often each *kind* of utterance occurs: a
    multinomial. That is exact, and cheap for large test sets too (281,241 utterances are of a few hundred kinds).
    """
    arrays = [np.asarray(column) for column in columns]
    if any(array.ndim != 1 or array.shape != arrays[0].shape for array in arrays):
        raise ValueError(f"need one number per utterance in each, got shapes {[array.shape for array in arrays]}")
    if not arrays[0].size:
        raise ValueError("no utterances to resample")
    if arrays[-1].min() < 0 or not arrays[-1].any():
        raise ValueError("lengths of references must be at least 0, and one above 0")
    if replicas < 1:
        raise ValueError(f"the number of replicas must be at least 1, not {replicas}")
    table = np.stack(arrays, axis=1).astype(np.int64)
    kinds, first, counts = np.unique(table, axis=0, return_index=True, return_counts=True)
    # In order of appearance, so that the draws do not depend on which of two systems comes first.
    order = np.argsort(first)
    kinds, counts = kinds[order], counts[order]
    generator = np.random.default_rng(seed)
    chunk = max(1, _CHUNK_CELLS // len(kinds))
    sums = [
        generator.multinomial(len(table), counts / len(table), size=min(chunk, replicas - start)) @ kinds
        for start in range(0, replicas, chunk)
    ]
    drawn = np.concatenate(sums)
    drawn = drawn[drawn[:, -1] > 0]
    if not len(drawn):
        raise ValueError("no draw has a reference: draw more replicas")
    return drawn


def _percentiles(values: NDArray[np.floating], level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval must lie between 0 and 1, not {level}")
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
