"""From scores to results: cells with intervals, reductions, curves, tested claims."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from espnet_ext.scoring.significance import estimate_interval
from espnet_ext.tables.reading import Column, Figure, Row, Table, Tables, name_row
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
    # with the paper's numbers, even where the table then loses them: a verdict on a
    # synthetic corpus says whether the paper's effect is excluded there
    claims: list[ClaimResult] = []
    for design in tables.select_designs(meta.scale, meta.corpus):
        claims += judge_claims(tables, design, scores)
    if names_here is not None:
        rows = {row.name: name_row(row, names_here) for row in tables.rows.values()}
        tables = tables.remove_paper(names_here)
        claims = [_rename_tests(claim, tables, rows) for claim in claims]
    wanted = set(names)
    results = []
    for name, table in tables.tables.items():
        if name in wanted:
            own = [claim for claim in claims if claim.claim.table == name]
            results.append(_collect_table(tables, table, scores, meta, own))
    return results


def _has_speakers_of_paper(tables: Tables, scores: Scores) -> bool:
    """Tell whether each scored test set has as many speakers as the paper's."""
    expected = tables.file.paper.speakers
    for key, by_seed in scores.rates.items():
        wanted = expected.get(key.test_set)
        for score in by_seed.values():
            # a set of this name in the layout of the paper's corpus, but of another
            if wanted is not None and len(score.units) != wanted:
                return False
    return True


def _rename_tests(
    claim: ClaimResult, tables: Tables, rows: Mapping[str, str]
) -> ClaimResult:
    """Call test sets and rows by their names on this corpus."""
    tests = []
    for test in claim.tests:
        column = tables.columns[test.column.name]
        tests.append(replace(test, column=column, against=rows[test.against]))
    return replace(claim, tests=tuple(tests))


def _collect_table(
    tables: Tables,
    table: Table,
    scores: Scores,
    meta: Meta,
    claims: Sequence[ClaimResult],
) -> TableResult:
    rows = []
    for row in table.rows:
        columns = [tables.columns[name] for name in row.paper]
        rows.append(_make_row(row, columns, scores))
    if table.figure:
        rows = _add_reductions(rows, table.figure)
    reference = None
    if table.baseline:
        other, _, name = table.baseline.partition("/")
        shown = name if other == table.id else f"{name} of table {other}"
        # in the columns of this table, whose reductions it is compared in
        baseline = _make_row(tables.rows[table.baseline], table.columns, scores)
        reference = replace(baseline, name=shown)
    return TableResult(
        table, tables.file.paper, tuple(rows), reference, tuple(claims), meta
    )


def _add_reductions(rows: Sequence[ResultRow], figure: Figure) -> list[ResultRow]:
    """Return the rows of a figure with reductions from the start of their curves."""
    starts = {row.curve: row.cell.here for row in rows if row.x == figure.start}
    reduced = []
    for row in rows:
        reduction = reduce_rate(row.cell.here, starts.get(row.curve))
        reduced.append(replace(row, reduction=reduction))
    return reduced


def _make_row(row: Row, columns: Sequence[Column], scores: Scores) -> ResultRow:
    seeds: set[int] = set()
    cells = {}
    for column in columns:
        per_test_set = [
            scores.select(row.system, row.decoding, name, column.measure)
            for name in column.sets
        ]
        for by_seed in per_test_set:
            seeds.update(by_seed)
        here = _make_result(scores, row, column, per_test_set)
        cells[column] = Cell(row.paper.get(column.name), here)
    return ResultRow(**vars(row), seeds=tuple(sorted(seeds)), cells=cells)


def _make_result(
    scores: Scores,
    row: Row,
    column: Column,
    per_test_set: Sequence[Mapping[int, Score]],
) -> Result | None:
    if not column.sets:
        value = scores.quantities.get(row.system, {}).get(column.heading)
        return None if value is None else Result(value, {})
    if column.average:
        return _compute_average(per_test_set)
    [by_seed] = per_test_set
    return _compute_rate(by_seed)


def _compute_rate(by_seed: Mapping[int, Score]) -> Result | None:
    """Return the error rate of one test set, with its interval over units."""
    if not by_seed:
        return None
    errors, words = make_count_arrays(list(by_seed.values()))
    interval = None
    found = estimate_interval(errors, words)
    if found is not None:
        low, high = found
        interval = (round(100 * low, 4), round(100 * high, 4))
    rate = _compute_mean({seed: score.value for seed, score in by_seed.items()})
    return replace(
        rate,
        interval=interval,
        errors=int(errors.sum()),
        # the words of a test set are the same for each seed, the errors are not
        words=int(words.sum()) * len(by_seed),
    )


def _compute_average(per_test_set: Sequence[Mapping[int, Score]]) -> Result | None:
    """Return the mean of the error rates of test sets, as papers give it, not pooled.

    Seeds count that have run on all of them.
    """
    averages = {}
    for seed in per_test_set[0]:
        if all(seed in scores for scores in per_test_set):
            rates = [scores[seed].value for scores in per_test_set]
            averages[seed] = statistics.fmean(rates)
    return _compute_mean(averages) if averages else None


def _compute_mean(by_seed: Mapping[int, float]) -> Result:
    spread = None
    if len(by_seed) > 1:
        spread = round(statistics.stdev(by_seed.values()), 4)
    rounded = {seed: round(value, 4) for seed, value in by_seed.items()}
    return Result(round(statistics.fmean(by_seed.values()), 4), rounded, spread)


def reduce_rate(rate: Result | None, base: Result | None) -> Result | None:
    """Return the relative reduction of a mean rate from a baseline, in percent.

    The mean is over the seeds that both have. The spread is the standard deviation of
    the reductions of single seeds, each from the baseline of the same seed.

    >>> base = Result(10.0, {1: 8.0, 2: 12.0})
    >>> reduced = reduce_rate(Result(9.0, {1: 8.0, 2: 9.0, 3: 10.0}), base)
    >>> reduced.value, reduced.spread, reduced.by_seed
    (15.0, 17.6777, {1: 0.0, 2: 25.0})
    """
    if not rate or not base:
        return None
    seeds = [seed for seed in rate.by_seed if seed in base.by_seed]
    # a baseline without errors has no relative reduction
    if not seeds or not all(base.by_seed[seed] for seed in seeds):
        return None

    def reduce(value: float, reference: float) -> float:
        return round(compute_reduction(value, reference) or 0.0, 4)

    def compute_mean(result: Result) -> float:
        # of all errors, which is more exact than the mean of rounded rates
        if len(seeds) == len(result.by_seed):
            return result.value
        return statistics.fmean(result.by_seed[seed] for seed in seeds)

    by_seed = {}
    for seed in seeds:
        by_seed[seed] = reduce(rate.by_seed[seed], base.by_seed[seed])
    spread = None
    if len(seeds) > 1:
        spread = round(statistics.stdev(by_seed.values()), 4)
    return Result(reduce(compute_mean(rate), compute_mean(base)), by_seed, spread)
