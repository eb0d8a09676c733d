"""Read ``conf/tables.yaml`` at a scale, and check what it names.

Systems of sweeps are made, and figures become tables: Figure 1 is the table
``figure1``, with rows such as ``Rev16 at 10 s`` of systems such as ``base_10``.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from espnet_ext.errors import InputError
from espnet_ext.tables import schema
from espnet_ext.tables.design import DESIGN, Claim, Design, DesignFile, Making
from espnet_ext.work.settings import find_fault, list_known
from espnet_ext.work.yaml_files import read_yaml

SYNTHETIC = "synthetic"  # the corpus that recipes make


@dataclass(frozen=True)
class Column:
    """A column: an error rate, or a quantity such as the latency in ms.

    ``sets`` are the test set of a rate, or all of them for their average; none for a
    quantity. A rate has a ``measure``, None if there is only one. ``shown`` is its name
    on a corpus that is not the paper's.
    """

    name: str
    sets: tuple[str, ...] = ()
    measure: str | None = None
    unit: str | None = None
    shown: str = ""

    @property
    def average(self) -> bool:
        """Whether it is the mean of all test sets."""
        # ``average CH`` under a measure; ``sets`` do not tell it from a single set
        return self.name.split()[0] == schema.AVERAGE

    @property
    def heading(self) -> str:
        """The name of the set on its corpus, or of a quantity with its unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.shown or self.name


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row, with the paper's numbers by column, None where it has none.

    In a figure it is of a ``curve`` at ``x``. ``spread`` is the standard deviation of
    the paper's repeats, if they are known.
    """

    name: str
    system: str
    decoding: str
    paper: Mapping[str, float | None]
    curve: str = ""
    x: float = 0.0
    spread: float | None = None


@dataclass(frozen=True)
class Figure:
    """What makes a table a figure: the x axis, and what the y axis shows.

    ``start`` is the x from which reductions are computed, ``largest`` by curve the
    paper's largest one in percent.
    """

    axis: str
    unit: str
    y: Literal["reduction", "rate"]
    start: float
    largest: Mapping[str, float]


@dataclass(frozen=True)
class Table:
    """A table, or a figure as a table, with a row for each point of a curve.

    ``reductions`` are the columns that show reductions from ``baseline``, a row as
    "table/row".
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    baseline: str | None = None
    reductions: tuple[Column, ...] = ()
    figure: Figure | None = None

    @property
    def title(self) -> str:
        """``Table 1``, or ``Figure 1``."""
        if self.figure:
            return f"Figure {self.id.removeprefix(schema.FIGURE)}"
        return f"Table {self.id}"

    @property
    def rates(self) -> dict[str, Column]:
        """The columns with error rates, by name."""
        return {column.name: column for column in self.columns if column.sets}


