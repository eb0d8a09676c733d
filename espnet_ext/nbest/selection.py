"""Which hypotheses of N-best lists are used, and by which score they are ranked."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.text.nbest import NBest, drop_repeated_texts, select_part

Weights = Mapping[str, float]  # by name of a score


@dataclass(frozen=True)
class Selection:
    """Say what is used of each list, in the order of the fields.

    ``parts``: the first pass's score becomes the weighted sum of these parts of it, and
    lists are ranked by it anew; empty: the total as it is. A text that comes again is
    then dropped. ``depth`` is the number of hypotheses that are left, None for all.
    Repeated texts go before the cut, so that a list of ten has ten texts if the decoder
    found them.
    """

    parts: Weights = field(default_factory=dict)
    depth: int | None = None


ALL = Selection()  # but texts that come again


def parse_parts(text: str) -> dict[str, float]:
    """Return the parts and weights in ``NAME=X,NAME=X``; InputError for anything else.

    >>> parse_parts("decoder=.6,ctc=.4")
    {'decoder': 0.6, 'ctc': 0.4}
    """
    parts: dict[str, float] = {}
    for each in text.split(","):
        name, _, number = each.partition("=")
        name = name.strip()
        try:
            weight = float(number)
        except ValueError:
            name = ""
        if not name:
            raise InputError(
                f"{text!r} does not say parts and their weights, as decoder=.6,ctc=.4"
            )
        if name in parts:
            raise InputError(f"{text!r} names {name} twice")
        parts[name] = weight
    check_weights(parts)
    if not any(parts.values()):
        raise InputError(f"{text!r}: all weights are 0, so nothing is left of a score")
    return parts


def check_weights(weights: Weights) -> None:
    """Refuse weights that are not finite or negative."""
    for name, weight in weights.items():
        if not math.isfinite(weight) or weight < 0.0:
            raise InputError(
                f"a weight of {weight} for {name}: it must be a finite number, 0 "
                "or more"
            )


def select_hypotheses(
    lists: Sequence[NBest], selection: Selection, path: str | Path
) -> tuple[list[NBest], list[str]]:
    """Return lists with the hypotheses that are used, and lines that say what was done.

    The lines and messages name ``path``. Raises InputError: a hypothesis without a part
    that is named.
    """
    notes = []
    warnings = []
    selected = list(lists)
    if selection.parts:
        try:
            selected = [rank_by_parts(nbest, selection.parts) for nbest in lists]
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        notes.append(_describe_parts(lists, selection.parts))
    else:
        warnings = [f"warning: {path}: {fault}" for fault in _find_unordered(lists)]
    # Before the cut, so that the ten best are ten texts.
    ranked = selected
    selected = [drop_repeated_texts(nbest) for nbest in ranked]
    if repeated := _count_hypotheses(ranked) - _count_hypotheses(selected):
        notes.append(f"{repeated} repeated texts dropped, the best of each kept")
    depth = selection.depth
    most = max((len(nbest.hyps) for nbest in selected), default=0)
    if depth is not None and depth < most:
        selected = [replace(nbest, hyps=nbest.hyps[:depth]) for nbest in selected]
        notes.append(f"lists of up to {most} hypotheses cut to {depth}")
    return selected, warnings + [f"{path}: {note}" for note in notes]


def rank_by_parts(nbest: NBest, parts: Weights) -> NBest:
    """Return the list with weighted sums of parts as scores, the highest first."""
    if not any(hyp.text for hyp in nbest.hyps):
        return nbest  # ESPnet's mark of too short an utterance, which has no parts
    totals = [0.0] * len(nbest.hyps)
    for name, weight in parts.items():
        values = select_part(nbest, name)
        totals = [
            total + weight * value for total, value in zip(totals, values, strict=True)
        ]
    hyps = [
        replace(hyp, score=total) for hyp, total in zip(nbest.hyps, totals, strict=True)
    ]
    # Python's sort is stable: equals stay in the decoder's order.
    ranked = sorted(hyps, key=lambda hyp: -hyp.score)
    return replace(nbest, hyps=tuple(ranked))


def _find_unordered(lists: Sequence[NBest]) -> Iterator[str]:
    """Find lists that are not best first by the scores that they have."""
    # Their order may well be meant, as after a second pass, whose lists keep the first
    # pass's scores; only who made them knows.
    unordered = [
        nbest.utt_id
        for nbest in lists
        if any(later.score > hyp.score for hyp, later in pairwise(nbest.hyps))
    ]
    if unordered:
        yield (
            f"{len(unordered)} of {len(lists)} lists are not best first by their own "
            f"scores, {unordered[0]} the first of them: they stay in their order, by "
            "which --depth and the first pass's choice go, while weights act on the "
            "scores: sort the lists if that is not meant"
        )


def _describe_parts(lists: Iterable[NBest], parts: Weights) -> str:
    total = " + ".join(f"{weight:g} {name}" for name, weight in parts.items())
    known = {name for nbest in lists for hyp in nbest.hyps for name in hyp.scores}
    left_out = sorted(known - parts.keys())
    rest = f"; left out: {', '.join(left_out)}" if left_out else ""
    return f"first pass = {total}{rest}"


def _count_hypotheses(lists: Iterable[NBest]) -> int:
    return sum(len(nbest.hyps) for nbest in lists)
