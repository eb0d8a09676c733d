"""A table's results as the page shows them: the text of the cells, and where each number is on its column's axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from espnet_ext.scoring.formatting import NOTHING, format_interval, format_p, format_value
from espnet_ext.tables.render import Grid, curve_grid, legend, looked_note, percent_text, shown_seeds, test_cells
from espnet_ext.tables.result import Cell as ResultCell
from espnet_ext.tables.result import ClaimResult, ClaimTest, TableResult
from espnet_ext.tables.schema import Change, Column


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
    """A row of a group; ``system`` with its ``decoding`` is what was trained for it."""

    name: str
    system: str
    decoding: str
    cells: tuple[Cell, ...]
    seeds: str


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
    """A claim with its tests; ``changes`` says that changes of rates are compared, not rates."""

    claim: ClaimResult
    changes: bool
    corrected: str
    own: bool
    tests: tuple[TestView, ...]


@dataclass(frozen=True)
class TableView:
    """A table; or a figure, whose numbers are a ``grid`` instead of groups.

    Attributes:
        looked: what the claims' daggers mean; empty if none has one.
    """

    title: str
    metric: str
    groups: tuple[GroupView, ...]
    grid: Grid | None
    legend: str
    claims: tuple[ClaimView, ...]
    looked: str


def table_view(result: TableResult) -> TableView:
    """Lay out a table or figure. All bars of a column share one axis, which begins at 0."""
    return TableView(
        title=f"{result.table.title}. {result.table.caption}",
        metric=result.metric,
        groups=() if result.figure else tuple(_group(result, columns) for columns in result.groups),
        grid=curve_grid(result) if result.figure else None,
        legend=legend(result),
        claims=tuple(map(_claim, result.claims)),
        looked=looked_note(result.claims),
    )


def _group(result: TableResult, columns: Sequence[Column]) -> GroupView:
    heads, intervals, axes = [], [], []
    cells: list[list[Cell]] = [[] for _ in result.rows]
    for column in columns:
        top = _top(result, column)
        heads.append(column.heading)
        axes.append(f"{top:,g}" if top else "")
        here = [row.cells[column].here for row in result.rows]
        intervals.append(any(each and each.interval for each in here))
        for row, own in zip(result.rows, cells, strict=True):
            own.append(_cell(row.cells[column], top, intervals[-1]))
        if result.reference and column in result.reductions:
            heads.append(f"{column.name} against {result.reference.name}")
            axes.append("")
            intervals.append(False)
            for row, own in zip(result.rows, cells, strict=True):
                paper, ours = map(percent_text, result.reduction_of(row, column))
                own.append(Cell(paper, ours, None, None))
    rows = tuple(
        RowView(row.name, row.system, row.decoding, tuple(own), shown_seeds(row))
        for row, own in zip(result.rows, cells, strict=True)
    )
    return GroupView(tuple(heads), tuple(intervals), tuple(axes), rows)


def _cell(cell: ResultCell, top: float, interval: bool) -> Cell:
    here = cell.here
    shown = NOTHING if here is None else format_value(here.value, here.spread)
    return Cell(
        format_value(cell.paper),
        shown,
        format_interval(here.interval if here else None) if interval else None,
        _bar(cell, top) if top else None,
    )


def _top(result: TableResult, column: Column) -> float:
    """A round number at or above all values of a column; 0 if it has none."""
    values = [0.0]
    for row in result.rows:
        cell = row.cells[column]
        values += [] if cell.paper is None else [cell.paper]
        values += [cell.here.value, *(cell.here.interval or ()), *cell.here.by_seed.values()] if cell.here else []
    return round_up(max(values))


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


def _bar(cell: ResultCell, top: float) -> Bar | None:
    here = cell.here
    if cell.paper is None and here is None:
        return None
    paper = None if cell.paper is None else _place(cell.paper, 0.0, top)
    if here is None:
        return Bar(paper, None, None)
    seeds = tuple(_place(value, 0.0, top) for value in here.by_seed.values()) if len(here.by_seed) > 1 else ()
    interval = (_place(here.interval[0], 0.0, top), _place(here.interval[1], 0.0, top)) if here.interval else None
    return Bar(paper, _place(here.value, 0.0, top), interval, seeds)


def _place(value: float, low: float, high: float) -> float:
    """Percent of the way from one end to the other."""
    return round(100 * (value - low) / (high - low), 2)


def _claim(claim: ClaimResult) -> ClaimView:
    effects = [test.here for test in claim.tests if test.here]
    reach = round_up(max((abs(end) for e in effects for end in (e.points, *(e.interval or ()))), default=1.0)) or 1.0
    return ClaimView(
        claim,
        isinstance(claim.claim.better, Change),
        format_p(claim.p_corrected),
        claim.claim.own,
        tuple(_test(test, reach) for test in claim.tests),
    )


def _test(test: ClaimTest, reach: float) -> TestView:
    texts = test_cells(test)
    if test.here is None:
        return TestView(*texts, None)
    # A lower error rate, as the claim says, is to the right.
    ends = test.here.interval
    interval = (_place(ends[0], -reach, reach), _place(ends[1], -reach, reach)) if ends else None
    bar = Bar(None, _place(test.here.points, -reach, reach), interval, zero=_place(0.0, -reach, reach))
    return TestView(*texts, bar)