@dataclass(frozen=True)
class Tables:
    """A ``tables.yaml`` at a scale: as it is written, and by name all that rows name.

    ``systems`` and ``decodings`` hold what sweeps make. A decoding is overrides of the
    section ``decode``, ``default`` has none; ``tables`` has figures, too; ``claims``
    are those whose rows are all there at the scale.
    """

    path: Path
    file: schema.TablesFile
    systems: Mapping[str, schema.System]
    decodings: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, Table]
    columns: Mapping[str, Column]
    claims: Mapping[str, Claim]
    designs: tuple[Design, ...]
    tried: Mapping[str, int]  # how many designs ask the question of a claim
    made: Mapping[str, Making]

    def select_designs(self, scale: str, corpus: str) -> list[Design]:
        """Return the designs for results of a corpus at a scale.

        Without one, results are numbers without verdicts.
        """
        wanted = (scale, corpus)
        return [each for each in self.designs if (each.scale, each.corpus) == wanted]

    def list_tested_columns(
        self, claim: Claim, columns: Sequence[str] | None = None
    ) -> list[Column]:
        """Return the columns on which a claim is tested.

        The columns are ``columns``, which a design names, or those that the claim
        names; by default all error rates.
        """
        names = columns or claim.columns or self.rows[claim.rows[0]].paper
        rates = [self.columns[name] for name in names]
        # an average has no units of its own: they would be tested twice
        return [column for column in rates if column.sets and not column.average]

    @property
    def recipe_dir(self) -> Path:
        """The recipe's folder: the one that holds ``conf/tables.yaml``."""
        return Path(os.path.abspath(self.path)).parent.parent

    @cached_property
    def rows(self) -> dict[str, Row]:
        """All rows by "table/row"."""
        found = {}
        for table in self.tables.values():
            for row in table.rows:
                found[f"{table.id}/{row.name}"] = row
        return found

    def choose_names(
        self, corpus: str, synthetic_sets: Sequence[str] | None = None
    ) -> Mapping[str, str] | None:
        """Return the names of test sets and curves on a corpus that is not the paper's.

        None: it may be the paper's. ``synthetic_sets`` are those test sets that are
        synthetic, where others are not.
        """
        matching = None
        for pattern, names in self.file.names.items():
            if fnmatchcase(corpus, pattern):
                matching = names
                break
        if synthetic_sets is None:
            return matching
        names = self.file.names.get(SYNTHETIC, {})
        sets_of_curve = {}
        for row in self.rows.values():
            for column in row.paper:
                sets_of_curve[row.curve] = self.columns[column].sets
        shown = {}
        for name in (*synthetic_sets, *sets_of_curve):
            # a curve is renamed only if no set of it is the paper's
            is_synthetic = set(sets_of_curve.get(name, ())) <= set(synthetic_sets)
            if name in names and is_synthetic:
                shown[name] = names[name]
        if shown or matching is not None:
            return shown
        return None

    def remove_paper(self, names: Mapping[str, str] | None = None) -> "Tables":
        """Return the tables without the paper's numbers.

        Such tables are for results on a corpus of which the paper has none. Test sets
        and curves may have ``names`` of their own there.
        """
        names = names or {}
        columns = {}
        for name, column in self.columns.items():
            columns[name] = replace(column, shown=_name_shown(column, names))

        tables = {}
        for name, table in self.tables.items():
            rows = [_remove_paper_of_row(row, names) for row in table.rows]
            own_columns = [columns[column.name] for column in table.columns]
            reductions = [columns[column.name] for column in table.reductions]
            figure = table.figure
            if figure is not None:
                figure = replace(figure, largest={})
            tables[name] = replace(
                table,
                rows=tuple(rows),
                columns=tuple(own_columns),
                reductions=tuple(reductions),
                figure=figure,
            )
        return replace(self, tables=tables, columns=columns)

    def list_seeds(self, system: str, scale: str) -> list[int]:
        """Return the seeds of a system where a run names none.

        Their number is that of the scale, or of the scale that it is ``over``; or 1.
        """
        counts = self.file.seeds.get(scale, {})
        count = counts.get(system, counts.get(schema.DEFAULT_SEEDS))
        if count:
            return list(range(1, count + 1))
        path = self.path.with_name(f"{scale}.yaml")
        below = read_yaml(path).get(schema.OVER) if path.is_file() else None
        return [1] if below is None else self.list_seeds(system, below)


def _remove_paper_of_row(row: Row, names: Mapping[str, str]) -> Row:
    return replace(
        row,
        name=name_row(row, names),
        paper=dict.fromkeys(row.paper),
        spread=None,
        curve=names.get(row.curve, row.curve),
    )


def name_row(row: Row, names: Mapping[str, str]) -> str:
    """Return the name of a row, of a figure with the name of its curve."""
    if not row.curve:
        return row.name
    # ``Rev16 at 10 s`` begins with its curve
    shown = names.get(row.curve, row.curve)
    return f"{shown}{row.name.removeprefix(row.curve)}"


def _name_shown(column: Column, names: Mapping[str, str]) -> str:
    """Return the name of a column's set, with its measure."""
    if len(column.sets) != 1:
        return ""
    [test_set] = column.sets
    shown = names.get(test_set, test_set)
    return f"{shown} {column.measure}" if column.measure else shown


def _make_columns(file: schema.TablesFile) -> dict[str, Column]:
    """Return all columns that tables may have, by name."""
    columns = [Column(name, unit=unit) for name, unit in file.quantities.items()]
    sets: dict[str, tuple[str, ...]] = {name: (name,) for name in file.test_sets}
    sets[schema.AVERAGE] = tuple(file.test_sets)
    for name, own in sets.items():
        columns.append(Column(name, own))
    # ``dev`` is the whole rate, ``dev CH`` one of its measures
    for name, own in sets.items():
        for measure in file.measures:
            columns.append(Column(f"{name} {measure}", own, measure))
    return {column.name: column for column in columns}


def load_tables(path: str | Path, scale: str | None = None) -> Tables:
    """Read and check a ``tables.yaml``, and a ``design.yaml`` beside it.

    Figures have the values of the scale on their axis (None: those of all scales).
    """
    path = Path(path)
    design = path.with_name(DESIGN)
    file = _read_model(path, schema.TablesFile)
    designed = _read_model(design, DesignFile) if design.is_file() else DesignFile()
    return _Reader(path, file).make_tables(scale, designed)


def _read_model[Model: BaseModel](path: Path, model: type[Model]) -> Model:
    content = read_yaml(path)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{path}: {find_fault(content, error)}") from error


