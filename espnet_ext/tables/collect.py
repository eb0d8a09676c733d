"""From scores to results: cells with their intervals, reductions, curves, and claims
with their verdicts.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from espnet_ext.scoring.significance import estimate_interval
from espnet_ext.tables.reading import Column, Row, Table, Tables, name_row
from espnet_ext.tables.result import (
    Cell,
    ClaimResult,
    Result,
    ResultRow,
    TableResult,
    compute_reduction,
)
from espnet_ext.tables.score_table import Meta, Score, Scores, make_count_arrays
from espnet_ext.tables.verdicts import judge_claims


def collect(
    tables: Tables, names: Iterable[str], scores: Scores, meta: Meta
) -> list[TableResult]:
    """Compute the results of some tables, in the order of ``tables.yaml``.

    The paper's numbers stand beside ours on its own corpus alone; on another one, sets
    have names of their own. Claims are decided as the designs for the corpus and scale
    say; without one there are none.
    """
    names_here = tables.choose_names(meta.corpus, meta.synthetic_sets)
    is_of_paper = meta.paper and _has_speakers_of_paper(tables, scores)
    if not meta.paper or (names_here is None and not is_of_paper):
        tables = tables.remove_paper()
    claims = [
        claim
        for design in tables.select_designs(meta.scale, meta.corpus)
        for claim in judge_claims(tables, design, scores)
    ]
    if names_here is not None:
        rows = {row.name: name_row(row, names_here) for row in tables.rows.values()}
        tables = tables.remove_paper(names_here)
        claims = [_rename_tests(claim, tables, rows) for claim in claims]
    wanted = set(names)
    return [
        _collect_table(
            tables,
            table,
            scores,
            meta,
            [claim for claim in claims if claim.claim.table == name],
        )
        for name, table in tables.tables.items()
        if name in wanted
    ]


def _has_speakers_of_paper(tables: Tables, scores: Scores) -> bool:
    """Tell whether each scored test set has as many speakers as the paper's of that
    name; a folder of another corpus may have its layout.
    """
    expected = tables.file.paper.speakers
    return all(
        expected.get(key.test_set, len(score.units)) == len(score.units)
        for key, by_seed in scores.rates.items()
        for score in by_seed.values()
    )


def _rename_tests(
    claim: ClaimResult, tables: Tables, rows: Mapping[str, str]
) -> ClaimResult:
    """Call test sets and rows by their names on this corpus."""
    tests = tuple(
        replace(
            test,
            column=tables.columns[test.column.name],
            against=rows[test.against],
        )
        for test in claim.tests
    )
    return replace(claim, tests=tests)


def _collect_table(
    tables: Tables,
    table: Table,
    scores: Scores,
    meta: Meta,
    claims: Sequence[ClaimResult],
) -> TableResult:
    rows = [
        _make_row(row, [tables.columns[name] for name in row.paper], scores)
        for row in table.rows
    ]
    if table.figure:
        starts = {
            row.curve: row.cell.here for row in rows if row.x == table.figure.start
        }
        rows = [
            replace(row, reduction=reduce_rate(row.cell.here, starts.get(row.curve)))
            for row in rows
        ]
    reference = None
    if table.baseline:
        of, _, name = table.baseline.partition("/")
        shown = name if of == table.id else f"{name} of table {of}"
        reference = replace(
            _make_row(tables.rows[table.baseline], table.columns, scores), name=shown
        )
    return TableResult(
        table, tables.file.paper, tuple(rows), reference, tuple(claims), meta
    )


def _make_row(row: Row, columns: Sequence[Column], scores: Scores) -> ResultRow:
    seeds: set[int] = set()
    cells = {}
    for column in columns:
        found = [
            scores.of(row.system, row.decoding, name, column.measure)
            for name in column.sets
        ]
        seeds |= {seed for by_seed in found for seed in by_seed}
        cells[column] = Cell(
            row.paper.get(column.name), _make_cell(scores, row, column, found)
        )
    return ResultRow(**vars(row), seeds=tuple(sorted(seeds)), cells=cells)


def _make_cell(
    scores: Scores,
    row: Row,
    column: Column,
    per_test_set: Sequence[Mapping[int, Score]],
) -> Result | None:
    if not column.sets:
        value = scores.quantities.get(row.system, {}).get(column.heading)
        return None if value is None else Result(value, {})
    return (
        _compute_average(per_test_set)
        if column.average
        else _compute_rate(per_test_set[0])
    )


def _compute_rate(by_seed: Mapping[int, Score]) -> Result | None:
    """Return the error rate of one test set, with its interval over units."""
    if not by_seed:
        return None
    errors, words = make_count_arrays(list(by_seed.values()))
    found = estimate_interval(errors, words)
    interval = (
        None if found is None else (round(100 * found[0], 4), round(100 * found[1], 4))
    )
    rate = _compute_mean({seed: score.value for seed, score in by_seed.items()})
    return replace(
        rate,
        interval=interval,
        errors=int(errors.sum()),
        words=int(words.sum()) * len(by_seed),
    )


def _compute_average(per_test_set: Sequence[Mapping[int, Score]]) -> Result | None:
    """Return the mean of the error rates of test sets, not pooled, over the seeds that
    have run on all of them.
    """
    seeds = [
        seed
        for seed in per_test_set[0]
        if all(seed in scores for scores in per_test_set)
    ]
    if not seeds:
        return None
    return _compute_mean(
        {
            seed: statistics.fmean(scores[seed].value for scores in per_test_set)
            for seed in seeds
        }
    )


def _compute_mean(by_seed: Mapping[int, float]) -> Result:
    spread = round(statistics.stdev(by_seed.values()), 4) if len(by_seed) > 1 else None
    rounded = {seed: round(value, 4) for seed, value in by_seed.items()}
    return Result(round(statistics.fmean(by_seed.values()), 4), rounded, spread)


def reduce_rate(rate: Result | None, base: Result | None) -> Result | None:
    """Return the relative reduction of the mean rate from a baseline, in percent, over
    the seeds that both have.

    The spread is the standard deviation of the reductions of single seeds, each from
    the baseline of the same seed.

    >>> base = Result(10.0, {1: 8.0, 2: 12.0})
    >>> reduced = reduce_rate(Result(9.0, {1: 8.0, 2: 9.0, 3: 10.0}), base)
    >>> reduced.value, reduced.spread, reduced.by_seed
    (15.0, 17.6777, {1: 0.0, 2: 25.0})
    """
    seeds = (
        [seed for seed in rate.by_seed if seed in base.by_seed] if rate and base else []
    )
    if (
        not rate
        or not base
        or not seeds
        or not all(base.by_seed[seed] for seed in seeds)
    ):
        return None

    def of(value: float, reference: float) -> float:
        return round(compute_reduction(value, reference) or 0.0, 4)

    def mean(result: Result) -> float:
        # Of all errors, which is more exact than the mean of rounded rates.
        whole = len(seeds) == len(result.by_seed)
        return (
            result.value
            if whole
            else statistics.fmean(result.by_seed[seed] for seed in seeds)
        )

    by_seed = {seed: of(rate.by_seed[seed], base.by_seed[seed]) for seed in seeds}
    spread = round(statistics.stdev(by_seed.values()), 4) if len(seeds) > 1 else None
    return Result(of(mean(rate), mean(base)), by_seed, spread)
