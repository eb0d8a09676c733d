"""A table's results as the page shows them: the text of the cells, and where each number is on its column's axis."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from espnet_ext.tables.claims.counts import is_own, mark_of
from espnet_ext.tables.pages.figures import curve_rows
from espnet_ext.tables.pages.paste import Style, paste_row, paste_table
from espnet_ext.tables.pages.render import (
    called,
    cells_of_test,
    column_groups,
    has_intervals,
    legend,
    looked_note,
    reduction_columns,
    shown_cell,
    shown_claim,
    shown_p,
    shown_seeds,
)

PASTED: dict[str, Style] = {"LaTeX": "latex", "Markdown": "markdown"}


@dataclass(frozen=True)
class Bar:
    """Places on an axis in percent of its length; None for what is missing.

    Attributes:
        paper, here: the two numbers.
        interval: ends of the 95% interval.
        seeds: the values of single seeds, where there are several.
        zero: of an axis that goes below 0.
    """

    paper: float | None
    here: float | None
    interval: tuple[float, float] | None
    seeds: tuple[float, ...] = ()
    zero: float | None = None


@dataclass(frozen=True)
class Cell:
    """The paper's number, the result and its interval as text.

    ``interval`` is None in a column that has none; ``bar`` is None if there is nothing to draw.
    """

    paper: str
    here: str
    interval: str | None
    bar: Bar | None


@dataclass(frozen=True)
class RowView:
    """A row of a group; ``system`` with its ``decoding`` is what was trained for it.

    ``paste`` is the row in LaTeX and Markdown.
    """

    name: str
    system: str
    decoding: str
    cells: tuple[Cell, ...]
    seeds: str
    paste: Mapping[str, str]


@dataclass(frozen=True)
class GroupView:
    """Columns side by side, with their units if they are not error rates.

    ``axes`` are the largest values of their bars as text, "" for a column without bars; ``intervals`` says which of
    them have a column for the interval.
    """

    columns: tuple[str, ...]
    intervals: tuple[bool, ...]
    axes: tuple[str, ...]
    rows: tuple[RowView, ...]


@dataclass(frozen=True)
class TestView:
    """A claim on one column, as text; ``bar`` is None if it has not run."""

    column: str
    effect: str
    interval: str
    seeds: str
    units: str
    p_value: str
    bar: Bar | None


@dataclass(frozen=True)
class ClaimView:
    """A claim with its tests.

    Attributes:
        mark: a dagger if seeds were added after a look; otherwise empty.
        reason: why it is undecided.
        own: it is ours, and not the paper's.
    """

    text: str
    verdict: str
    mark: str
    reason: str
    compares: str
    corrected: str
    own: bool
    tests: tuple[TestView, ...]


@dataclass(frozen=True)
class Grid:
    """A figure's numbers: the column headings, and the rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class TableView:
    """A table; or a figure, whose numbers are a ``grid`` instead of groups.

    Attributes:
        looked: what the claims' daggers mean; empty if none has one.
        paste: it in LaTeX and Markdown.
    """

    title: str
    metric: str
    groups: tuple[GroupView, ...]
    grid: Grid | None
    legend: str
    claims: tuple[ClaimView, ...]
    looked: str
    paste: Mapping[str, str]


def table_view(result: Mapping[str, Any], units: Mapping[str, str] | None = None) -> TableView:
    """Lay out a ``table<T>.json`` or ``figure<F>.json``. All bars of a column share one axis, which begins at 0.

    ``units`` holds the units of columns that are not error rates.
    """
    is_figure = "figure" in result
    return TableView(
        title=f"{called(result).capitalize()}. {result['caption']}",
        metric=result["metric"],
        groups=() if is_figure else tuple(_group(result, columns, units or {}) for columns in column_groups(result)),
        grid=_grid(result) if is_figure else None,
        legend=legend(result),
        claims=tuple(_claim(claim) for claim in result["claims"]),
        looked=looked_note(result["claims"]),
        paste={} if is_figure else {name: paste_table(result, style) for name, style in PASTED.items()},
    )


