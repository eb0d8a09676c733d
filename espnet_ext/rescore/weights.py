"""Tune the weights of a second pass.

They are those of P3, eq. 1, s_i = log P_LM(y_i) + lambda log P_AM(x|y_i), and of sums
with several language models.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.nbest.selection import Weights, check_weights
from espnet_ext.text.nbest import (
    NBest,
    count_word_errors,
    select_part,
    split_reference,
)

FIRST_PASS = "first pass"  # the total score of the first pass, log P_AM of eq. 1
# Corners that agree to this number of decimals count as one: equal corners may differ
# by rounding.
_DECIMALS = 12
FLAT = 0.01  # of the first pass's spread: a score with less changes next to nothing
_ROUNDS = 20  # of the coordinate search; it has ended long before

# a list's scores by name, (n,), and its word errors, (n,)
Table = tuple[Mapping[str, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Tuned:
    """Tuned weights, and the lists that they were tuned on.

    ``errors`` and ``words`` are counts over the lists, ``lists`` their number, and
    ``tuned_on`` their files.
    """

    weights: Weights
    errors: int
    words: int
    lists: int
    tuned_on: tuple[str, ...] = ()


def select_scores(nbest: NBest, name: str) -> np.ndarray:
    """Return a list's scores by name, (n,): the first pass, or those that it holds."""
    if name == FIRST_PASS:
        return np.array([hyp.score for hyp in nbest.hyps])
    return np.array(select_part(nbest, name))


def combine_scores(nbest: NBest, weights: Weights) -> np.ndarray:
    """Return s_i of P3, eq. 1: the weighted sum of the scores, (n,)."""
    total = np.zeros(len(nbest.hyps))
    for name, weight in weights.items():
        scores = select_scores(nbest, name)
        total += weight * scores
    return total


def keep_choosable(nbest: NBest) -> NBest:
    """Return the list with the hypotheses that may be chosen.

    Those without words may not, unless one is the best. A language model finds nothing
    likelier than nothing. Where the first pass has it as the best, it stays the best:
    nothing was said, and no language model can tell.
    """
    chosen = nbest.hyps[:1]
    if chosen[0].text:
        chosen = tuple(hyp for hyp in nbest.hyps if hyp.text)
    return replace(nbest, hyps=chosen)


def rerank(nbest: NBest, weights: Weights) -> NBest:
    """Return the list in the order of the weighted sums, best first.

    Equals keep their order. Hypotheses without words are last. A list whose best has no
    words stays as it is.
    """
    check_weights(weights)
    hyps = nbest.hyps
    if not hyps[0].text:  # see keep_choosable
        return nbest
    totals = combine_scores(nbest, weights)

    def rank(index: int) -> tuple[bool, float]:
        has_no_words = not hyps[index].text
        return has_no_words, -totals[index]

    order = sorted(range(len(totals)), key=rank)
    reranked = tuple(hyps[index] for index in order)
    return replace(nbest, hyps=reranked)


def measure_spread(lists: Sequence[NBest], name: str) -> float:
    """Return the standard deviation of a score within a list, the mean over lists with
    several hypotheses that may be chosen; 0 without such lists.
    """
    spreads = []
    for nbest in lists:
        scores = select_scores(keep_choosable(nbest), name)
        if len(scores) > 1:
            spreads.append(float(scores.std()))
    return float(np.mean(spreads)) if spreads else 0.0


def list_flat_scores(lists: Sequence[NBest], weights: Weights) -> list[str]:
    """Return a warning for each score that hardly differs within lists, next to the
    first pass, so that it decides nothing; one of an untrained layer, for example.
    """
    first = weights.get(FIRST_PASS, 1.0) * measure_spread(lists, FIRST_PASS)
    warnings = []
    for name, weight in weights.items():
        if name == FIRST_PASS:
            continue
        spread = weight * measure_spread(lists, name)
        if spread < FLAT * first:
            warnings.append(
                f"warning: the scores {name} hardly differ within a list "
                f"({spread:.2g} in the mean, the first pass {first:.2g}): it decides "
                "alone: was the model trained?"
            )
    return warnings


class ErrorCurve(NamedTuple):
    """Word errors by the share w of one score, between rising corners.

    ``corners`` are from 0.0 to 1.0, one more than ``errors``.
    """

    corners: tuple[float, ...]
    errors: tuple[int, ...]


def compute_error_curve(
    tables: Sequence[Table], weights: Weights, name: str
) -> ErrorCurve:
    """Return the word errors by the share of one score, exactly and without a grid.

    All other weights are fixed. A hypothesis' score is a line over the last weight,
    lambda, and the highest line is chosen. So the choice changes only at the corners of
    the upper envelope, and the word errors of a set are constant between the corners of
    all its lists (Och, "Minimum error rate training in statistical machine
    translation", ACL 2003, section 4). Lines are drawn over w = lambda / (1 + lambda),
    as (1 - w) rest + w score, which makes the same choice for w < 1. Then w = 0 is the
    rest alone, w = 1 that score alone, and every piece has two ends.
    """
    at_zero = 0  # errors just after w = 0
    changes: dict[float, int] = {}  # corner -> errors after it minus errors before
    for scores, errors in tables:
        rest = np.zeros(len(errors))
        for other, weight in weights.items():
            if other != name and weight:
                rest += weight * scores[other]
        pieces = find_envelope(rest, scores[name])
        _, highest = pieces[0]
        at_zero += int(errors[highest])
        for (_, before), (corner, after) in pairwise(pieces):
            change = int(errors[after] - errors[before])
            rounded = round(corner, _DECIMALS)
            changes[rounded] = changes.get(rounded, 0) + change
    at_zero += changes.get(0.0, 0)  # a corner that was rounded to the end
    inside = []
    for corner in sorted(changes):
        # Where lists change by as much in opposite ways, the set has no corner.
        if changes[corner] and 0.0 < corner < 1.0:
            inside.append(corner)
    own_changes = [changes[corner] for corner in inside]
    totals = accumulate(own_changes, initial=at_zero)
    return ErrorCurve((0.0, *inside, 1.0), tuple(totals))


