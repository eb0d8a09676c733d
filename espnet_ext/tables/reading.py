"""Read ``conf/tables.yaml`` at a scale: systems of sweeps and figures are made, and all references checked."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from espnet_ext.errors import InputError
from espnet_ext.tables.schema import (
    AVERAGE,
    DEFAULT_DECODING,
    DEFAULT_SEEDS,
    FIGURE,
    MEASURE,
    OVER,
    Axis,
    Choice,
    Claim,
    Column,
    Curve,
    Curves,
    Decoding,
    Figure,
    Name,
    Names,
    Paper,
    Point,
    Row,
    System,
    Table,
)
from espnet_ext.work.settings import Count, StrictMapping, Text, fault, known
from espnet_ext.work.yaml_files import read_yaml

_REFERENCES = ("claims", "better", "worse", "from", "to", "baseline")  # where a table names rows


def _absolute(value: Any, table: str) -> Any:
    """Return what a table or figure holds, with the rows that its claims and its baseline name made "table/row"."""
    if isinstance(value, dict):
        return {key: _absolute(item, table) if key in _REFERENCES else item for key, item in value.items()}
    if isinstance(value, list):
        return [_absolute(item, table) for item in value]
    return f"{table}/{value}" if isinstance(value, str) and "/" not in value else value


def _named(key: str, table: str | None = None) -> BeforeValidator:
    """Let each item of a mapping know its own name; ``table`` begins the names of tables, in which rows are named."""

    def name_items(items: Any) -> Any:
        if not isinstance(items, dict):
            return items
        named = {name: {**item, key: name} if isinstance(item, dict) else item for name, item in items.items()}
        return named if table is None else {name: _absolute(item, f"{table}{name}") for name, item in named.items()}

    return BeforeValidator(name_items)


class TablesFile(StrictMapping):
    """All of ``tables.yaml`` as it is written.

    ``measures`` are those of ``score.json`` that columns name; ``quantities`` are columns that hold what a system's own
    ``<quantity>.json`` holds, with their units; ``seeds`` says with how many seeds a run without ``--seed`` trains each
    system, by scale and system (``default``: the others; one seed where nothing is said); ``pictures`` are captions of
    the recipe's pictures by file name without ``.png``.
    """

    recipe: Name
    paper: Paper
    test_sets: Names
    measures: Annotated[Names, Field()] = ()
    quantities: dict[Name, Text] = {}
    pictures: dict[Name, Text] = {}
    seeds: dict[Name, dict[Name, Count]] = {}
    systems: Annotated[dict[Name, System], _named("name")]
    decodings: dict[Name, Decoding] = {}
    axis: Axis | None = None
    figures: Annotated[dict[Name, Curves], _named("id", FIGURE)] = {}
    tables: Annotated[dict[Name, Table], _named("id", "")]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if AVERAGE in self.test_sets:
            raise ValueError(f"test_sets: {AVERAGE!r} is the mean of the test sets and cannot be one of them")
        if DEFAULT_DECODING in self.decodings:
            raise ValueError(f"decodings: {DEFAULT_DECODING!r} is the section decode as it is; give yours another name")
        if self.figures and self.axis is None:
            raise ValueError("the key 'axis' is missing: figures need it")
        return self


@dataclass(frozen=True)
class Tables:
    """A ``tables.yaml`` at a scale.

    Attributes:
        path: the file.
        file: as it is written.
        systems: all systems that rows name, by name; those of sweeps are made.
        decodings: overrides of the section ``decode`` by name; ``default`` has none.
        tables: tables, and figures as tables.
        columns: by name.
    """

    path: Path
    file: TablesFile
    systems: Mapping[str, System]
    decodings: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, Table]
    columns: Mapping[str, Column]

    @property
    def recipe_dir(self) -> Path:
        """The recipe's folder: the one that holds ``conf/tables.yaml``."""
        return Path(os.path.abspath(self.path)).parent.parent

    @cached_property
    def rows(self) -> dict[str, Row]:
        """All rows by "table/row"."""
        return {f"{table.id}/{row.name}": row for table in self.tables.values() for row in table.rows}

    def paper_of(self, row: str) -> dict[str, float | None]:
        """Return the paper's number for each column of a row that is named "table/row"."""
        return self.tables[row.partition("/")[0]].paper_of(self.rows[row])

    def columns_of(self, table: Table) -> tuple[Column, ...]:
        """Return the columns of a table."""
        return tuple(self.columns[name] for name in table.columns)

    def tested_columns(self, table: Table, claim: Claim) -> tuple[Column, ...]:
        """Return the columns on which a claim is tested: those that it names, by default all error rates."""
        columns = [self.columns[name] for name in claim.columns or table.columns]
        return tuple(column for column in columns if column.test_set not in (AVERAGE, None))

    def reductions_of(self, table: Table) -> tuple[Column, ...]:
        """Return the columns in which reductions are shown: those that the table names, by default the last rate."""
        rates = [column for column in self.columns_of(table) if column.test_set]
        return tuple(self.columns[name] for name in table.reduction) if table.reduction else tuple(rates[-1:])

    def sets_of(self, column: Column) -> tuple[str, ...]:
        """Return the test sets that a column is made of; none for a quantity."""
        if column.test_set is None:
            return ()
        return self.file.test_sets if column.test_set == AVERAGE else (column.test_set,)

    def seeds_of(self, system: str, scale: str) -> list[int]:
        """Return the seeds that a system is trained with where a run names none.

        A scale that says nothing of a system has the seeds of the scale that it is ``over``.
        """
        while True:
            design = self.file.seeds.get(scale, {})
            if count := design.get(system, design.get(DEFAULT_SEEDS)):
                return list(range(1, count + 1))
            path = self.path.with_name(f"{scale}.yaml")
            below = read_yaml(path).get(OVER) if path.is_file() else None
            if below is None:
                return [1]
            scale = below


