"""A table's results: the paper's numbers and those found on disk, as JSON and as Markdown drawn from it."""

import json
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.results.claims import judge_claim
from espnet_ext.results.schema import AVERAGE
from espnet_ext.results.tables import Column, Row, RowRef, Table, Tables
from espnet_ext.results.curves import curves_of
from espnet_ext.results.render import markdown_table
from espnet_ext.results.scores import Score, average_here, cell_here, read_quantity, read_scores
from espnet_ext.work.files import atomic_write, write_json


def collect(
    tables: Tables, table: Table, expdir: str | Path, scale: str, corpus: str, meta: Mapping[str, Any]
) -> dict[str, Any]:
    """Put the paper's numbers and those under ``expdir`` side by side.

    Every row and column for which there is no score has ``here: null``. ``reference`` is the row (of this table or of
    another) to which reductions of the error rate refer, or null.

    Raises:
        InputError: a score file that is none, or scores that cannot be compared: made with different text normalisation
            or units, or against references of different lengths.
    """
    scores = {row.name: _row_scores(tables, table, row, expdir) for row in table.rows}
    base_row = tables.row(table.baseline) if table.baseline else None
    base_scores = _row_scores(tables, table, base_row, expdir) if base_row else {}
    normaliser = _check_comparable([item for found in (*scores.values(), base_scores) for item in found.items()])
    reference = None
    if base_row:
        name = _name(table, table.baseline)
        reference = {
            "name": name,
            "system": base_row.system,
            "cells": _cells(tables, table, base_row, base_scores, expdir),
        }
    result = {
        "recipe": tables.recipe,
        "table": table.id,
        "scale": scale,
        "caption": table.caption,
        "metric": _metric(tables, table),
        "paper": f"{tables.paper.authors}. {tables.paper.title}, {tables.paper.year}. ({tables.paper.id})",
        "columns": [column.name for column in table.columns],
        "groups": _groups(table),
        "meta": {**meta, "normaliser": normaliser, "corpus": corpus, "scale": scale},
        "reference": reference,
        "reductions": list(table.reductions),
        "rows": [
            {
                "name": row.name,
                "system": row.system,
                "decoding": row.decoding,
                "seeds": sorted({seed for found in scores[row.name].values() for seed in found}),
                "cells": _cells(tables, table, row, scores[row.name], expdir),
            }
            for row in table.rows
        ],
        "claims": [judge_claim(claim, tables, expdir) for claim in table.claims],
    }
    return result if table.figure is None else {**result, "figure": curves_of(table, result["rows"])}


def write_results(result: Mapping[str, Any], folder: str | Path) -> tuple[Path, Path]:
    """Write ``table<T>.json`` and the ``table<T>.md`` drawn from it into ``folder``; return both paths.

    Those of a figure are called ``figure<F>``.
    """
    stem = Path(folder) / (result["table"] if "figure" in result else f"table{result['table']}")
    paths = stem.with_name(stem.name + ".json"), stem.with_name(stem.name + ".md")
    write_json(paths[0], result)
    with atomic_write(paths[1]) as file:
        file.write(markdown_table(result))
    return paths


def read_results(path: str | Path) -> dict[str, Any]:
    """Read a ``table<T>.json``.

    Raises:
        InputError: not such a file.
    """
    try:
        result = json.loads(Path(path).read_text(encoding="utf-8"))
        if not {"recipe", "table", "scale", "caption", "metric", "columns", "meta", "rows"} <= result.keys():
            raise ValueError("keys are missing")
    except (ValueError, AttributeError) as error:
        raise InputError(f"{path}: not a table's results ({error}); write the table again") from error
    return result


Scores = Mapping[tuple[str, str | None], dict[int, Score]]  # by test set and measure, then by seed


def _row_scores(tables: Tables, table: Table, row: Row, expdir: str | Path) -> Scores:
    return {
        (name, column.measure): read_scores(expdir, row.system, row.decoding, name, column.measure)
        for column in table.columns_of(row)
        for name in _test_sets(tables, column)
    }


def _cells(tables: Tables, table: Table, row: Row, scores: Scores, expdir: str | Path) -> dict[str, Any]:
    cells = {}
    for column in table.columns_of(row):
        if column.test_set is None:
            here = read_quantity(Path(expdir) / row.system / f"{column.name}.json", column.unit)
        else:
            found = [scores[name, column.measure] for name in _test_sets(tables, column)]
            here = average_here(found) if column.test_set == AVERAGE else cell_here(*found)
        cells[column.name] = {"paper": row.paper.get(column.name), "here": here}
    return cells


def _groups(table: Table) -> list[list[str]]:
    """Columns that are drawn side by side: the measures of a test set, or where there are none, all test sets."""
    groups = groupby(table.columns, lambda column: column.test_set if column.measure else None)
    return [[column.name for column in columns] for _, columns in groups]


def _test_sets(tables: Tables, column: Column) -> tuple[str, ...]:
    if column.test_set is None:
        return ()
    return tables.test_sets if column.test_set == AVERAGE else (column.test_set,)


def _check_comparable(scores: list[tuple[tuple[str, str | None], dict[int, Score]]]) -> str | None:
    """Refuse scores of one table that do not belong together; return their text normalisation."""
    first: dict[tuple[str, str | None], Score] = {}
    any_score: Score | None = None
    for column, by_seed in scores:
        for score in by_seed.values():
            any_score = any_score or score
            same = first.setdefault(column, score)
            if (score.unit, score.normaliser) != (any_score.unit, any_score.normaliser):
                what = "unit or text normalisation"
            elif score.words != same.words:
                what = "reference"
            else:
                continue
            raise InputError(f"{score.path}: another {what} than in {same.path}; score both again in the same way")
    return any_score.normaliser if any_score else None


def _metric(tables: Tables, table: Table) -> str:
    """What the columns hold: error rates, or nothing but quantities, in their units."""
    if any(column.test_set for column in table.columns):
        return tables.paper.metric
    return ", ".join(f"{column.name} ({column.unit})" for column in table.columns)


def _name(table: Table, ref: RowRef) -> str:
    return ref.row if ref.table == table.id else f"{ref.row} of table {ref.table}"
