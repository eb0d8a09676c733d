"""How good N-best lists are: the error rates of their best and of their oracle hypotheses, and how varied they are."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import Hypothesis, NBest, distinct, word_errors, words_of_reference
from espnet_ext.scoring.report import percent


@dataclass(frozen=True)
class ListStatistics:
    """What lists hold.

    Attributes:
        lists, hypotheses: how many there are.
        longest: hypotheses in the longest list.
        distinct: number of distinct texts in a list -> how many lists have so many.
        empty: hypotheses without a word.
        references: lists with a reference.
    """

    lists: int
    hypotheses: int
    longest: int
    distinct: dict[int, int]
    empty: int
    references: int

    @property
    def mean_distinct(self) -> float:
        """Distinct texts a list, on average."""
        return sum(number * lists for number, lists in self.distinct.items()) / self.lists

    def short(self, wanted: int) -> int:
        """Lists with fewer distinct texts than ``wanted``."""
        return sum(lists for number, lists in self.distinct.items() if number < wanted)


def describe(lists: Sequence[NBest]) -> ListStatistics:
    """Count what the lists hold.

    >>> describe([NBest("u", (Hypothesis("A", -1.0), Hypothesis("A", -2.0), Hypothesis("", -3.0)))])
    ListStatistics(lists=1, hypotheses=3, longest=3, distinct={2: 1}, empty=1, references=0)

    Raises:
        InputError: there are no lists.
    """
    _require(lists)
    return ListStatistics(
        lists=len(lists),
        hypotheses=sum(len(nbest.hyps) for nbest in lists),
        longest=max(len(nbest.hyps) for nbest in lists),
        distinct=dict(sorted(Counter(len(distinct(nbest).hyps) for nbest in lists).items())),
        empty=sum(not hyp.text for nbest in lists for hyp in nbest.hyps),
        references=sum(nbest.ref is not None for nbest in lists),
    )


def oracle(nbest: NBest, depth: int | None = None) -> Hypothesis:
    """Of the first ``depth`` hypotheses (default: all) the one with the fewest word errors; of several, the best.

    >>> oracle(NBest("u", (Hypothesis("A CAT", -1.0), Hypothesis("THE CAT", -2.0)), ref="THE CAT")).score
    -2.0

    Raises:
        InputError: the list has no reference.
    """
    errors = word_errors(nbest)[:depth]
    return nbest.hyps[errors.index(min(errors))]


def oracle_errors(lists: Sequence[NBest], depth: int | None = None) -> list[int]:
    """Word errors of the oracle among the first n hypotheses of each list, for n = 1, 2 ... ``depth``.

    The first is the error count of the best hypotheses. A list with fewer than n takes part with all that it has.

    Raises:
        InputError: there are no lists, or one has no reference.
    """
    _require(lists)
    counted = [word_errors(nbest) for nbest in lists]
    longest = max(map(len, counted))
    return [sum(min(errors[:n]) for errors in counted) for n in range(1, min(depth or longest, longest) + 1)]


def oracle_report(lists: Sequence[NBest], depth: int | None = None) -> dict[str, Any]:
    """The oracle's errors as JSON: rates in percent, ``n`` hypotheses looked at.

    Raises:
        InputError: as :func:`oracle_errors`.
    """
    errors = oracle_errors(lists, depth)
    words = sum(len(words_of_reference(nbest)) for nbest in lists)
    rows = [{"n": n, "errors": count, "value": percent(count / words)} for n, count in enumerate(errors, start=1)]
    return {"lists": len(lists), "words": words, "oracle": rows}


def _require(lists: Sequence[NBest]) -> None:
    if not lists:
        raise InputError("there are no N-best lists")
