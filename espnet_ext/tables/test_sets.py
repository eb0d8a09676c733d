"""Tables of a recipe on test sets of the user's own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from espnet_ext.tables.reading import Column, Figure, Row, Table, Tables
from espnet_ext.tables.schema import AVERAGE


def with_test_sets(tables: Tables, names: Sequence[str]) -> Tables:
    """Return tables whose columns of error rates are of these test sets, and of their
    average if there are several.

    The paper's numbers and the recipe's claims are of other test sets, and go.
    """
    columns = {
        name: column for name, column in tables.columns.items() if not column.sets
    }
    measures = dict.fromkeys(
        column.measure for column in tables.columns.values() if column.sets
    )
    for measure in measures:
        for name in (*names, AVERAGE):
            sets = tuple(names) if name == AVERAGE else (name,)
            full = f"{name} {measure}" if measure else name
            columns[full] = Column(full, sets, measure)
    made = {each.id: _on_sets(each, columns, names) for each in tables.tables.values()}
    return replace(
        tables,
        file=tables.file.model_copy(update={"test_sets": tuple(names)}),
        tables=made,
        columns=columns,
        claims={},
        designs=(),
    )


def _on_sets(
    table: Table, columns: Mapping[str, Column], names: Sequence[str]
) -> Table:
    if table.figure:
        return _curves_on_sets(table, table.figure, columns, names)
    rates = [column for column in table.columns if column.sets]
    measures = dict.fromkeys(column.measure for column in rates)
    shown = [*names, AVERAGE] if len(names) > 1 else list(names)

    def column(name: str, measure: str | None) -> Column:
        return columns[f"{name} {measure}" if measure else name]

    made = [column(name, measure) for name in shown for measure in measures]
    quantities = [each for each in table.columns if not each.sets]
    reductions = dict.fromkeys(each.measure for each in table.reductions)
    return replace(
        table,
        columns=(*made, *quantities),
        rows=tuple(_without_numbers(row, (*made, *quantities)) for row in table.rows),
        reductions=tuple(column(shown[-1], measure) for measure in reductions),
    )


def _curves_on_sets(
    table: Table, figure: Figure, columns: Mapping[str, Column], names: Sequence[str]
) -> Table:
    """Return a figure with a curve on each test set; curves that differ in their test
    sets alone are one.
    """
    curves: dict[str, list[Row]] = {}
    for row in table.rows:
        curves.setdefault(row.curve, []).append(row)
    different = {
        tuple((row.x, row.system, row.decoding) for row in rows): rows
        for rows in reversed(curves.values())
    }
    made = []
    for name in names:
        for rows in reversed(different.values()):
            curve = name if len(different) == 1 else f"{rows[0].curve} on {name}"
            for row in rows:
                shown = f"{curve} at {row.x:g} {figure.unit}"
                new = replace(row, name=shown, curve=curve)
                made.append(_without_numbers(new, [columns[name]]))
    return replace(
        table,
        rows=tuple(made),
        columns=tuple(columns[name] for name in names),
        figure=replace(figure, largest={}),
    )


def _without_numbers(row: Row, columns: Sequence[Column]) -> Row:
    return replace(
        row, paper=dict.fromkeys(column.name for column in columns), spread=None
    )
