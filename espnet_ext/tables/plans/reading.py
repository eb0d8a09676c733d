"""From the checked entries of ``conf/tables.yaml`` to tables: names are resolved, and systems of sweeps are made."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.tables.plans.schema import (
    AVERAGE,
    DEFAULT_DECODING,
    MEASURE,
    ChangeEntry,
    Choice,
    ClaimEntry,
    CurveEntry,
    FigureEntry,
    RowEntry,
    SystemEntry,
    TableEntry,
    TablesFile,
    read_tables_file,
)
from espnet_ext.tables.plans.sweeps import at_values, overrides_at, system_at
from espnet_ext.tables.plans.tables import (
    DEFAULT_SEEDS,
    PREFIX,
    Alike,
    Change,
    Claim,
    Column,
    Figure,
    Row,
    RowRef,
    System,
    Table,
    Tables,
    row_name,
    rows_of,
)
from espnet_ext.work.settings import known


def load_tables(path: str | Path, scale: str | None = None) -> Tables:
    """Read and check a ``tables.yaml``.

    Args:
        path: The file.
        scale: Whose values figures have on their axis (None: those of all scales).

    Raises:
        InputError: anything missing, unknown, misspelt or doubled; the message names the place in the file.
    """
    return _Reader(Path(path), read_tables_file(path), scale).tables()


class _Reader:
    """Resolves the names in a file, and makes the systems that its rows ask of sweeps."""

    def __init__(self, path: Path, file: TablesFile, scale: str | None) -> None:
        self.path, self.file = path, file
        measures, quantities = file.measures or (), file.quantities
        names = (*file.test_sets, AVERAGE)
        columns = [Column(name, None, unit=unit) for name, unit in quantities.items()]
        columns += [Column(name, name) for name in names]
        columns += [Column(f"{name} {measure}", name, measure) for name in names for measure in measures]
        self.columns = {column.name: column for column in columns}  # `dev`, `dev CH`, and quantities
        self.systems: dict[str, dict[str, System]] = {name: {} for name in file.systems}
        self.decodings: dict[str, Mapping[str, Any]] = {DEFAULT_DECODING: {}}
        for name, entry in file.systems.items():
            if not entry.sweep:
                self.systems[name][name] = _as_system(name, entry)
        for name, decoding in file.decodings.items():
            if not decoding.sweep:
                self.decodings[name] = decoding.overrides
        self.everywhere: tuple[float, ...] = ()
        self.values: tuple[float, ...] = ()
        if file.axis:
            by_scale = file.axis.values
            if scale is not None and scale not in by_scale:
                raise InputError(f"{path}: axis.values: none for the scale {scale!r}; {known(by_scale)}")
            self.everywhere = tuple(sorted({value for values in by_scale.values() for value in values}))
            self.values = self.everywhere if scale is None else by_scale[scale]

    def tables(self) -> Tables:
        # Figures first: the order of systems is that of the file, and within a sweep that of their first use.
        figures = {f"{PREFIX}{name}": self.figure(name, entry) for name, entry in self.file.figures.items()}
        tables = {name: self.table(name, entry) for name, entry in self.file.tables.items()} | figures
        for table in tables.values():
            self.check_references(table, tables)
        systems = {name: system for made in self.systems.values() for name, system in made.items()}
        file = self.file
        for scale, design in file.seeds.items():
            for name in design:
                self.one_of(name, {**systems, DEFAULT_SEEDS: None}, f"seeds.{scale}", "system")
        return Tables(
            self.path, file.recipe, file.paper, file.test_sets, file.measures or (), file.quantities, systems,
            self.decodings, tables, file.pictures, {str(scale): design for scale, design in file.seeds.items()},
            self.alike(tables),
        )  # fmt: skip

    def error(self, place: str, text: str) -> InputError:
        return InputError(f"{self.path}: {place}: {text}")

    def one_of[Named](self, name: str, names: Mapping[str, Named], place: str, what: str) -> Named:
        if name not in names:
            raise self.error(place, f"unknown {what} {name!r}; {known(names)}")
        return names[name]

    def chosen(self, names: Sequence[str], columns: Mapping[str, Column], place: str) -> tuple[Column, ...]:
        return tuple(self.one_of(name, columns, place, "column") for name in names)

    def system(self, choice: Choice, place: str) -> System:
        """The system that a row names; of a sweep, the one that its values make."""
        entry = self.one_of(choice.name, self.file.systems, place, "system")
        if not entry.sweep and not choice.values:
            return self.systems[choice.name][choice.name]
        try:
            name, settings = at_values("system", choice, entry.sweep)
            made = _as_system(name, system_at(entry, settings))
        except ValueError as error:
            raise self.error(place, str(error)) from error
        if name in self.file.systems:
            raise self.error(place, f"{name!r} is also the name of a system without this sweep; rename one of them")
        return self.systems[choice.name].setdefault(name, made)

    def decoding(self, choice: Choice, place: str) -> str:
        """The name of the decoding that a row names; of a sweep, the one that its values make."""
        if choice == Choice(DEFAULT_DECODING):
            return DEFAULT_DECODING
        entries = self.file.decodings
        if choice.name not in entries:
            raise self.error(place, f"unknown decoding {choice.name!r}; {known([DEFAULT_DECODING, *entries])}")
        entry = entries[choice.name]
        if not entry.sweep and not choice.values:
            return choice.name
        try:
            name, settings = at_values("decoding", choice, entry.sweep)
        except ValueError as error:
            raise self.error(place, str(error)) from error
        if name in (DEFAULT_DECODING, *entries):
            raise self.error(place, f"{name!r} is also the name of a decoding without this sweep; rename one of them")
        self.decodings.setdefault(name, overrides_at(entry.overrides, settings))
        return name

    def table(self, name: str, entry: TableEntry) -> Table:
        place = f"tables.{name}"
        columns = self.chosen(entry.columns, self.columns, f"{place}.columns")
        rows: list[Row] = []
        for number, item in enumerate(entry.rows):
            if item.name in {row.name for row in rows}:
                raise self.error(f"{place}.rows[{number}]", f"the row {item.name!r} stands twice in this table")
            rows.append(self.row(item, f"{place}.rows[{number}] ({item.name})", columns))
        rates = {column.name: column for column in columns if column.test_set}
        reductions = entry.reduction or tuple(rates)[-1:]
        self.chosen(reductions, rates, f"{place}.reduction")
        baseline = self.reference(entry.baseline, name, f"{place}.baseline") if entry.baseline else None
        claims = tuple(
            self.claim(claim, f"{place}.claims[{number}]", name, columns) for number, claim in enumerate(entry.claims)
        )
        return Table(name, entry.caption, columns, baseline, reductions, tuple(rows), claims)

    def row(self, entry: RowEntry, place: str, columns: tuple[Column, ...]) -> Row:
        system = self.system(entry.system, f"{place}.system")
        if system.kind == MEASURE and (sets := [column.name for column in columns if column.test_set]):
            text = f"{system.name!r} is only measured (kind: measure), so it has no {', '.join(sets)}"
            raise self.error(f"{place}.system", text)
        if len(entry.paper) != len(columns):
            names = ", ".join(column.name for column in columns)
            raise self.error(
                f"{place}.paper", f"must hold a number for each column ({names}), holds {len(entry.paper)}"
            )
        paper = {column.name: value for column, value in zip(columns, entry.paper, strict=True)}
        return Row(entry.name, system.name, self.decoding(entry.decoding, f"{place}.decoding"), paper)

    def claim(self, entry: ClaimEntry, place: str, table: str, columns: tuple[Column, ...]) -> Claim:
        tested = {column.name: column for column in columns if column.test_set not in (AVERAGE, None)}
        if entry.columns:
            tested = {column.name: column for column in self.chosen(entry.columns, tested, f"{place}.columns")}
        better = self.side(entry.better, table, f"{place}.better")
        worse = self.side(entry.worse, table, f"{place}.worse")
        if type(better) is not type(worse):
            raise self.error(place, "better and worse must both be rows, or both changes {from: row, to: row}")
        if better == worse:
            raise self.error(place, f"better and worse are the same row or change, {entry.better!r}")
        return Claim(entry.text, better, worse, tuple(tested.values()), entry.margin, entry.own, entry.extended)

    def side(self, value: str | ChangeEntry, table: str, place: str) -> RowRef | Change:
        if isinstance(value, str):
            return self.reference(value, table, place)
        before, after = (self.reference(ref, table, place) for ref in (value.before, value.after))
        if before == after:
            raise self.error(place, f"from and to are the same row, {value.after!r}")
        return Change(before, after)

    def reference(self, value: str, table: str, place: str) -> RowRef:
        parts = value.split("/")
        if len(parts) > 2:
            raise self.error(place, f"{value!r} must be a row, or table/row")
        return RowRef(parts[0], parts[1]) if len(parts) == 2 else RowRef(table, parts[0])

    def figure(self, name: str, entry: FigureEntry) -> Table:
        """A figure as a table; claims about values that the scale lacks are left out."""
        place, axis = f"figures.{name}", self.file.axis
        assert axis is not None  # checked by the schema
        rows = []
        for number, curve in enumerate(entry.curves):
            where = f"{place}.curves[{number}] ({curve.name})"
            self.chosen([curve.column], self.columns, f"{where}.column")
            if unknown := [value for value in curve.paper if value not in self.everywhere]:
                raise self.error(f"{where}.paper", f"{unknown[0]:g} is on the axis of no scale")
            rows += [self.point(curve, value, axis.unit, where) for value in self.values]
        columns = self.chosen(list(dict.fromkeys(curve.column for curve in entry.curves)), self.columns, place)
        largest = {curve.name: curve.largest for curve in entry.curves if curve.largest is not None}
        figure = Figure(f"{axis.label} ({axis.unit})", entry.y, entry.baseline, largest)
        reductions = tuple(column.name for column in columns if column.test_set)[-1:]
        claims = self.figure_claims(f"{PREFIX}{name}", entry, f"{place}.claims")
        return Table(f"{PREFIX}{name}", entry.caption, columns, None, reductions, tuple(rows), claims, figure)

    def point(self, curve: CurveEntry, value: float, unit: str, place: str) -> Row:
        chosen = Choice(curve.system.name, (*curve.system.values, _whole(value)))
        return Row(
            row_name(curve.name, value, unit),
            self.system(chosen, f"{place}.system").name,
            self.decoding(curve.decoding, f"{place}.decoding"),
            {curve.column: curve.paper.get(value)},
            curve.name,
            _whole(value),
        )

    def figure_claims(self, table: str, entry: FigureEntry, place: str) -> tuple[Claim, ...]:
        """The claims on rows that this scale has, each tested on its curve's test set alone."""
        assert self.file.axis is not None
        places = {
            row_name(curve.name, value, self.file.axis.unit): (curve.column, value)
            for curve in entry.curves
            for value in self.everywhere
        }
        claims = []
        for number, claim in enumerate(entry.claims):
            sides = [claim.better, claim.worse]
            for row in sides:
                if not isinstance(row, str) or row not in places:
                    text = f"there is no {row!r}; rows are called like {next(iter(places))!r}"
                    raise self.error(f"{place}[{number}]", text)
            if all(places[str(row)][1] in self.values for row in sides):
                column = self.columns[places[str(claim.better)][0]]
                claims.append(self.claim(claim, f"{place}[{number}]", table, (column,)))
        return tuple(claims)

    def alike(self, tables: Mapping[str, Table]) -> Alike | None:
        """The rows that are alike; each must be there."""
        entry = self.file.alike
        if entry is None:
            return None
        refs = tuple(self.reference(name, "", "alike.rows") for name in entry.rows)
        self.check_rows([("alike.rows", ref) for ref in refs], tables)
        return Alike(entry.text, refs)

    def check_references(self, table: Table, tables: Mapping[str, Table]) -> None:
        place = f"figures.{table.id.removeprefix(PREFIX)}" if table.figure else f"tables.{table.id}"
        references = [(f"{place}.baseline", table.baseline)] if table.baseline else []
        for number, claim in enumerate(table.claims):
            for key, side in (("better", claim.better), ("worse", claim.worse)):
                references += [(f"{place}.claims[{number}].{key}", ref) for ref in rows_of(side)]
        self.check_rows(references, tables)

    def check_rows(self, references: Sequence[tuple[str, RowRef]], tables: Mapping[str, Table]) -> None:
        for where, ref in references:
            rows = self.one_of(ref.table, tables, where, "table").rows
            self.one_of(ref.row, {row.name: row for row in rows}, where, f"row of table {ref.table}")


def _as_system(name: str, entry: SystemEntry) -> System:
    return System(
        name, entry.kind, entry.config, entry.overrides, entry.data or (), entry.method, entry.size, entry.windows
    )  # fmt: skip


def _whole(value: float) -> float:
    """A whole number as an int, as it is in the file, so that configs and results hold 10 and not 10.0."""
    return int(value) if value == int(value) else value