class _Reader:
    """Makes tables in two passes over a ``tables.yaml``.

    The first makes all rows, and with them the systems and decodings that rows ask of
    sweeps. The second checks what names these: baselines, claims, numbers of seeds.
    """

    def __init__(self, path: Path, file: schema.TablesFile) -> None:
        self.path = path
        self.file = file
        self.columns = _make_columns(file)
        # Of each system in the file, what rows have made of it so far: itself, or those
        # of its sweep. Two levels, since systems are trained in the order of the file,
        # and those of a sweep in the order of their first use.
        self.systems: dict[str, dict[str, schema.System]] = {}
        for name, system in file.systems.items():
            self.systems[name] = {} if system.sweep else {name: system}
        # Nothing follows the order of decodings, so one level holds those of sweeps,
        # too.
        self.entries = {schema.DEFAULT_DECODING: schema.Decoding(), **file.decodings}
        self.decodings = {}
        for name, decoding in self.entries.items():
            if not decoding.sweep:
                self.decodings[name] = decoding

    def make_tables(self, scale: str | None, design: DesignFile) -> Tables:
        """Make all tables and figures, then check what names their rows and systems."""
        # figures first: systems that both show come in the order of the axis
        figures = {}
        for name, entry in self.file.figures.items():
            figures[f"{schema.FIGURE}{name}"] = self.make_figure(entry, scale)
        tables = {}
        for name, table_entry in self.file.tables.items():
            scales = table_entry.scales
            if scale is None or scales is None or scale in scales:
                tables[name] = self.make_table(table_entry)
        # rows have filled both, so this comes after them
        systems: dict[str, schema.System] = {}
        for own in self.systems.values():
            systems |= own
        decodings = {name: each.overrides for name, each in self.decodings.items()}
        made = Tables(
            path=self.path,
            file=self.file,
            systems=systems,
            decodings=decodings,
            tables={**tables, **figures},
            columns=self.columns,
            claims={},
            designs=design.designs,
            tried={name: design.count_designs(name) for name in design.claims},
            made=design.made,
        )
        # a baseline may be a row of a later table, and claims are about all of them
        for table in made.tables.values():
            if table.baseline:
                place = f"{self.path}: tables.{table.id}.baseline"
                self.check_row(table.baseline, made, place)
        claims = {}
        for name, claim in design.claims.items():
            if self.check_claim(name, claim, scale, made):
                claims[name] = claim
        self.check_seeds(systems)
        return replace(made, claims=claims)

    def check_seeds(self, systems: Mapping[str, schema.System]) -> None:
        """Check that the scales and systems with numbers of seeds are there."""
        for scale, counts in self.file.seeds.items():
            name = f"{scale}.yaml"
            if not self.path.with_name(name).is_file():
                raise self.error(
                    "seeds",
                    f"no scale {scale!r}: there is no {name} beside this file",
                )
            known_names = {**systems, schema.DEFAULT_SEEDS: None}
            for system in counts:
                self.look_up(system, known_names, f"seeds.{scale}", "system")

    def error(self, place: str, text: str) -> InputError:
        """Return the error of an entry, named as ``tables.1.rows[0]``."""
        return InputError(f"{self.path}: {place}: {text}")

    def look_up[Named](
        self, name: str, names: Mapping[str, Named], place: str, what: str
    ) -> Named:
        """Return what has a name; InputError with those that there are."""
        if name not in names:
            raise self.error(place, f"unknown {what} {name!r}; {list_known(names)}")
        return names[name]

    def look_up_columns(self, names: Sequence[str], place: str) -> tuple[Column, ...]:
        return tuple(
            self.look_up(name, self.columns, f"{place}.columns", "column")
            for name in names
        )

    def make_table(self, entry: schema.TableEntry) -> Table:
        """Make a table, and the systems and decodings of its rows."""
        place = f"tables.{entry.id}"
        columns = self.look_up_columns(entry.columns, place)
        table = Table(entry.id, entry.caption, columns, (), entry.baseline)
        rates = table.rates
        names = entry.reduction or ()
        # by default of the last one, such as the average
        if not names and entry.baseline:
            names = tuple(rates)[-1:]
        reductions = tuple(
            self.look_up(name, rates, f"{place}.reduction", "column") for name in names
        )
        rows = []
        for number, row in enumerate(entry.rows):
            paper: dict[str, float | None] = dict.fromkeys(entry.columns)
            if row.paper:
                paper = dict(zip(entry.columns, row.paper, strict=True))
            made = self.make_row(
                f"{place}.rows[{number}] ({row.name})",
                row.name,
                row.system,
                row.decoding,
                paper,
            )
            rows.append(made)
        return replace(table, rows=tuple(rows), reductions=reductions)

    def make_figure(self, entry: schema.FigureEntry, scale: str | None) -> Table:
        """Make a figure at the values that the scale has on the axis.

        None: at those of all scales, for pages that show results of each.
        """
        axis = self.file.axis
        assert axis is not None  # checked by the model
        place = f"figures.{entry.id}"
        table = f"{schema.FIGURE}{entry.id}"
        everywhere = sorted(set().union(*axis.values.values()))
        values: Sequence[float] = everywhere
        if scale is not None:
            values = self.look_up(scale, axis.values, "axis.values", "scale")
        names = list(dict.fromkeys(curve.column for curve in entry.curves))
        columns = self.look_up_columns(names, place)
        rows: dict[str, Row] = {}
        for number, curve in enumerate(entry.curves):
            where = f"{place}.curves[{number}]"
            # a slip of the keyboard, which would be shown nowhere
            for value in curve.paper:
                if value not in everywhere:
                    raise self.error(
                        f"{where} ({curve.name}).paper",
                        f"{value:g} is on the axis of no scale",
                    )
            for value in values:
                name = f"{curve.name} at {value:g} {axis.unit}"
                rows[f"{table}/{name}"] = self.make_point(where, name, curve, value)
        largest = {}
        for curve in entry.curves:
            if curve.largest is not None:
                largest[curve.name] = curve.largest
        figure = Figure(
            axis=f"{axis.label} ({axis.unit})",
            unit=axis.unit,
            y=entry.y,
            start=entry.baseline,
            largest=largest,
        )
        return Table(table, entry.caption, columns, tuple(rows.values()), figure=figure)

    def make_point(
        self, place: str, name: str, curve: schema.Curve, value: float
    ) -> Row:
        """Make the row of a curve at a value of the axis."""
        # as in the file, since names hold it: 10 and not 10.0
        x = int(value) if value == int(value) else value
        system = replace(curve.system, values=(*curve.system.values, x))
        paper = {curve.column: curve.paper.get(value)}
        row = self.make_row(f"{place} ({name})", name, system, curve.decoding, paper)
        return replace(row, curve=curve.name, x=x, spread=curve.spread.get(value))

    def make_row(
        self,
        place: str,
        name: str,
        system: schema.Choice,
        decoding: schema.Choice,
        paper: Mapping[str, float | None],
    ) -> Row:
        """Make a row, and the system and decoding that it names."""
        where = f"{place}.system"
        of_system = self.systems.get(system.name, {})
        made = self.make_entry(system, self.file.systems, of_system, where)
        rates = [column for column in paper if self.columns[column].sets]
        if made.kind == schema.MEASURE and rates:
            text = (
                f"{made.name!r} is only measured (kind: measure), so it has no "
                f"{', '.join(rates)}"
            )
            raise self.error(where, text)
        self.make_entry(decoding, self.entries, self.decodings, f"{place}.decoding")
        return Row(name=name, system=system.id, decoding=decoding.id, paper=paper)

    def make_entry[Entry: (schema.System, schema.Decoding)](
        self,
        choice: schema.Choice,
        entries: Mapping[str, Entry],
        made: dict[str, Entry],
        place: str,
    ) -> Entry:
        """Return the system or decoding that a row names.

        Of a sweep it is the one that its values make; ``made`` keeps it, since other
        rows may name it too.
        """
        what = "system" if entries is self.file.systems else "decoding"
        entry = self.look_up(choice.name, entries, place, what)
        # both would have the folder of this name
        if choice.values and choice.id in entries:
            raise self.error(
                place,
                f"{choice.id!r} is also a {what} without this sweep; rename one "
                "of them",
            )
        if choice.id not in made:
            try:
                made[choice.id] = entry.choose(choice)
            except ValueError as error:
                raise self.error(place, str(error)) from error
        return made[choice.id]

    def check_row(self, reference: str, tables: Tables, place: str) -> None:
        """Refuse a "table/row" that is not there."""
        if reference in tables.rows:
            return
        name, _, row = reference.partition("/")
        if name not in tables.tables:
            raise InputError(
                f"{place}: unknown table {name!r}; {list_known(tables.tables)}"
            )
        names = [each.name for each in tables.tables[name].rows]
        raise InputError(
            f"{place}: unknown row of table {name} {row!r}; {list_known(names)}"
        )

    def check_claim(
        self, name: str, claim: Claim, scale: str | None, tables: Tables
    ) -> bool:
        """Check what a claim names, and return whether it is tested at the scale."""
        if scale:
            here = [each for each in tables.designs if each.scale == scale]
            # its rows may not be there: a figure has other values at another scale
            if not any(name in design.claims for design in here):
                return False
        place = f"{self.path.with_name(DESIGN)}: claims.{name}"
        for row in claim.rows:
            self.check_row(row, tables, place)
        of_row = tables.rows[claim.rows[0]].paper
        tested = {name: tables.columns[name] for name in of_row}
        for column in claim.columns or ():
            found = tested.get(column)
            if found is None or not found.sets or found.average:
                raise InputError(
                    f"{place}: columns: no error rate of one test set {column!r}; "
                    f"{list_known(tested)}"
                )
        return True
