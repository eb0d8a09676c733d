"""A table's results: the paper's numbers and those of a run, collected, and written as JSON and Markdown."""

import contextlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.tables.claims.verdicts import correct, judge_claim
from espnet_ext.tables.kept.kept_scores import gather, write_scores
from espnet_ext.tables.kept.pictures import drawn_part
from espnet_ext.tables.kept.result_files import SCORES_FILE, VERSION, keep_result, read_results
from espnet_ext.tables.pages.figures import curves_of, draw
from espnet_ext.tables.pages.render import has_run, markdown_table, plain_table
from espnet_ext.tables.plans.plan import uses_lm
from espnet_ext.tables.plans.schema import AVERAGE
from espnet_ext.tables.plans.tables import Column, Row, RowRef, Table, Tables
from espnet_ext.tables.scores import RunScores, Scores, SeedScore, average_here, cell_here
from espnet_ext.work.files import atomic_write
from espnet_ext.work.provenance import collect_meta


def collect(
    tables: Tables, table: Table, expdir: str | Path, scale: str, corpus: str, meta: Mapping[str, Any]
) -> dict[str, Any]:
    """Collect the paper's numbers and the results under ``expdir``; see :func:`collect_from`."""
    return collect_from(tables, table, RunScores(Path(expdir)), scale, corpus, meta)


def collect_from(
    tables: Tables, table: Table, source: Scores, scale: str, corpus: str, meta: Mapping[str, Any]
) -> dict[str, Any]:
    """Collect the paper's numbers and the results in ``source``. Claims are not yet corrected for each other.

    A row and column without a score has ``here: null``. ``reference`` is the row (of this table or another) from which
    reductions of the error rate are computed, or null.

    Raises:
        InputError: a file that is no score, or scores that cannot be compared: they differ in text normalisation, unit
            or length of the reference.
    """
    scores = {row.name: _row_scores(tables, table, row, source) for row in table.rows}
    base_row = tables.row(table.baseline) if table.baseline else None
    base_scores = _row_scores(tables, table, base_row, source) if base_row else {}
    normaliser = _check_comparable([item for found in (*scores.values(), base_scores) for item in found.items()])
    reference = None
    if base_row and table.baseline:
        name = _name(table, table.baseline)
        reference = {
            "name": name,
            "system": base_row.system,
            "cells": _cells(tables, table, base_row, base_scores, source),
        }
    rows = [
        {
            "name": row.name,
            "system": row.system,
            "decoding": row.decoding,
            "seeds": sorted({seed for found in scores[row.name].values() for seed in found}),
            "cells": _cells(tables, table, row, scores[row.name], source),
        }
        for row in table.rows
    ]
    result = {
        "version": VERSION,
        "recipe": tables.recipe,
        "table": table.id,
        "scale": scale,
        "caption": table.caption,
        "metric": _metric(tables, table),
        "paper": f"{tables.paper.authors}. {tables.paper.title}, {tables.paper.year}. ({tables.paper.id})",
        "columns": [column.name for column in table.columns],
        "groups": _groups(table),
        "meta": {**meta, "normaliser": normaliser, "corpus": corpus, "scale": scale},
        "scores": SCORES_FILE,
        "reference": reference,
        "reductions": list(table.reductions),
        "rows": rows,
        "claims": [judge_claim(claim, tables, source, scale) for claim in table.claims],
    }
    return result if table.figure is None else {**result, "figure": curves_of(table.figure, table.rows, rows)}


def write_results(result: Mapping[str, Any], folder: str | Path) -> tuple[Path, Path]:
    """Write ``table<T>.json`` and the same as ``table<T>.md`` into ``folder``; return both paths.

    Those of a figure are called ``figure<F>``.
    """
    paths = _paths(result, Path(folder))
    keep_result(paths[0], dict(result))
    with atomic_write(paths[1]) as file:
        file.write(markdown_table(result))
    return paths


