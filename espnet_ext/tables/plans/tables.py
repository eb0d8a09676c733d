"""What ``conf/tables.yaml`` says: a recipe's systems and decodings, and the paper's tables with the paper's numbers.

Figures become tables too: a curve is one system at each value of the axis, on one test set, and figure 1 becomes the
table ``figure1`` with rows such as ``Rev16 at 10 s`` of systems such as ``base_10``.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from espnet_ext.tables.plans.schema import Paper

PREFIX = "figure"
DEFAULT_SEEDS = "default"  # in `seeds`: systems without a number of their own


@dataclass(frozen=True)
class System:
    """A system: what a row of a table shows. ``SystemEntry`` of ``schema.py`` describes its fields."""

    name: str
    kind: str
    config: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    method: str | None = None
    size: str | None = None
    windows: str | None = None


@dataclass(frozen=True)
class RowRef:
    """A row of a table, in the file ``row`` (the same table) or ``table/row``."""

    table: str
    row: str


@dataclass(frozen=True)
class Change:
    """The change of the error rate from one row to another, such as with more training data; negative if it falls."""

    before: RowRef
    after: RowRef


@dataclass(frozen=True)
class Column:
    """A column: a test set (or ``average``, the mean of all), and a measure of it (None: there is only one).

    With a ``unit`` it is a quantity of the system itself, such as its latency in ms; ``test_set`` is then None.
    """

    name: str
    test_set: str | None
    measure: str | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Row:
    """A row: a system, a decoding of it, and the paper's number for each column (None: the paper has none).

    A row of a figure is a point of a ``curve``, at ``x``, and has one of the columns only.
    """

    name: str
    system: str
    decoding: str
    paper: Mapping[str, float | None]
    curve: str | None = None
    x: float | None = None


@dataclass(frozen=True)
class Figure:
    """How a table's rows are drawn as curves.

    Attributes:
        axis: the label of the x axis, with its unit.
        y: what the y axis shows: the error ``rate``, or its relative ``reduction``.
        baseline: the x value from which reductions are computed.
        largest: by curve, the largest reduction that the paper names, in percent.
    """

    axis: str
    y: str
    baseline: float
    largest: Mapping[str, float]


@dataclass(frozen=True)
class Claim:
    """A statement: on each column ``better`` has a lower error rate (or change of it) than ``worse``.

    With a ``margin``, in points: is not worse by more than that. ``ClaimEntry`` of ``schema.py`` describes the rest.
    """

    text: str
    better: RowRef | Change
    worse: RowRef | Change
    columns: tuple[Column, ...]
    margin: float = 0.0
    own: bool = False
    extended: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Alike:
    """Rows whose trainings differ by chance alone, and why."""

    text: str
    rows: tuple[RowRef, ...]


@dataclass(frozen=True)
class Table:
    """A table; ``baseline`` is the row to which reductions of the error rate refer, in the columns ``reductions``."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    baseline: RowRef | None
    reductions: tuple[str, ...]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    figure: Figure | None = None

    def columns_of(self, row: Row) -> tuple[Column, ...]:
        """The columns that a row has: all of them, or that of its curve."""
        return tuple(column for column in self.columns if column.name in row.paper)


@dataclass(frozen=True)
class Tables:
    """All of ``tables.yaml``; ``decodings`` are overrides of the section ``decode``, ``default`` has none."""

    path: Path
    recipe: str
    paper: Paper
    test_sets: tuple[str, ...]
    measures: tuple[str, ...]
    quantities: Mapping[str, str]
    systems: Mapping[str, System]
    decodings: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, Table]
    pictures: Mapping[str, str]
    seeds: Mapping[str, Mapping[str, int]]
    alike: Alike | None = None

    def seeds_of(self, system: str, scale: str) -> list[int]:
        """The seeds that a system is trained with where a run names none."""
        design = self.seeds.get(scale, {})
        return list(range(1, design.get(system, design.get(DEFAULT_SEEDS, 1)) + 1))

    @property
    def recipe_dir(self) -> Path:
        """The recipe's folder: the one that holds ``conf/tables.yaml``."""
        return Path(os.path.abspath(self.path)).parent.parent

    def row(self, ref: RowRef) -> Row:
        """The row that ``ref`` names."""
        return next(row for row in self.tables[ref.table].rows if row.name == ref.row)


def rows_of(side: RowRef | Change) -> tuple[RowRef, ...]:
    """The rows that a side of a claim names; of a change, first the one before."""
    return (side,) if isinstance(side, RowRef) else (side.before, side.after)


def row_name(curve: str, value: float, unit: str) -> str:
    """The name of a curve's row at a value.

    >>> row_name("Rev16", 10, "s")
    'Rev16 at 10 s'
    """
    return f"{curve} at {value:g} {unit}"