def find_envelope(left: np.ndarray, right: np.ndarray) -> list[tuple[float, int]]:
    """Return the upper envelope over w in [0, 1) of finite lines.

    Their values are ``left`` at w = 0 and ``right`` at w = 1, (n,) each. A piece is
    where it begins and its line, in rising order; of equal lines the first.

    >>> find_envelope(np.array([0.0, -1.0, -5.0]), np.array([-3.0, -2.0, -2.5]))
    [(0.0, 0), (0.5, 1)]
    """
    slopes = right - left
    # The highest line at w = 0; of several, the one that is highest just after it.
    # lexsort is stable: first of equals.
    highest_first = np.lexsort((-slopes, -left))
    line = int(highest_first[0])
    pieces = [(0.0, line)]
    while True:
        # Only a steeper line can rise above this one, further to the right.
        steeper = np.flatnonzero(slopes > slopes[line])
        if not steeper.size:
            return pieces
        below = left[line] - left[steeper]  # at w = 0
        steeper_by = slopes[steeper] - slopes[line]
        crossings = below / steeper_by
        corner = float(crossings.min())
        if corner >= 1.0:
            return pieces
        # Of several that cross there, the steepest is highest just after it.
        at_corner = steeper[crossings == corner]
        own_slopes = slopes[at_corner]
        steepest = own_slopes.argmax()
        line = int(at_corner[steepest])
        # Rounding may put a corner before the last one.
        begin = max(corner, pieces[-1][0])
        pieces.append((begin, line))


def tabulate_errors(nbest: NBest, names: Sequence[str]) -> Table:
    """Return scores and word errors of a list's hypotheses that may be chosen."""
    # Errors once for all weights: they cost more than everything else in a search.
    chosen = keep_choosable(nbest)
    scores = {name: select_scores(chosen, name) for name in names}
    errors = np.array(count_word_errors(chosen))
    return scores, errors


def find_widest_piece(curve: ErrorCurve, errors: int) -> tuple[float, float]:
    """Return where the widest piece of a curve with ``errors`` begins and ends.

    >>> find_widest_piece(ErrorCurve((0.0, 0.2, 0.3, 0.9, 1.0), (5, 3, 3, 4)), 3)
    (0.3, 0.9)
    """
    pieces = zip(pairwise(curve.corners), curve.errors, strict=True)
    matching = [ends for ends, found in pieces if found == errors]
    widths = [high - low for low, high in matching]
    widest = widths.index(max(widths))  # of equals the first
    return matching[widest]


def find_weight(share: float) -> float:
    """Return the weight lambda of a share w = lambda / (1 + lambda); of 1, infinity.

    >>> find_weight(0.75), find_weight(1.0)
    (3.0, inf)
    """
    return math.inf if share == 1.0 else share / (1.0 - share)


def count_errors_at(curve: ErrorCurve, weight: float) -> int:
    """Return the errors with a weight; at a corner, those just above it.

    >>> curve = ErrorCurve((0.0, 0.5, 1.0), (5, 3))
    >>> [count_errors_at(curve, weight) for weight in (0.0, 0.9, 1.0, math.inf)]
    [5, 5, 3, 3]
    """
    share = 1.0 if math.isinf(weight) else weight / (1.0 + weight)
    piece = bisect_right(curve.corners, share) - 1
    last = len(curve.errors) - 1  # of infinity, which is the last corner
    return curve.errors[min(piece, last)]


def compute_curves(
    lists: Sequence[NBest], weights: Weights, first_model: str
) -> dict[str, ErrorCurve]:
    """Return the curve of each weight that was tuned, all others as they are.

    That of the first model sets the scale, and has none.
    """
    tables = [tabulate_errors(nbest, list(weights)) for nbest in lists]
    others = [name for name in weights if name not in (FIRST_PASS, first_model)]
    return {
        name: compute_error_curve(tables, weights, name)
        for name in (FIRST_PASS, *others)
    }


def tune(
    lists: Sequence[NBest], models: Sequence[str], tuned_on: Sequence[str] = ()
) -> Tuned:
    """Find the weights of scores with the fewest word errors over all the lists.

    The lists have references. The first language model's weight is 1, which sets the
    scale of the others. With one language model the result is the best there is. With
    several, weights are tuned one after the other until none lowers the errors
    (coordinate search). The tuned weight is the middle, in w, of the widest piece with
    the fewest errors: far from every corner, since the corners of another set lie
    elsewhere. If every weight makes the same number of errors, it is 1.
    """
    words = sum(len(split_reference(nbest)) for nbest in lists)
    weights = dict.fromkeys([*models, FIRST_PASS], 1.0)
    names = list(weights)
    tables = [tabulate_errors(nbest, names) for nbest in lists]
    if not words:
        raise InputError(
            "no N-best lists to tune the interpolation weight on, or no words in "
            "their references"
        )
    best = math.inf
    # Each weight's curve is through the values that the others have by now. Errors
    # never rise, as a curve holds the present point; with one weight, two rounds are
    # enough.
    for _ in range(_ROUNDS):
        before = best
        for name in (FIRST_PASS, *models[1:]):
            curve = compute_error_curve(tables, weights, name)
            best = min(curve.errors)
            low, high = find_widest_piece(curve, best)
            weights[name] = find_weight((low + high) / 2)
        if best == before:
            break
    return Tuned(weights, int(best), words, len(lists), tuple(tuned_on))
