"""Tables of a recipe on test sets of the user's own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from espnet_ext.errors import InputError
from espnet_ext.tables.reading import Column, Figure, Row, Table, Tables
from espnet_ext.tables.schema import AVERAGE


def replace_test_sets(tables: Tables, names: Sequence[str]) -> Tables:
    """Return tables whose columns of error rates are of these test sets.

    If there are several, their average has a column. The paper's numbers and the
    recipe's claims are of other test sets, and go. A table that is made for test sets
    of just these names stays as it is, with the claims about it. Raises InputError: a
    test set is called as a column that is not an error rate.
    """
    kept = {}
    for table in tables.tables.values():
        if _list_sets(table) == set(names):
            kept[table.id] = table
    claims = {}
    for name, claim in tables.claims.items():
        if claim.table in kept:
            claims[name] = claim
    designs = []
    for design in tables.designs:
        if claims.keys() >= set(design.claims):
            designs.append(design)
    columns = {}
    for name, column in tables.columns.items():
        if not column.sets:
            columns[name] = column
    for name in names:
        if name in columns:
            raise InputError(
                f"test set {name}: the recipe's tables have a column of this name: "
                "rename it"
            )
    measures = _list_measures(tables.columns.values())
    sets: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
    sets[AVERAGE] = tuple(names)
    for measure in measures:
        for name, own in sets.items():
            full = _name_column(name, measure)
            columns[full] = Column(full, own, measure)
    made = {}
    for table in tables.tables.values():
        made[table.id] = kept.get(table.id) or _replace_columns(table, columns, names)
    return replace(
        tables,
        file=tables.file.model_copy(update={"test_sets": tuple(names)}),
        tables=made,
        columns=columns,
        claims=claims,
        designs=tuple(designs),
    )


def _list_sets(table: Table) -> set[str]:
    """List the test sets of a table's columns, those of an average too."""
    sets: set[str] = set()
    for column in table.columns:
        sets.update(column.sets)
    return sets


def _list_measures(columns: Iterable[Column]) -> list[str | None]:
    """List the measures of error rates, each once, in the order of the columns."""
    measures: list[str | None] = []
    for column in columns:
        if column.sets and column.measure not in measures:
            measures.append(column.measure)
    return measures


def _name_column(test_set: str, measure: str | None) -> str:
    if measure is None:
        return test_set
    return f"{test_set} {measure}"


def _replace_columns(
    table: Table, columns: Mapping[str, Column], names: Sequence[str]
) -> Table:
    if table.figure:
        return _replace_curves(table, table.figure, columns, names)
    shown = list(names)
    if len(names) > 1:
        shown.append(AVERAGE)
    own = []
    for name in shown:
        for measure in _list_measures(table.columns):
            full = _name_column(name, measure)
            own.append(columns[full])
    for column in table.columns:
        if not column.sets:
            own.append(column)
    # reductions are of the average, or of the only test set
    reductions = []
    for measure in _list_measures(table.reductions):
        full = _name_column(shown[-1], measure)
        reductions.append(columns[full])
    rows = [_remove_numbers(row, own) for row in table.rows]
    return replace(
        table,
        columns=tuple(own),
        rows=tuple(rows),
        reductions=tuple(reductions),
    )


def _replace_curves(
    table: Table, figure: Figure, columns: Mapping[str, Column], names: Sequence[str]
) -> Table:
    """Return a figure with a curve on each test set.

    Curves of the paper that differ in their test sets alone are one.
    """
    curves = _list_different_curves(table.rows)
    made = []
    for name in names:
        for rows in curves:
            curve = name
            if len(curves) > 1:
                curve = f"{rows[0].curve} on {name}"
            for row in rows:
                shown = f"{curve} at {row.x:g} {figure.unit}"
                new = replace(row, name=shown, curve=curve)
                made.append(_remove_numbers(new, [columns[name]]))
    return replace(
        table,
        rows=tuple(made),
        columns=tuple(columns[name] for name in names),
        figure=replace(figure, largest={}),
    )


def _list_different_curves(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each curve, without curves that differ in test sets alone.

    Curves that differ so have the same systems and decodings at the same x; the first
    one stays.
    """
    curves: dict[str, list[Row]] = {}
    for row in rows:
        curves.setdefault(row.curve, []).append(row)
    different: dict[tuple, list[Row]] = {}
    for own in curves.values():
        points = []
        for row in own:
            points.append((row.x, row.system, row.decoding))
        different.setdefault(tuple(points), own)
    return list(different.values())


def _remove_numbers(row: Row, columns: Sequence[Column]) -> Row:
    """Return a row with these columns, in which the paper has no numbers."""
    names = [column.name for column in columns]
    return replace(row, paper=dict.fromkeys(names), spread=None)