def _grid(result: Mapping[str, Any]) -> Grid:
    head, rows = curve_rows(result)
    return Grid(tuple(head), tuple(map(tuple, rows)))


def _group(result: Mapping[str, Any], columns: Sequence[str], units: Mapping[str, str]) -> GroupView:
    reduced = reduction_columns(result) if result["reference"] else {}
    tops = {column: 0.0 if column in reduced else _top(result, column) for column in columns}
    intervals = {column: column not in reduced and has_intervals(result, column) for column in columns}
    rows = []
    for row in result["rows"]:
        cells = []
        for column in columns:
            shown = shown_cell(result, row, column)
            bar = _bar(row["cells"][column], tops[column]) if tops[column] else None
            cells.append(Cell(shown.paper, shown.here, shown.interval if intervals[column] else None, bar))
        paste = {name: paste_row(result, row, columns, style) for name, style in PASTED.items()}
        rows.append(RowView(row["name"], row["system"], row["decoding"], tuple(cells), shown_seeds(row), paste))
    heads = tuple(f"{column} ({units[column]})" if column in units else column for column in columns)
    axes = tuple(f"{top:,g}" if top else "" for top in tops.values())
    return GroupView(heads, tuple(intervals.values()), axes, tuple(rows))


def _top(result: Mapping[str, Any], column: str) -> float:
    """A round number at or above all values of a column; 0 if it has none."""
    highest = 0.0
    for row in result["rows"]:
        cell = row["cells"][column]
        here = cell["here"] or {}
        values = [cell["paper"], here.get("value"), *(here.get("ci95") or []), *here.get("values", {}).values()]
        highest = max([highest, *(value for value in values if value is not None)])
    return round_up(highest)


def round_up(value: float) -> float:
    """Round up to a number with few digits, such as 1, 1.5, 2, 2.5 or 5 times a power of ten.

    >>> [round_up(value) for value in (0.0, 0.7, 4.2, 31.2, 99.0, 121.0)]
    [0.0, 0.75, 5.0, 40.0, 100.0, 150.0]
    """
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    steps = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.5, 10.0)
    return next((round(step * power, 10) for step in steps if step * power >= value * (1 - 1e-9)), value)


def _bar(cell: Mapping[str, Any], top: float) -> Bar | None:
    here = cell["here"] or {}
    if cell["paper"] is None and not here:
        return None
    values = [cell["paper"], here.get("value")]
    paper, ours = (None if value is None else _place(value, 0.0, top) for value in values)
    seeds = tuple(_place(value, 0.0, top) for value in here.get("values", {}).values())
    interval = None
    if ends := here.get("ci95"):
        interval = (_place(ends[0], 0.0, top), _place(ends[1], 0.0, top))
    return Bar(paper, ours, interval, seeds)


def _place(value: float, low: float, high: float) -> float:
    """Percent of the way from one end to the other."""
    return round(100 * (value - low) / (high - low), 2)


def _claim(claim: Mapping[str, Any]) -> ClaimView:
    found = [test for test in claim["tests"].values() if test]
    ends = [abs(end) for test in found for end in (test["lower_by"], *(test["ci95"] or []))]
    reach = round_up(max(ends, default=1.0)) or 1.0
    return ClaimView(
        shown_claim(claim),
        claim["verdict"],
        mark_of(claim),
        claim["reason"] or "",
        claim["compares"],
        shown_p(claim["p_corrected"]),
        is_own(claim),
        tuple(_test(name, test, reach) for name, test in claim["tests"].items()),
    )


def _test(column: str, test: Mapping[str, Any] | None, reach: float) -> TestView:
    texts = cells_of_test(test)
    if test is None:
        return TestView(column, *texts, None)
    # A lower error rate, as the claim says, is to the right.
    interval = None
    if test["ci95"]:
        interval = _place(test["ci95"][0], -reach, reach), _place(test["ci95"][1], -reach, reach)
    bar = Bar(None, _place(test["lower_by"], -reach, reach), interval, zero=_place(0.0, -reach, reach))
    return TestView(column, *texts, bar)
