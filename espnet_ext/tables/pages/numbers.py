"""What templates of pages may say: numbers of kept results and facts, by name.

In the pages of a recipe these functions read ``results/mini-synthetic``; ``kept("mini-LibriSpeech-digits").value(...)``
reads another folder, and ``recipe("librispeech_sem").value(...)`` another recipe.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.tables.claims.counts import (
    CONTRADICTED,
    DAGGER,
    HOLDS,
    NOT_RUN,
    UNDECIDED,
    VERDICTS,
    Counts,
    count_verdicts,
    is_own,
)
from espnet_ext.tables.claims.verdicts import verdict_text
from espnet_ext.tables.kept.facts import read_facts
from espnet_ext.tables.kept.result_files import read_results, result_files
from espnet_ext.tables.pages.render import cells_of_test, count_of, format_interval, plain_table, reduction
from espnet_ext.work.settings import known

DEFAULT_FOLDER = "mini-synthetic"


@dataclass(frozen=True)
class KeptNumbers:
    """The kept results of one corpus and scale."""

    folder: Path

    @cached_property
    def tables(self) -> dict[str, dict[str, Any]]:
        """All tables and figures by the names of their files, such as ``table1``."""
        return {path.stem: read_results(path) for path in result_files(self.folder)}

    def table(self, name: str) -> dict[str, Any]:
        """A table or figure, such as ``table1``."""
        return _named(self.tables, name, f"{self.folder}: no table")

    def number(self, table: str, row: str, column: str, seed: int | None = None) -> float:
        """A result: the mean over its seeds, or that of one seed."""
        here = self._here(table, row, column)
        if seed is None:
            return here["value"]
        values = here.get("values") or {str(self._row(table, row)["seeds"][0]): here["value"]}
        return _named(values, str(seed), f"{self.folder}: {table}, row {row!r} has no seed")

    def value(self, table: str, row: str, column: str, seed: int | None = None, digits: int = 1) -> str:
        """A result as text, such as ``14.0``."""
        return f"{self.number(table, row, column, seed):.{digits}f}"

    def paper(self, table: str, row: str, column: str, digits: int = 1) -> str:
        """The paper's number."""
        number = self._cell(table, row, column)["paper"]
        if number is None:
            raise InputError(f"{self.folder}: {table}, row {row!r}: the paper has no number for {column!r}")
        return f"{number:.{digits}f}"

    def spread(self, table: str, row: str, column: str, digits: int = 1) -> str:
        """The standard deviation between trainings."""
        here = self._here(table, row, column)
        if "spread" not in here:
            raise InputError(f"{self.folder}: {table}, row {row!r} has a single seed, and so no spread")
        return f"{here['spread']:.{digits}f}"

    def interval(self, table: str, row: str, column: str) -> str:
        """The 95% interval, such as ``[3.36, 7.52]``."""
        return format_interval(self._here(table, row, column))

    def seeds(self, table: str, row: str) -> str:
        """The number of seeds of a row, such as ``2 seeds``."""
        return count_of(len(self._row(table, row)["seeds"]), "seed")

    def seed_numbers(self, table: str, row: str) -> list[int]:
        """The seeds of a row."""
        return list(self._row(table, row)["seeds"])

    def mean(self, table: str, row: str, column: str, seeds: Sequence[int]) -> float:
        """The mean of a result over some of its seeds."""
        return statistics.fmean(self.number(table, row, column, seed) for seed in seeds)

    def change(self, table: str, row: str, than: str, column: str, seed: int | None = None) -> float:
        """The result of ``row`` minus that of the row ``than``, in points."""
        return self.number(table, row, column, seed) - self.number(table, than, column, seed)

    def lower_by(self, table: str, row: str, than: str, column: str, seed: int | None = None, digits: int = 1) -> str:
        """By how many points ``row`` lies below the row ``than``; refused if it does not, since the text says so."""
        return self._by(-1, table, row, than, column, seed, digits)

    def higher_by(self, table: str, row: str, than: str, column: str, seed: int | None = None, digits: int = 1) -> str:
        """By how many points ``row`` lies above the row ``than``; refused if it does not, since the text says so."""
        return self._by(1, table, row, than, column, seed, digits)

    def _by(self, sign: int, table: str, row: str, than: str, column: str, seed: int | None, digits: int) -> str:
        points = sign * self.change(table, row, than, column, seed)
        if points < 0:
            raise InputError(f"{table}, {column}: {row!r} is not {'higher' if sign > 0 else 'lower'} than {than!r}")
        return f"{points:.{digits}f}"

    def reduction(self, table: str, row: str, than: str, column: str, digits: int = 1) -> str:
        """The relative reduction from the row ``than`` to ``row`` in percent; negative if it is an increase."""
        percent = reduction(self.number(table, row, column), self.number(table, than, column))
        if percent is None:
            raise InputError(f"{self.folder}: {table}, row {than!r}: nothing is relative to 0")
        return f"{percent:.{digits}f}"

    def claim(self, table: str, text: str) -> dict[str, Any]:
        """A claim, by its text."""
        found = {each["text"]: each for each in self.table(table)["claims"]}
        return _named(found, text, f"{self.folder}: {table} has no claim")

    def verdict(self, table: str, text: str) -> str:
        """The verdict on a claim, such as ``undecided (2 seeds)``, or ``holds†`` with seeds added after a look."""
        return verdict_text(self.claim(table, text))

    def verdict_if_any(self, table: str, text: str) -> str:
        """The verdict on a claim that may have been reworded or dropped since."""
        found = self._claim_if_any(table, text)
        return verdict_text(found) if found else "no longer tested"

    def is_own_if_any(self, table: str, text: str) -> bool:
        """Whether a claim is tested and is ours, not the paper's."""
        found = self._claim_if_any(table, text)
        return found is not None and is_own(found)

    def effect(self, table: str, text: str, column: str) -> str:
        """The effect of a claim on a test set with its interval, such as ``1.50 higher [-0.10, +3.10]``."""
        test = _named(self.claim(table, text)["tests"], column, f"{self.folder}: {text!r} has no test set")
        return " ".join(cells_of_test(test)[:2])

    def claims(self, verdict: str | None = None, *, own: bool = False) -> int:
        """The number of the paper's claims, or of those with one verdict (``holds``, ``contradicted``...).

        With ``own``: of our own.
        """
        counts = count_verdicts(self.tables.values(), own=own)
        return counts.total if verdict is None else counts.number(_one_of(VERDICTS, verdict))

    def verdicts(self, *, own: bool = False) -> str:
        """How many claims of the paper have which verdict, as :func:`verdicts_text` says it; with ``own``: of ours."""
        return verdicts_text(count_verdicts(self.tables.values(), own=own))

    def plain(self, table: str, *rows: str) -> str:
        """Rows of a table as the terminal shows them."""
        for row in rows:
            self._row(table, row)
        return plain_table(self.table(table), rows or None).rstrip("\n")

    def _claim_if_any(self, table: str, text: str) -> dict[str, Any] | None:
        claims = self.tables[table]["claims"] if table in self.tables else []
        return next((each for each in claims if each["text"] == text), None)

    def _row(self, table: str, row: str) -> dict[str, Any]:
        rows = {each["name"]: each for each in self.table(table)["rows"]}
        return _named(rows, row, f"{self.folder}: {table} has no row")

    def _cell(self, table: str, row: str, column: str) -> dict[str, Any]:
        return _named(self._row(table, row)["cells"], column, f"{self.folder}: {table}, row {row!r} has no column")

    def _here(self, table: str, row: str, column: str) -> dict[str, Any]:
        here = self._cell(table, row, column)["here"]
        if here is None:
            raise InputError(f"{self.folder}: {table}, row {row!r}, {column!r} has not run")
        return here