def load_tables(path: str | Path, scale: str | None = None) -> Tables:
    """Read and check a ``tables.yaml``.

    Args:
        path: The file.
        scale: Whose values figures have on their axis (None: those of all scales).

    Raises:
        InputError: anything missing, unknown, misspelt or doubled; the message names the place in the file.
    """
    path = Path(path)
    content = read_yaml(path)
    try:
        file = TablesFile.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{path}: {fault(content, error)}") from error
    return _Reader(path, file).tables(scale)


def _point(curve: Curve, value: float, unit: str) -> Point:
    """Return the row of a curve at a value of the axis."""
    x = int(value) if value == int(value) else value  # as in the file: configs hold 10 and not 10.0
    return Point.model_construct(
        name=f"{curve.name} at {value:g} {unit}",
        chosen_system=Choice(curve.system.name, (*curve.system.values, x)),
        chosen_decoding=curve.decoding,
        paper=(curve.paper.get(value),),
        column=curve.column,
        curve=curve.name,
        x=x,
    )


class _Reader:
    """Makes the systems and decodings that rows ask of sweeps, and checks what names what."""

    def __init__(self, path: Path, file: TablesFile) -> None:
        self.path, self.file = path, file
        names = (*file.test_sets, AVERAGE)
        columns = [Column(name, None, unit=unit) for name, unit in file.quantities.items()]
        columns += [Column(name, name) for name in names]
        columns += [Column(f"{name} {measure}", name, measure) for name in names for measure in file.measures]
        self.columns = {column.name: column for column in columns}  # `dev`, `dev CH`, and quantities
        # By the system that the file names: systems come in its order, and those of a sweep in that of their first use.
        self.systems = {name: {} if each.sweep else {name: each} for name, each in file.systems.items()}
        self.entries = {DEFAULT_DECODING: Decoding(), **file.decodings}
        self.decodings = {name: each for name, each in self.entries.items() if not each.sweep}

    def tables(self, scale: str | None) -> Tables:
        figures = {f"{FIGURE}{name}": self.figure(curves, scale) for name, curves in self.file.figures.items()}
        tables = self.file.tables | figures
        for table in [*figures.values(), *self.file.tables.values()]:
            self.check_table(table)
        rows = {f"{table.id}/{row.name}" for table in tables.values() for row in table.rows}
        for table in tables.values():
            self.check_references(table, tables, rows)
        systems = {name: system for made in self.systems.values() for name, system in made.items()}
        for seeds_scale, design in self.file.seeds.items():
            if not self.path.with_name(f"{seeds_scale}.yaml").is_file():
                raise self.error("seeds", f"no scale {seeds_scale!r}: there is no {seeds_scale}.yaml beside this file")
            for name in design:
                self.one_of(name, {**systems, DEFAULT_SEEDS: None}, f"seeds.{seeds_scale}", "system")
        decodings = {name: decoding.overrides for name, decoding in self.decodings.items()}
        return Tables(self.path, self.file, systems, decodings, tables, self.columns)

    def error(self, place: str, text: str) -> InputError:
        return InputError(f"{self.path}: {place}: {text}")

    def one_of[Named](self, name: str, names: Mapping[str, Named], place: str, what: str) -> Named:
        if name not in names:
            raise self.error(place, f"unknown {what} {name!r}; {known(names)}")
        return names[name]

    def figure(self, curves: Curves, scale: str | None) -> Figure:
        """Make a figure at the values that the scale has on the axis (None: those of all scales).

        Claims about other values are left out.
        """
        axis, place = self.file.axis, f"figures.{curves.id}"
        assert axis is not None  # checked by the model
        everywhere = sorted({value for values in axis.values.values() for value in values})
        values = everywhere if scale is None else self.one_of(scale, axis.values, "axis.values", "scale")
        for number, curve in enumerate(curves.curves):
            if unknown := [value for value in curve.paper if value not in everywhere]:
                text = f"{unknown[0]:g} is on the axis of no scale"
                raise self.error(f"{place}.curves[{number}] ({curve.name}).paper", text)
        table = f"{FIGURE}{curves.id}"
        points = {
            f"{table}/{curve.name} at {value:g} {axis.unit}": _point(curve, value, axis.unit)
            for curve in curves.curves
            for value in everywhere
        }
        for number, claim in enumerate(curves.claims):
            for row in claim.rows:
                if row not in points:
                    text = f"there is no {row!r}; rows are called like {next(iter(points))!r}"
                    raise self.error(f"{place}.claims[{number}]", text)
        rows = {name: point for name, point in points.items() if point.x in values}
        claims = [claim for claim in curves.claims if all(row in rows for row in claim.rows)]
        return Figure.model_construct(
            id=table,
            caption=curves.caption,
            columns=tuple(dict.fromkeys(curve.column for curve in curves.curves)),
            rows=tuple(rows.values()),
            claims=tuple(claim.model_copy(update={"columns": (rows[claim.rows[0]].column,)}) for claim in claims),
            axis=f"{axis.label} ({axis.unit})",
            unit=axis.unit,
            y=curves.y,
            start=curves.baseline,
            largest={curve.name: curve.largest for curve in curves.curves if curve.largest is not None},
        )

    def check_table(self, table: Table) -> None:
        """Check the columns of a table, and make the systems and decodings of its rows."""
        place = self.place(table)
        columns = [self.one_of(name, self.columns, f"{place}.columns", "column") for name in table.columns]
        rates = {column.name: column for column in columns if column.test_set}
        for name in table.reduction or ():
            self.one_of(name, rates, f"{place}.reduction", "column")
        for number, row in enumerate(table.rows):
            where = f"{place}.rows[{number}] ({row.name})"
            made = self.systems.get(row.chosen_system.name, {})
            system = self.made(row.chosen_system, self.file.systems, made, f"{where}.system")
            if system.kind == MEASURE and rates:
                text = f"{system.name!r} is only measured (kind: measure), so it has no {', '.join(rates)}"
                raise self.error(f"{where}.system", text)
            self.made(row.chosen_decoding, self.entries, self.decodings, f"{where}.decoding")
        tested = {name: column for name, column in rates.items() if column.test_set != AVERAGE}
        for number, claim in enumerate(table.claims):
            for name in claim.columns or ():
                self.one_of(name, tested, f"{place}.claims[{number}].columns", "column")

    def place(self, table: Table) -> str:
        return f"figures.{table.id.removeprefix(FIGURE)}" if isinstance(table, Figure) else f"tables.{table.id}"

    def made[Entry: (System, Decoding)](
        self, choice: Choice, entries: Mapping[str, Entry], made: dict[str, Entry], place: str
    ) -> Entry:
        """Return the system or decoding that a row names; of a sweep, the one that its values make, once."""
        what = "system" if entries is self.file.systems else "decoding"
        entry = self.one_of(choice.name, entries, place, what)
        if choice.values and choice.id in entries:
            text = f"{choice.id!r} is also the name of a {what} without this sweep; rename one of them"
            raise self.error(place, text)
        if choice.id not in made:
            try:
                made[choice.id] = entry.at(choice)
            except ValueError as error:
                raise self.error(place, str(error)) from error
        return made[choice.id]

    def check_references(self, table: Table, tables: Mapping[str, Table], rows: Collection[str]) -> None:
        place = self.place(table)
        references = [(f"{place}.baseline", table.baseline)] if table.baseline else []
        for number, claim in enumerate(table.claims):
            references += [(f"{place}.claims[{number}]", row) for row in claim.rows]
        for where, reference in references:
            if reference not in rows:
                name, _, row = reference.partition("/")
                there = self.one_of(name, tables, where, "table").rows
                raise self.error(where, f"unknown row of table {name} {row!r}; {known([each.name for each in there])}")
