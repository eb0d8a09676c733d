"""The interpolation weight of P3, eq. 1, s_i = log P_LM(y_i) + lambda log P_AM(x|y_i), and how it is tuned.

The score of each hypothesis of a list is a line over the weight, and the choice is the highest line. So the choice
changes only at the corners of the upper envelope of the lines, and the word errors of a whole set are constant between
the corners of all its lists. They are computed exactly at every weight, without a grid (Och, "Minimum error rate
training in statistical machine translation", ACL 2003, section 4).

The lines are drawn over the first pass's share w = lambda / (1 + lambda), as (1 - w) log P_LM + w log P_AM, which makes
the same choice for w < 1. Then w = 0 is the language model alone, w = 1 the first pass alone, and every piece has two
ends. The tuned weight is the middle, in w, of the widest piece with the fewest errors: far from every corner, since
the corners of another set lie elsewhere.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest, word_errors, words_of_reference
from espnet_ext.work.files import write_json
from espnet_ext.work.json_text import parse_json

# Corners that agree to this number of decimals count as one: equal corners may differ by rounding.
_DECIMALS = 12


@dataclass(frozen=True)
class ErrorCurve:
    """Word errors of a set of lists as a function of the first pass's share w.

    Attributes:
        corners: w where the errors change, in rising order, from 0.0 to 1.0 inclusive.
        errors: word errors between neighbouring corners, one fewer than corners.
        words: words in the references.
    """

    corners: tuple[float, ...]
    errors: tuple[int, ...]
    words: int

    def at(self, weight: float) -> int:
        """Word errors with lambda ``weight`` (at a corner, those to its right)."""
        place = int(np.searchsorted(self.corners, share_of(weight), side="right")) - 1
        return self.errors[min(place, len(self.errors) - 1)]


@dataclass(frozen=True)
class Tuned:
    """A tuned weight, and what it was tuned on.

    Attributes:
        weight: lambda of eq. 1.
        interval: the range of lambda around it with the same number of errors; the upper end may be infinite.
        errors, words: word errors and words of the lists that it was tuned on.
        language_model_errors, first_pass_errors: word errors at the two ends of the curve, lambda 0 and infinite.
        lists: the number of lists.
        scores: the name of the language model's scores in them.
        tuned_on: the files of the lists.
    """

    weight: float
    interval: tuple[float, float]
    errors: int
    words: int
    language_model_errors: int
    first_pass_errors: int
    lists: int
    scores: str
    tuned_on: tuple[str, ...] = ()


def share_of(weight: float) -> float:
    """w for lambda ``weight``.

    >>> share_of(0.0), share_of(1.0), share_of(math.inf)
    (0.0, 0.5, 1.0)
    """
    return 1.0 if math.isinf(weight) else weight / (1.0 + weight)


def weight_of(share: float) -> float:
    """Lambda for w ``share``.

    >>> weight_of(0.0), weight_of(0.5), weight_of(1.0)
    (0.0, 1.0, inf)
    """
    return math.inf if share == 1.0 else share / (1.0 - share)


def check_weight(weight: float) -> None:
    """Refuse a lambda that makes no sense in eq. 1.

    Raises:
        InputError: it is negative or not finite.
    """
    if not (math.isfinite(weight) and weight >= 0.0):
        raise InputError(f"an interpolation weight of {weight}: it must be a finite number, 0 or more")


def combined(nbest: NBest, scores: str, weight: float) -> list[float]:
    """s_i of P3, eq. 1: the scores named ``scores`` plus ``weight`` (lambda) times those of the first pass.

    Raises:
        InputError: a hypothesis lacks the scores.
    """
    return [added + weight * hyp.score for added, hyp in zip(_added(nbest, scores), nbest.hyps, strict=True)]


def rerank(nbest: NBest, scores: str, weight: float) -> NBest:
    """The list in the order of eq. 1, best first; equals keep their order.

    Raises:
        InputError: a hypothesis lacks the scores, or the weight is negative or not finite.
    """
    check_weight(weight)
    totals = combined(nbest, scores, weight)
    order = sorted(range(len(totals)), key=lambda index: -totals[index])
    return replace(nbest, hyps=tuple(nbest.hyps[index] for index in order))


def error_curve(lists: Iterable[NBest], scores: str) -> ErrorCurve:
    """Word errors of all the lists together for every weight.

    Raises:
        InputError: there are no lists; a list has no reference, or lacks the scores.
    """
    start, words = 0, 0
    corners, steps = [], []
    for nbest in lists:
        words += len(words_of_reference(nbest))
        errors = word_errors(nbest)
        pieces = envelope(np.array(_added(nbest, scores)), np.array([hyp.score for hyp in nbest.hyps]))
        start += errors[pieces[0][1]]
        for (_, before), (corner, after) in pairwise(pieces):
            corners.append(round(corner, _DECIMALS))
            steps.append(errors[after] - errors[before])
    if not words:
        raise InputError("there are no N-best lists to tune the interpolation weight on")
    return _sum_steps(start, corners, steps, words)


def envelope(left: np.ndarray, right: np.ndarray) -> list[tuple[float, int]]:
    """The upper envelope over w in [0, 1) of lines from ``left`` (w = 0) to ``right`` (w = 1).

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


