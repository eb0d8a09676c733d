"""A table's results as the page shows them: the text of the cells, and where each number is on its column's axis."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from espnet_ext.results.claims import FAILS, HOLDS, UNDECIDED
from espnet_ext.results.figures import curve_rows
from espnet_ext.results.render import column_groups, legend, reduction_columns, row_cells
from espnet_ext.results.results_md import called

NOT_RUN = "not run"
VERDICTS = (HOLDS, UNDECIDED, FAILS, NOT_RUN)


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
    """The paper's number and the result as text; ``bar`` is None if there is nothing to draw."""

    paper: str
    here: str
    bar: Bar | None


@dataclass(frozen=True)
class RowView:
    """A row of a group; ``system`` with its ``decoding`` is what was trained for it."""

    name: str
    system: str
    decoding: str
    cells: tuple[Cell, ...]
    seeds: str


@dataclass(frozen=True)
class GroupView:
    """Columns side by side, with their units if they are not error rates.

    ``axes`` are the largest values of their bars as text, "" for a column without bars.
    """

    columns: tuple[str, ...]
    axes: tuple[str, ...]
    rows: tuple[RowView, ...]


@dataclass(frozen=True)
class TestView:
    """A claim on one column; ``text`` is the difference with its interval, p-value and seeds."""

    column: str
    text: str
    verdict: str
    bar: Bar


@dataclass(frozen=True)
class ClaimView:
    """A claim of the paper with its tests; ``missing`` are the columns without a test."""

    text: str
    verdict: str
    tests: tuple[TestView, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """A figure's numbers: the column headings, and the rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class TableView:
    """A table; or a figure, whose numbers are a ``grid`` instead of groups."""

    title: str
    metric: str
    groups: tuple[GroupView, ...]
    grid: Grid | None
    legend: str
    claims: tuple[ClaimView, ...]


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
        claims=tuple(_claim(claim) for claim in result.get("claims", [])),
    )


def _grid(result: Mapping[str, Any]) -> Grid:
    head, rows = curve_rows(result)
    return Grid(tuple(head), tuple(map(tuple, rows)))


def _group(result: Mapping[str, Any], columns: Sequence[str], units: Mapping[str, str]) -> GroupView:
    reduced = reduction_columns(result) if result.get("reference") else {}
    tops = {column: 0.0 if column in reduced else _top(result, column) for column in columns}
    rows = []
    for row in result["rows"]:
        name, *texts, seeds = row_cells(result, row, columns)
        cells = (
            Cell(paper, here, _bar(row["cells"][column], tops[column]) if tops[column] else None)
            for column, paper, here in zip(columns, texts[::2], texts[1::2], strict=True)
        )
        rows.append(RowView(name, row["system"], row["decoding"], tuple(cells), seeds))
    heads = tuple(f"{column} ({units[column]})" if column in units else column for column in columns)
    return GroupView(heads, tuple(f"{top:,g}" if top else "" for top in tops.values()), tuple(rows))


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
    found = {name: test for name, test in claim["tests"].items() if test}
    reach = round_up(max((abs(end) for test in found.values() for end in test["ci95"]), default=1.0)) or 1.0
    change = "change " if claim.get("compares") == "changes" else ""
    tests = tuple(_test(name, test, reach, change) for name, test in found.items())
    missing = tuple(name for name in claim["tests"] if name not in found)
    return ClaimView(claim["text"], claim["verdict"] or NOT_RUN, tests, missing)


def _test(column: str, test: Mapping[str, Any], reach: float, change: str) -> TestView:
    low, high = test["ci95"]
    direction = "lower" if test["lower_by"] >= 0 else "higher"
    text = (
        f"{change}{abs(test['lower_by']):.2f} {direction} (95% interval of the reduction: {low:.2f} to "
        f"{high:.2f}), p = {test['p_value']:.2g}, {_seeds(test['seeds'])}"
    )
    # A lower error rate, as the claim says, is to the right.
    places = [_place(value, -reach, reach) for value in (test["lower_by"], low, high, 0.0)]
    return TestView(column, text, test["verdict"], Bar(None, places[0], (places[1], places[2]), zero=places[3]))


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
