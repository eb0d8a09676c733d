"""A table's results: the paper's numbers and those of a run, collected, written as JSON and Markdown, and read."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.results.claims import judge_claim
from espnet_ext.results.figures import curves_of, draw
from espnet_ext.results.meta import collect_meta
from espnet_ext.results.plan import uses_lm
from espnet_ext.results.render import has_run, markdown_table, plain_table
from espnet_ext.results.schema import AVERAGE
from espnet_ext.results.scores import SeedScore, average_here, cell_here, read_quantity, read_scores
from espnet_ext.results.tables import Column, Row, RowRef, Table, Tables
from espnet_ext.work.files import atomic_write, write_json


def collect(
    tables: Tables, table: Table, expdir: str | Path, scale: str, corpus: str, meta: Mapping[str, Any]
) -> dict[str, Any]:
    """Collect the paper's numbers and the results under ``expdir``.

    A row and column without a score has ``here: null``. ``reference`` is the row (of this table or another) from which
    reductions of the error rate are computed, or null.

    Raises:
        InputError: a file that is no score, or scores that cannot be compared: they differ in text normalisation, unit
            or length of the reference.
    """
    scores = {row.name: _row_scores(tables, table, row, expdir) for row in table.rows}
    base_row = tables.row(table.baseline) if table.baseline else None
    base_scores = _row_scores(tables, table, base_row, expdir) if base_row else {}
    normaliser = _check_comparable([item for found in (*scores.values(), base_scores) for item in found.items()])
    reference = None
    if base_row and table.baseline:
        name = _name(table, table.baseline)
        reference = {
            "name": name,
            "system": base_row.system,
            "cells": _cells(tables, table, base_row, base_scores, expdir),
        }
    rows = [
        {
            "name": row.name,
            "system": row.system,
            "decoding": row.decoding,
            "seeds": sorted({seed for found in scores[row.name].values() for seed in found}),
            "cells": _cells(tables, table, row, scores[row.name], expdir),
        }
        for row in table.rows
    ]
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
        "rows": rows,
        "claims": [judge_claim(claim, tables, expdir) for claim in table.claims],
    }
    return result if table.figure is None else {**result, "figure": curves_of(table.figure, table.rows, rows)}


def write_results(result: Mapping[str, Any], folder: str | Path) -> tuple[Path, Path]:
    """Write ``table<T>.json`` and the same as ``table<T>.md`` into ``folder``; return both paths.

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


Scores = Mapping[tuple[str, str | None], dict[int, SeedScore]]  # by test set and measure, then by seed


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
    """Columns that stand side by side: the measures of a test set, or all test sets if there are no measures."""
    groups = groupby(table.columns, lambda column: column.test_set if column.measure else None)
    return [[column.name for column in columns] for _, columns in groups]


def _test_sets(tables: Tables, column: Column) -> tuple[str, ...]:
    if column.test_set is None:
        return ()
    return tables.test_sets if column.test_set == AVERAGE else (column.test_set,)


def _check_comparable(scores: list[tuple[tuple[str, str | None], dict[int, SeedScore]]]) -> str | None:
    """Refuse scores of one table that cannot be compared; return their text normalisation."""
    first: dict[tuple[str, str | None], SeedScore] = {}
    any_score: SeedScore | None = None
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
    """What the columns hold: error rates, or only quantities, with their units."""
    if any(column.test_set for column in table.columns):
        return tables.paper.metric
    return ", ".join(f"{column.name} ({column.unit})" for column in table.columns)


def _name(table: Table, ref: RowRef) -> str:
    return ref.row if ref.table == table.id else f"{ref.row} of table {ref.table}"


def write_tables(
    tables: Tables,
    selected: Sequence[Table],
    rows: Sequence[str] | None,
    expdir: str | Path,
    *,
    scale: str,
    corpus: str,
    command: str = "",
    lm_perplexity: str | Path | None = None,
) -> list[Path]:
    """Write ``<expdir>/results/table<T>.json`` and the files drawn from it for each table, and print the tables.

    The files hold every row, so that a run of two rows does not hide what earlier runs have filled in.

    Args:
        tables: the recipe's.
        selected: those to write.
        rows: those to print (None: all).
        expdir: holds ``<system>/seed<N>/...``.
        scale: and ``corpus``, ``command``: said beside the numbers.
        lm_perplexity: a file with the perplexity of a token under the language model, for tables that use one.

    Returns:
        The JSON files.

    Raises:
        InputError: no such folder, or scores that cannot be compared.
    """
    if not Path(expdir).is_dir():
        raise InputError(f"{expdir}: no such folder, so nothing has run there; give the run's --expdir")
    meta = collect_meta(command, tables.recipe_dir)
    # All are collected before the first is written: a score that cannot be compared leaves no half of a set.
    results = [collect(tables, tables.tables[table.id], expdir, scale, corpus, meta) for table in selected]
    written = []
    for table, result in zip(selected, results, strict=True):
        if lm_perplexity and Path(lm_perplexity).is_file() and uses_lm(tables, table):
            result["meta"]["lm_perplexity"] = float(Path(lm_perplexity).read_text(encoding="utf-8"))
        paths = write_results(result, Path(expdir) / "results")
        names = [paths[1].name]
        if "figure" in result and has_run(result):
            from espnet_ext.results.plot_style import save_png  # matplotlib takes a second to import

            picture = paths[0].with_suffix(".png")
            save_png(draw(result), picture)
            names.append(picture.name)
        print(plain_table(result, rows))
        print(f"written: {paths[0]} and {' and '.join(names)}\n")
        written.append(paths[0])
    return written