@dataclass(frozen=True)
class Numbers(KeptNumbers):
    """All that a recipe keeps in ``results/``; where no folder is named, that of the synthetic corpus at ``mini``."""

    results: Path

    @classmethod
    def of(cls, recipe_dir: Path) -> "Numbers":
        """Those of a recipe."""
        return cls(recipe_dir / "results" / DEFAULT_FOLDER, recipe_dir / "results")

    def kept(self, folder: str) -> KeptNumbers:
        """Another folder of kept results, such as ``mini-LibriSpeech-digits``."""
        return KeptNumbers(self.results / folder)

    def fact(self, name: str, *keys: str | int) -> Any:
        """A fact: the value under ``keys`` in ``results/<name>.json``."""
        return fact(self.results, name, *keys)


def verdicts_text(counts: Counts) -> str:
    """Numbers of claims by verdict as text; claims that have not run are left out if there are none.

    >>> verdicts_text(Counts({("holds", ""): 1, ("undecided", ""): 12}))
    '1 holds, none is contradicted, 12 are undecided'
    >>> verdicts_text(Counts({("holds", ""): 4, ("holds", "†"): 1}))
    '4 hold and 1 more with seeds added after a look, none is contradicted, none is undecided'
    >>> verdicts_text(Counts({("contradicted", "†"): 2, ("undecided", ""): 1}))
    'none holds, 2 are contradicted with seeds added after a look, 1 is undecided'
    """
    verbs = {HOLDS: ("holds", "hold"), CONTRADICTED: ("is contradicted", "are contradicted")}
    verbs |= {UNDECIDED: ("is undecided", "are undecided"), NOT_RUN: ("has not run", "have not run")}
    shown = [verdict for verdict in VERDICTS if verdict != NOT_RUN or counts.number(verdict)]
    return ", ".join(
        _counted(counts.number(verdict, ""), counts.number(verdict, DAGGER), *verbs[verdict]) for verdict in shown
    )


def _counted(plain: int, looked: int, one: str, several: str) -> str:
    """A number of claims with their verb, and of those that were decided with seeds added after a look."""
    first = plain or looked
    text = f"{first or 'none'} {one if first < 2 else several}"
    after = "with seeds added after a look"
    return text if not looked else f"{text} and {looked} more {after}" if plain else f"{text} {after}"


def fact(folder: Path, name: str, *keys: str | int) -> Any:
    """The value under ``keys`` in ``<folder>/<name>.json``.

    Raises:
        InputError: no such file, or no such key in it.
    """
    path = folder / f"{name}.json"
    found: Any = read_facts(path)["values"]
    for key in keys:
        if isinstance(found, list) and isinstance(key, int) and 0 <= key < len(found):
            found = found[key]
        elif isinstance(found, Mapping):
            found = _named(found, str(key), f"{path}: no key")
        else:
            raise InputError(f"{path}: {key!r} leads nowhere")
    return found


def _named(found: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in found:
        raise InputError(f"{what} {name!r}; {known(list(found))}")
    return found[name]


def _one_of(names: tuple[str, ...], name: str) -> str:
    if name not in names:
        raise InputError(f"no verdict {name!r}; {known(list(names))}")
    return name
