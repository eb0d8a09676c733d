"""How good N-best lists are: error rates of their best and their oracle hypotheses, and how varied they are."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import write_table
from espnet_ext.nbest.lists import Hypothesis, NBest, distinct, read_nbest, word_errors, words_of_reference
from espnet_ext.scoring.score_files import percent
from espnet_ext.work.files import write_json


@dataclass(frozen=True)
class ListStatistics:
    """What N-best lists hold.

    Attributes:
        lists, hypotheses: how many there are.
        longest: hypotheses in the longest list.
        distinct: for each number of distinct texts, how many lists have that many.
        empty: hypotheses without words.
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
        """Mean number of distinct texts per list."""
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
    """The hypothesis with the fewest word errors among the first ``depth`` (default: all); of equals, the first.

    >>> oracle(NBest("u", (Hypothesis("A CAT", -1.0), Hypothesis("THE CAT", -2.0)), ref="THE CAT")).score
    -2.0

    Raises:
        InputError: the list has no reference.
    """
    errors = word_errors(nbest)[:depth]
    return nbest.hyps[errors.index(min(errors))]


def oracle_errors(lists: Sequence[NBest], depth: int | None = None) -> list[int]:
    """Word errors of the oracle among the first n hypotheses of each list, for n = 1, 2 ... ``depth``.

    The first number counts the errors of the best hypotheses. A shorter list takes part with all its hypotheses.

    Raises:
        InputError: there are no lists, or one has no reference.
    """
    _require(lists)
    counted = [word_errors(nbest) for nbest in lists]
    longest = max(map(len, counted))
    return [sum(min(errors[:n]) for errors in counted) for n in range(1, min(depth or longest, longest) + 1)]


def oracle_report(lists: Sequence[NBest], depth: int | None = None) -> dict[str, Any]:
    """The oracle's errors as JSON: ``value`` is the error rate in percent among the first ``n`` hypotheses.

    Raises:
        InputError: as :func:`oracle_errors`.
    """
    errors = oracle_errors(lists, depth)
    words = sum(len(words_of_reference(nbest)) for nbest in lists)
    if not words:
        raise InputError("all references are empty, so there is no error rate: check where they come from")
    rows = [{"n": n, "errors": count, "value": percent(count / words)} for n, count in enumerate(errors, start=1)]
    return {"lists": len(lists), "words": words, "oracle": rows}


def oracle_lines(report: dict[str, Any]) -> list[str]:
    """What :func:`oracle_report` found, as lines to print.

    >>> oracle_lines({"lists": 1, "words": 4, "oracle": [{"n": 1, "errors": 3, "value": 75.0}]})
    ['1 lists, 4 words', '          1-best: WER 75.00 %  (3 errors)']
    """
    lines = [f"{report['lists']} lists, {report['words']} words"]
    for row in report["oracle"]:
        name = "1-best" if row["n"] == 1 else f"{row['n']}-best oracle"
        lines.append(f"{name:>16}: WER {row['value']:.2f} %  ({row['errors']} errors)")
    return lines


def statistics_lines(found: ListStatistics, wanted: int | None = None) -> list[str]:
    """What :func:`describe` found, as lines to print.

    Args:
        found: the statistics.
        wanted: count the lists with fewer distinct texts than this (default: than the longest list has hypotheses).
    """
    wanted = wanted or found.longest
    return [
        f"{found.lists} lists, {found.references} with a reference; {found.hypotheses} hypotheses, {found.empty} empty",
        f"{found.mean_distinct:.2f} distinct texts per list; the longest list has {found.longest} hypotheses",
        f"{found.short(wanted)} lists have fewer than {wanted} distinct texts",
        *(f"{number:>6} distinct: {lists} lists" for number, lists in found.distinct.items()),
    ]


def write_statistics(path: str | Path, found: ListStatistics) -> None:
    """Write statistics as JSON."""
    write_json(path, {**asdict(found), "mean_distinct": found.mean_distinct})


def report_lists(path: Path, folder: Path, name: str, say: Callable[[str], None] = print) -> None:
    """Write and print what lists with references hold, and what the best choice from them would give.

    Args:
        path: JSONL.
        folder: where ``stats_<name>.json``, ``oracle_<name>.json`` and the oracle's ``oracle_<name>.txt`` go.
        name: see ``folder``.
        say: prints lines.

    Raises:
        InputError: the file is missing or bad, or a list has no reference.
    """
    lists = read_nbest(path)
    found, report = describe(lists), oracle_report(lists)
    write_statistics(folder / f"stats_{name}.json", found)
    write_choice(folder / f"oracle_{name}.txt", lists)
    write_json(folder / f"oracle_{name}.json", report)
    for line in (*statistics_lines(found), *oracle_lines(report)):
        say(line)


def write_choice(path: str | Path, lists: Sequence[NBest], depth: int | None = None) -> None:
    """Write the oracle's choice among the first ``depth`` hypotheses of each list as Kaldi ``text``.

    ``depth`` 1 writes the best hypotheses.

    Raises:
        InputError: a list has no reference.
    """
    write_table(path, {nbest.utt_id: oracle(nbest, depth).text for nbest in lists})


def _require(lists: Sequence[NBest]) -> None:
    if not lists:
        raise InputError("there are no N-best lists")
