"""The weights of a second pass, and how they are tuned.

They are those of P3, eq. 1, s_i = log P_LM(y_i) + lambda log P_AM(x|y_i), and of sums with several language models.

All weights but one fixed, the score of each hypothesis of a list is a line over the last one, and the choice is the
highest line. So the choice changes only at the corners of the upper envelope of the lines, and the word errors of a
whole set are constant between the corners of all its lists. They are computed exactly at every weight, without a grid
(Och, "Minimum error rate training in statistical machine translation", ACL 2003, section 4). Several weights are tuned
one after the other, again and again, until none lowers the errors (coordinate search).

The lines are drawn over the share w = lambda / (1 + lambda) of a score, as (1 - w) rest + w score, which makes the same
choice for w < 1. Then w = 0 is the rest alone, w = 1 that score alone, and every piece has two ends. The tuned weight
is the middle, in w, of the widest piece with the fewest errors: far from every corner, since the corners of another set
lie elsewhere.

A hypothesis without words is not chosen from a list that has others: a language model finds nothing likelier than
nothing. Where the first pass has it as the best, it stays the best: nothing was said, and no language model can tell.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.text.nbest import NBest, word_errors, words_of_reference

FIRST_PASS = "first pass"  # the total score of the first pass, log P_AM of eq. 1
# Corners that agree to this number of decimals count as one: equal corners may differ by rounding.
_DECIMALS = 12
_ROUNDS = 20  # of the coordinate search; it has ended long before

Weights = Mapping[str, float]  # by name of a score


@dataclass(frozen=True)
class ErrorCurve:
    """Word errors of a set of lists as a function of the share w of one score.

    Attributes:
        corners: w where the errors change, in rising order, from 0.0 to 1.0 inclusive.
        errors: word errors between neighbouring corners, one fewer than corners.
        words: words in the references.
    """

    corners: tuple[float, ...]
    errors: tuple[int, ...]
    words: int

    def at(self, weight: float) -> int:
        """Return the word errors with this weight (at a corner, those to its right)."""
        piece = int(np.searchsorted(self.corners, share_of(weight), side="right")) - 1
        return self.errors[min(piece, len(self.errors) - 1)]


@dataclass(frozen=True)
class Tuned:
    """Tuned weights, and what they were tuned on.

    Attributes:
        weights: by name of a score.
        errors, words: word errors and words of the lists that they were tuned on.
        lists: the number of lists.
        tuned_on: the files of the lists.
    """

    weights: Weights
    errors: int
    words: int
    lists: int
    tuned_on: tuple[str, ...] = ()


def share_of(weight: float) -> float:
    """Return w of a weight.

    >>> share_of(0.0), share_of(1.0), share_of(math.inf)
    (0.0, 0.5, 1.0)
    """
    return 1.0 if math.isinf(weight) else weight / (1.0 + weight)


def weight_of(share: float) -> float:
    """Return the weight of w ``share``.

    >>> weight_of(0.0), weight_of(0.5), weight_of(1.0)
    (0.0, 1.0, inf)
    """
    return math.inf if share == 1.0 else share / (1.0 - share)


def check_weights(weights: Weights) -> None:
    """Refuse weights that are not finite or negative."""
    for name, weight in weights.items():
        if not math.isfinite(weight) or weight < 0.0:
            raise InputError(f"a weight of {weight} for {name}: it must be a finite number, 0 or more")


def scores_of(nbest: NBest, name: str) -> np.ndarray:
    """Return the scores of a list's hypotheses by name, (n,): the first pass, or those that the lists hold."""
    if name == FIRST_PASS:
        return np.array([hyp.score for hyp in nbest.hyps])
    for number, hyp in enumerate(nbest.hyps, start=1):
        if name not in hyp.scores:
            known = ", ".join(hyp.scores) or "none at all"
            raise InputError(f"{nbest.utt_id}: hypothesis {number} has no scores named {name}; it has {known}")
    return np.array([hyp.scores[name] for hyp in nbest.hyps])


def combined(nbest: NBest, weights: Weights) -> np.ndarray:
    """Return s_i of P3, eq. 1: the weighted sum of the scores, (n,)."""
    total = np.zeros(len(nbest.hyps))
    for name, weight in weights.items():
        total += weight * scores_of(nbest, name)
    return total


def with_words(nbest: NBest) -> NBest:
    """Return the list without the hypotheses that may not be chosen: those without words, unless one is the best."""
    return replace(nbest, hyps=tuple(hyp for hyp in nbest.hyps if hyp.text) if nbest.hyps[0].text else nbest.hyps[:1])


def rerank(nbest: NBest, weights: Weights) -> NBest:
    """Return the list in the order of the weighted sums, best first; equals keep their order.

    Hypotheses without words are last. A list whose best has no words stays as it is.
    """
    check_weights(weights)
    if not nbest.hyps[0].text:
        return nbest
    totals = combined(nbest, weights)
    order = sorted(range(len(totals)), key=lambda index: (not nbest.hyps[index].text, -totals[index]))
    return replace(nbest, hyps=tuple(nbest.hyps[index] for index in order))


