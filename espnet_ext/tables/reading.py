"""Read ``conf/tables.yaml`` at a scale: systems of sweeps and figures are made, and all references checked."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from espnet_ext.errors import InputError
from espnet_ext.tables.schema import (
    AVERAGE,
    DEFAULT_DECODING,
    DEFAULT_SEEDS,
    FIGURE,
    MEASURE,
    OVER,
    Choice,
    Claim,
    Column,
    Curves,
    Figure,
    Row,
    System,
    Table,
    TablesFile,
)
from espnet_ext.work.settings import fault, known
from espnet_ext.work.yaml_files import read_yaml


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
        self.decodings: dict[str, Mapping[str, Any]] = {DEFAULT_DECODING: {}}
        self.decodings |= {name: each.overrides for name, each in file.decodings.items() if not each.sweep}

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
        return Tables(self.path, self.file, systems, self.decodings, tables, self.columns)

    def error(self, place: str, text: str) -> InputError:
        return InputError(f"{self.path}: {place}: {text}")

    def one_of[Named](self, name: str, names: Mapping[str, Named], place: str, what: str) -> Named:
        if name not in names:
            raise self.error(place, f"unknown {what} {name!r}; {known(names)}")
        return names[name]

    def figure(self, curves: Curves, scale: str | None) -> Figure:
        """Make a figure at the values that the scale has on the axis (None: those of all scales)."""
        axis, place = self.file.axis, f"figures.{curves.id}"
        assert axis is not None  # checked by the model
        everywhere = sorted({value for values in axis.values.values() for value in values})
        values = everywhere if scale is None else self.one_of(scale, axis.values, "axis.values", "scale")
        for number, curve in enumerate(curves.curves):
            if unknown := [value for value in curve.paper if value not in everywhere]:
                text = f"{unknown[0]:g} is on the axis of no scale"
                raise self.error(f"{place}.curves[{number}] ({curve.name}).paper", text)
        names = {f"{FIGURE}{curves.id}/{row.name}": None for row in curves.at(axis, everywhere).rows}
        for number, claim in enumerate(curves.claims):
            for row in claim.rows:
                if row not in names:
                    text = f"there is no {row!r}; rows are called like {next(iter(names))!r}"
                    raise self.error(f"{place}.claims[{number}]", text)
        return curves.at(axis, values)

    def check_table(self, table: Table) -> None:
        """Check the columns of a table, and make the systems and decodings of its rows."""
        place = self.place(table)
        columns = [self.one_of(name, self.columns, f"{place}.columns", "column") for name in table.columns]
        rates = {column.name: column for column in columns if column.test_set}
        for name in table.reduction or ():
            self.one_of(name, rates, f"{place}.reduction", "column")
        for number, row in enumerate(table.rows):
            where = f"{place}.rows[{number}] ({row.name})"
            system = self.system(row.chosen_system, f"{where}.system")
            if system.kind == MEASURE and rates:
                text = f"{system.name!r} is only measured (kind: measure), so it has no {', '.join(rates)}"
                raise self.error(f"{where}.system", text)
            self.check_decoding(row.chosen_decoding, f"{where}.decoding")
        tested = {name: column for name, column in rates.items() if column.test_set != AVERAGE}
        for number, claim in enumerate(table.claims):
            for name in claim.columns or ():
                self.one_of(name, tested, f"{place}.claims[{number}].columns", "column")

    def place(self, table: Table) -> str:
        return f"figures.{table.id.removeprefix(FIGURE)}" if isinstance(table, Figure) else f"tables.{table.id}"

    def system(self, choice: Choice, place: str) -> System:
        """Return the system that a row names; of a sweep, the one that its values make."""
        entry = self.one_of(choice.name, self.file.systems, place, "system")
        made = self.systems[choice.name]
        if choice.id not in made:
            try:
                made[choice.id] = entry.at(choice)
            except ValueError as error:
                raise self.error(place, str(error)) from error
            if choice.id in self.file.systems:
                text = f"{choice.id!r} is also the name of a system without this sweep; rename one of them"
                raise self.error(place, text)
        return made[choice.id]

    def check_decoding(self, choice: Choice, place: str) -> None:
        """Make the decoding that a row names, if it is of a sweep."""
        entries = self.file.decodings
        if choice.name == DEFAULT_DECODING and not choice.values:
            return
        if choice.name not in entries:
            raise self.error(place, f"unknown decoding {choice.name!r}; {known([DEFAULT_DECODING, *entries])}")
        entry = entries[choice.name]
        if not entry.sweep and not choice.values:
            return
        try:
            made = entry.at(choice)
        except ValueError as error:
            raise self.error(place, str(error)) from error
        if choice.id in (DEFAULT_DECODING, *entries):
            text = f"{choice.id!r} is also the name of a decoding without this sweep; rename one of them"
            raise self.error(place, text)
        self.decodings[choice.id] = made

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