def tune(lists: Sequence[NBest], scores: str, tuned_on: Sequence[str] = ()) -> tuple[Tuned, ErrorCurve]:
    """The weight with the fewest word errors over all the lists (one development set, or several jointly).

    If every weight makes the same number of errors, lambda is 1.

    Raises:
        InputError: as :func:`error_curve`.
    """
    curve = error_curve(lists, scores)
    best = min(curve.errors)
    low, high = max(
        (ends for ends, errors in zip(pairwise(curve.corners), curve.errors, strict=True) if errors == best),
        key=lambda ends: ends[1] - ends[0],
    )
    tuned = Tuned(
        weight=weight_of((low + high) / 2),
        interval=(weight_of(low), weight_of(high)),
        errors=best,
        words=curve.words,
        language_model_errors=curve.errors[0],
        first_pass_errors=curve.errors[-1],
        lists=len(lists),
        scores=scores,
        tuned_on=tuple(tuned_on),
    )
    return tuned, curve


def write_tuned(path: str | Path, tuned: Tuned) -> None:
    """Write a tuned weight as JSON; an infinite end of its interval becomes null."""
    low, high = tuned.interval
    write_json(path, {**asdict(tuned), "interval": [low, None if math.isinf(high) else high]})


def write_curve(path: str | Path, curve: ErrorCurve) -> None:
    """Write the curve as JSON: the values of lambda where the errors change, and the errors between them."""
    weights = [weight_of(corner) for corner in curve.corners[1:-1]]
    write_json(path, {"lambda": weights, "errors": list(curve.errors), "words": curve.words})


def read_weight(path: str | Path) -> float:
    """Read the weight that :func:`write_tuned` wrote.

    Raises:
        InputError: the file is missing or has no weight.
    """
    try:
        weight = float(parse_json(Path(path).read_text(encoding="utf-8"))["weight"])
    except FileNotFoundError:
        raise InputError(f"{path}: no such file: tune the weight first, with --tune-on") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: has no tuned weight ({error!r}): tune it again, with --tune-on") from None
    check_weight(weight)
    return weight


def _added(nbest: NBest, scores: str) -> list[float]:
    for number, hyp in enumerate(nbest.hyps, start=1):
        if scores not in hyp.scores:
            known = ", ".join(hyp.scores) or "none at all"
            raise InputError(f"{nbest.utt_id}: hypothesis {number} has no scores named {scores}; it has {known}")
    return [hyp.scores[scores] for hyp in nbest.hyps]


def _sum_steps(start: int, corners: Sequence[float], steps: Sequence[int], words: int) -> ErrorCurve:
    """The curve that begins with ``start`` errors and changes by ``steps`` at ``corners``, in any order."""
    places, index = np.unique(np.asarray(corners, dtype=float), return_inverse=True)
    changes = np.zeros(len(places), dtype=np.int64)
    np.add.at(changes, index, np.asarray(steps, dtype=np.int64))
    start += int(changes[places == 0.0].sum())
    inside = (places > 0.0) & (places < 1.0) & (changes != 0)
    errors = start + np.cumsum(changes[inside])
    return ErrorCurve((0.0, *places[inside].tolist(), 1.0), (start, *errors.tolist()), words)
