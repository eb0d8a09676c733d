"""Confidence intervals of error rates by the bootstrap.

Bisani and Ney, "Bootstrap estimates for confidence intervals in ASR performance evaluation", ICASSP 2004: draw as many
utterances as the test set has, with replacement, take the error rate of the draw, repeat; the interval lies between the
percentiles of these rates. Utterances of one speaker are not independent; if there are many speakers, resample whole
speakers instead (Liu et al., "Statistical testing on ASR performance via blockwise bootstrap", Interspeech 2020).
Intervals from a handful of utterances or speakers are too narrow.

An utterance may have none of the tokens that are counted (English words in a Mandarin sentence). A draw that has none
at all has no rate and is left out, which matters only where few utterances have any.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

REPLICAS = 10_000  # the number in Bisani and Ney's experiments
_CHUNK_CELLS = 4_000_000  # draws held at once, 32 MB


def bootstrap_interval(
    errors: ArrayLike, lengths: ArrayLike, *, replicas: int = REPLICAS, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    """Percentile interval of the error rate sum(errors) / sum(lengths), as fractions.

    ``errors`` and ``lengths`` (reference lengths) hold one number per utterance. Same seed, same interval.

    Raises:
        ValueError: no utterances, shapes that differ, a length below 0 or none above, or a level or number of replicas
            out of range.
    """
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval must lie between 0 and 1, not {level}")
    sums = _replicate(np.asarray(errors), np.asarray(lengths), replicas, seed)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _replicate(errors: NDArray, lengths: NDArray, replicas: int, seed: int) -> NDArray[np.int64]:
    """Sums of errors and lengths over each bootstrap draw, (draws, 2).

    Utterances with equal counts are interchangeable, so a draw needs only how often each *kind* of utterance occurs: a
    multinomial. That is exact, and cheap for large test sets too (281,241 utterances are of a few hundred kinds).
    """
    if errors.ndim != 1 or errors.shape != lengths.shape:
        raise ValueError(f"need one number per utterance in each, got shapes {errors.shape} and {lengths.shape}")
    if not errors.size:
        raise ValueError("no utterances to resample")
    if lengths.min() < 0 or not lengths.any():
        raise ValueError("lengths of references must be at least 0, and one above 0")
    if replicas < 1:
        raise ValueError(f"the number of replicas must be at least 1, not {replicas}")
    table = np.stack([errors, lengths], axis=1).astype(np.int64)
    kinds, first, counts = np.unique(table, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)  # of appearance
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