def _paths(result: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    stem = result["table"] if "figure" in result else f"table{result['table']}"
    return folder / f"{stem}.json", folder / f"{stem}.md"


RowScores = Mapping[tuple[str, str | None], dict[int, SeedScore]]  # by test set and measure, then by seed


def _row_scores(tables: Tables, table: Table, row: Row, source: Scores) -> RowScores:
    return {
        (name, column.measure): source.of(row.system, row.decoding, name, column.measure)
        for column in table.columns_of(row)
        for name in _test_sets(tables, column)
    }


def _cells(tables: Tables, table: Table, row: Row, scores: RowScores, source: Scores) -> dict[str, Any]:
    cells = {}
    for column in table.columns_of(row):
        if column.test_set is None:
            value = source.quantity(row.system, column.name, column.unit)
            here = None if value is None else {"value": value, "ci95": None, "errors": None, "words": None}
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

    The files hold every row, so that a run of two rows does not hide what earlier runs have filled in. Tables that an
    earlier run has written are brought up to date too, since claims are corrected for their number over all of them.
    ``scores.json.gz`` holds the errors of each utterance behind all tables.

    Args:
        tables: the recipe's.
        selected: those to write.
        rows: those to print (None: all).
        expdir: holds ``<system>/seed<N>/...``.
        scale: and ``corpus``, ``command``: said beside the numbers.
        lm_perplexity: a file with the perplexity of a token under the language model, for tables that use one.

    Returns:
        The JSON files of the selected tables.

    Raises:
        InputError: no such folder, or scores that cannot be compared.
    """
    if not Path(expdir).is_dir():
        raise InputError(f"{expdir}: no such folder, so nothing has run there; give the run's --expdir")
    folder, source = Path(expdir) / "results", RunScores(Path(expdir))
    meta = collect_meta(command, tables.recipe_dir)
    # All are collected before the first is written: a score that cannot be compared leaves no half of a set.
    results = []
    for table in selected:
        result = collect_from(tables, tables.tables[table.id], source, scale, corpus, meta)
        if lm_perplexity and Path(lm_perplexity).is_file() and uses_lm(tables, table):
            result["meta"]["lm_perplexity"] = float(Path(lm_perplexity).read_text(encoding="utf-8"))
        results.append(result)
    names = {table.id for table in selected}
    others = [table for table in tables.tables.values() if table.id not in names]
    results += _earlier(tables, others, source, folder, scale, corpus, meta)
    kept = gather(tables, source)
    written = []
    for number, result in enumerate(correct(results)):
        paths = write_results(result, folder)
        drawn = [paths[1].name, *_draw(result, paths[0])]
        if number < len(selected):
            print(plain_table(result, rows))
            print(f"written: {paths[0]} and {' and '.join(drawn)}\n")
            written.append(paths[0])
    write_scores(folder / SCORES_FILE, kept)
    return written


def _draw(result: Mapping[str, Any], path: Path) -> list[str]:
    """Draw a figure beside its file; the picture's name, if there is one."""
    if "figure" not in result or not has_run(result):
        return []
    from espnet_ext.work.plot_style import save_png  # matplotlib takes a second to import

    picture = path.with_suffix(".png")
    save_png(draw(result), picture, data=drawn_part(result))
    return [picture.name]


def _earlier(
    tables: Tables,
    others: Sequence[Table],
    source: Scores,
    folder: Path,
    scale: str,
    corpus: str,
    meta: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """The tables that earlier runs have written, from what is there now.

    What they say of how they were made stays, unless their numbers have changed since, or their files are of another
    version.
    """
    found = []
    for table in others:
        path = folder / f"{table.id if table.figure else f'table{table.id}'}.json"
        if path.is_file():
            result = collect_from(tables, table, source, scale, corpus, meta)
            with contextlib.suppress(InputError):
                old = read_results(path)
                if old["rows"] == result["rows"]:
                    result["meta"] = old["meta"]
            found.append(result)
    return found
