"""Tables of a recipe on test sets of the user's own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from espnet_ext.tables.reading import Column, Figure, Row, Table, Tables
from espnet_ext.tables.schema import AVERAGE


def replace_test_sets(tables: Tables, names: Sequence[str]) -> Tables:
    """Return tables whose columns of error rates are of these test sets.

    If there are several, their average has a column. The paper's numbers and the
    recipe's claims are of other test sets, and go.
    """
    quantities = [column for column in tables.columns.values() if not column.sets]
    columns = {column.name: column for column in quantities}
    measures = _list_measures(tables.columns.values())
    sets: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
    sets[AVERAGE] = tuple(names)
    for measure in measures:
        for name, own in sets.items():
            full = _name_column(name, measure)
            columns[full] = Column(full, own, measure)
    made = {}
    for table in tables.tables.values():
        made[table.id] = _replace_columns(table, columns, names)
    return replace(
        tables,
        file=tables.file.model_copy(update={"test_sets": tuple(names)}),
        tables=made,
        columns=columns,
        claims={},
        designs=(),
    )


def _list_measures(columns: Iterable[Column]) -> list[str | None]:
    """List the measures of error rates, each once, in the order of the columns."""
    return list(dict.fromkeys(column.measure for column in columns if column.sets))


def _name_column(test_set: str, measure: str | None) -> str:
    return f"{test_set} {measure}" if measure else test_set


def _replace_columns(
    table: Table, columns: Mapping[str, Column], names: Sequence[str]
) -> Table:
    if table.figure:
        return _replace_curves(table, table.figure, columns, names)
    shown = [*names, AVERAGE] if len(names) > 1 else list(names)
    own = []
    for name in shown:
        for measure in _list_measures(table.columns):
            own.append(columns[_name_column(name, measure)])
    own += [column for column in table.columns if not column.sets]
    # reductions are of the average, or of the only test set
    reductions = []
    for measure in _list_measures(table.reductions):
        reductions.append(columns[_name_column(shown[-1], measure)])
    return replace(
        table,
        columns=tuple(own),
        rows=tuple(_remove_numbers(row, own) for row in table.rows),
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
            curve = name if len(curves) == 1 else f"{rows[0].curve} on {name}"
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

    These have the same systems and decodings at the same x; the first one stays.
    """
    curves: dict[str, list[Row]] = {}
    for row in rows:
        curves.setdefault(row.curve, []).append(row)
    different: dict[tuple, list[Row]] = {}
    for own in curves.values():
        points = tuple((row.x, row.system, row.decoding) for row in own)
        different.setdefault(points, own)
    return list(different.values())


def _remove_numbers(row: Row, columns: Sequence[Column]) -> Row:
    """Return a row with these columns, in which the paper has no numbers."""
    paper = dict.fromkeys(column.name for column in columns)
    return replace(row, paper=paper, spread=None)