class _List(NamedTuple):
    """A list's hypotheses that may be chosen: scores by name, (n,), and word errors, (n,)."""

    scores: Mapping[str, np.ndarray]
    errors: np.ndarray


def _table(nbest: NBest, names: Iterable[str]) -> _List:
    chosen = with_words(nbest)
    return _List({name: scores_of(chosen, name) for name in names}, np.array(word_errors(chosen)))


def _curve(tables: Sequence[_List], weights: Weights, name: str, words: int) -> ErrorCurve:
    if not words:
        raise InputError("no N-best lists to tune the interpolation weight on, or no words in their references")
    start = 0
    corners, steps = [], []
    for table in tables:
        rest = np.zeros(len(table.errors))
        for other, weight in weights.items():
            if other != name and weight:
                rest += weight * table.scores[other]
        pieces = envelope(rest, table.scores[name])
        start += int(table.errors[pieces[0][1]])
        for (_, before), (corner, after) in pairwise(pieces):
            corners.append(round(corner, _DECIMALS))
            steps.append(int(table.errors[after] - table.errors[before]))
    return _sum_steps(start, corners, steps, words)


def _sum_steps(start: int, corners: Sequence[float], steps: Sequence[int], words: int) -> ErrorCurve:
    """Return the curve that begins with ``start`` errors and changes by ``steps`` at ``corners``, in any order."""
    found, index = np.unique(np.asarray(corners, dtype=float), return_inverse=True)
    changes = np.zeros(len(found), dtype=np.int64)
    np.add.at(changes, index, np.asarray(steps, dtype=np.int64))
    start += int(changes[found == 0.0].sum())
    inside = (found > 0.0) & (found < 1.0) & (changes != 0)
    errors = start + np.cumsum(changes[inside])
    return ErrorCurve((0.0, *found[inside].tolist(), 1.0), (start, *errors.tolist()), words)


def envelope(left: np.ndarray, right: np.ndarray) -> list[tuple[float, int]]:
    """Return the upper envelope over w in [0, 1) of lines from ``left`` (w = 0) to ``right`` (w = 1).

    Args:
        left: log P_LM of each hypothesis, (n,), finite.
        right: log P_AM of each hypothesis, (n,), finite.

    Returns:
        Where each piece begins, and its line, in rising order; of equal lines the first.

    >>> envelope(np.array([0.0, -1.0, -5.0]), np.array([-3.0, -2.0, -2.5]))
    [(0.0, 0), (0.5, 1)]
    """
    slopes = right - left
    # The highest line at w = 0; of several, the one that is highest just after it. lexsort is stable: first of equals.
    line = int(np.lexsort((-slopes, -left))[0])
    pieces = [(0.0, line)]
    while True:
        steeper = np.flatnonzero(slopes > slopes[line])
        if not steeper.size:
            return pieces
        crossings = (left[line] - left[steeper]) / (slopes[steeper] - slopes[line])
        corner = float(crossings.min())
        if corner >= 1.0:
            return pieces
        at_corner = steeper[crossings == corner]
        line = int(at_corner[np.argmax(slopes[at_corner])])
        pieces.append((max(corner, pieces[-1][0]), line))


def tune(
    lists: Sequence[NBest], models: Sequence[str], tuned_on: Sequence[str] = ()
) -> tuple[Tuned, dict[str, ErrorCurve]]:
    """Find the weights with the fewest word errors over all the lists (one development set, or several jointly).

    The first language model's weight is 1, which sets the scale of the others. With one language model the result is
    the best there is. With several, the coordinate search ends where no single weight lowers the errors. If every
    weight makes the same number of errors, it is 1.

    Args:
        lists: with references and the scores of the models.
        models: the names of the language models' scores.
        tuned_on: the files of the lists.

    Returns:
        The weights, and through them the curve of each weight that was tuned.
    """
    words = sum(len(words_of_reference(nbest)) for nbest in lists)
    weights = dict.fromkeys([*models, FIRST_PASS], 1.0)
    free = [FIRST_PASS, *models[1:]]
    tables = [_table(nbest, weights) for nbest in lists]
    best = math.inf
    curves: dict[str, ErrorCurve] = {}
    for _ in range(_ROUNDS):
        before = best
        for name in free:
            curves[name] = _curve(tables, weights, name, words)
            low, high = _widest(curves[name])
            weights[name], best = weight_of((low + high) / 2), min(curves[name].errors)
        if best == before:
            break
    # of the last round: an earlier curve of the round went through other weights
    for name in free if len(free) > 1 else ():
        curves[name] = _curve(tables, weights, name, words)
    return Tuned(weights, int(best), words, len(lists), tuple(tuned_on)), curves


def _widest(curve: ErrorCurve) -> tuple[float, float]:
    """Return the widest piece with the fewest errors."""
    best = min(curve.errors)
    pieces = (ends for ends, errors in zip(pairwise(curve.corners), curve.errors, strict=True) if errors == best)
    return max(pieces, key=lambda ends: ends[1] - ends[0])
