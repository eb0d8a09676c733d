"""Whether a paper's claims hold on results: tests over seeds crossed with units, corrected for the number of claims."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from espnet_ext.scoring.significance import EXACT_BELOW, LEAST_SEEDS, crossed_test, holm
from espnet_ext.tables.reading import Column, Table, Tables
from espnet_ext.tables.result import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED, ClaimResult, ClaimTest, Effect, Verdict
from espnet_ext.tables.schema import Claim
from espnet_ext.tables.score_table import Scores, errors_and_words

SIGNIFICANCE = 0.05


def judge_claim(tables: Tables, table: Table, claim: Claim, scores: Scores, scale: str) -> ClaimResult:
    """Test one claim on each of its columns, with the seeds that all of its systems have.

    If ``better`` and ``worse`` are changes of the error rate from one row to another, these changes are compared: a
    difference of differences. A claim with a margin is tested as if ``worse`` had that many errors more.

    The result is not yet corrected for other claims: :func:`correct` does that, and decides.
    """
    tests = tuple(
        ClaimTest(column, _paper_effect(tables, claim, column), _effect(tables, claim, scores, column))
        for column in table.tested(claim)
    )
    found = [test.here for test in tests if test.here]
    complete = len(found) == len(tests)
    reason = _obstacle(found) if complete else None
    p_value = _p_value(found, claim.margin) if complete and reason is None else None
    looked = claim.extended.get(scale)
    if looked is not None and not any(len(test.seeds) > looked for test in found):
        looked = None
    return ClaimResult(claim, UNDECIDED if complete else NOT_RUN, reason, p_value, None, tests, looked)


def correct(tables: Tables, claims: Sequence[ClaimResult]) -> list[ClaimResult]:
    """Correct the claims of one corpus and scale for their number (Holm), and decide them; the order stays.

    A comparison that stands in several tables is one member of the family. A claim holds if it points the right way in
    each of its columns, and is contradicted if it points the wrong way in one, in both cases with a corrected p-value
    below 0.05.
    """
    comparisons: dict[object, float] = {}
    for claim in claims:
        if claim.p_value is not None:
            comparisons.setdefault(_comparison(tables, claim), claim.p_value)
    corrected = dict(zip(comparisons, holm(list(comparisons.values())), strict=True))
    return [
        claim if claim.p_value is None else _decided(claim, corrected[_comparison(tables, claim)]) for claim in claims
    ]


def _comparison(tables: Tables, claim: ClaimResult) -> object:
    """Return what a claim tests: equal for two claims on the same systems and decodings with the same tests."""
    rows = [tables.rows[name] for name in claim.claim.rows]  # better and worse are each half of them
    sides = tuple((row.system, row.decoding) for row in rows)
    return (sides, claim.claim.margin, tuple((test.column, test.here) for test in claim.tests))


def _decided(claim: ClaimResult, p_value: float) -> ClaimResult:
    verdict: Verdict = UNDECIDED
    if p_value < SIGNIFICANCE:
        wrong = any(test.here and test.here.points < -claim.claim.margin for test in claim.tests)
        verdict = CONTRADICTED if wrong else HOLDS
    return replace(claim, verdict=verdict, p_corrected=p_value)


def _paper_effect(tables: Tables, claim: Claim, column: Column) -> float | None:
    """Return how much lower the paper's error rate (or change of it) is, in points; None if a number is missing."""
    papers = [value for row in claim.rows if (value := tables.rows[row].paper.get(column.name)) is not None]
    if len(papers) < len(claim.rows):
        return None
    half = len(papers) // 2
    return round(_change(papers[half:]) - _change(papers[:half]), 4)


def _change[Value: (float, np.ndarray)](values: Sequence[Value]) -> Value:
    """Return what a side of a claim is: its one value, or for two (before and after) how much more there is after."""
    return values[0] if len(values) == 1 else values[1] - values[0]


def _effect(tables: Tables, claim: Claim, scores: Scores, column: Column) -> Effect | None:
    [test_set] = column.sets
    named = [tables.rows[name] for name in claim.rows]
    by_row = [scores.of(row.system, row.decoding, test_set, column.measure) for row in named]
    seeds = [seed for seed in by_row[0] if all(seed in by_seed for by_seed in by_row)]
    if not seeds:
        return None
    errors, words = errors_and_words([by_seed[seed] for by_seed in by_row for seed in seeds])
    rows, half = list(errors.reshape(len(by_row), len(seeds), -1)), len(by_row) // 2
    better, worse = _change(rows[:half]), _change(rows[half:])
    margin = claim.margin / 100
    test = crossed_test(better, worse + margin * words, words)
    enough = test.seeds >= LEAST_SEEDS
    interval = None
    if test.ci95 and enough:
        interval = round(100 * (test.ci95[0] - margin), 4), round(100 * (test.ci95[1] - margin), 4)
    p_value = round(test.p_value, 6) if test.p_value is not None and enough else None
    points = round(100 * (test.difference - margin), 4)
    return Effect(points, interval, p_value, tuple(seeds), test.seeds, test.units, scores.units[test_set])


def _obstacle(effects: Sequence[Effect]) -> str | None:
    """Return why tests cannot decide; None if they can."""
    if not effects:
        return None
    seeds = min(effect.different_seeds for effect in effects)
    if seeds < LEAST_SEEDS:
        given = min(len(effect.seeds) for effect in effects)
        if given > seeds:
            return f"{given} seeds with the same output" if seeds == 1 else f"{given} seeds, {seeds} that differ"
        return f"{seeds} seed{'' if seeds == 1 else 's'}"
    fewest = min(effects, key=lambda effect: effect.units)
    if fewest.units < EXACT_BELOW and 2.0 ** (1 - fewest.units) >= SIGNIFICANCE:
        return f"{fewest.units} {fewest.unit}{'' if fewest.units == 1 else 's'}"
    return None


def _p_value(effects: Sequence[Effect], margin: float) -> float:
    """Return the p-value of a claim on several columns.

    If all point the right way: the largest, as the claim must hold on each. Otherwise: the smallest of those that point
    the wrong way, times the number of columns, as one of them suffices to contradict it.
    """
    p_values = [(effect.points < -margin, effect.p_value) for effect in effects if effect.p_value is not None]
    wrong = [p_value for is_wrong, p_value in p_values if is_wrong]
    return min(1.0, len(effects) * min(wrong)) if wrong else max(p_value for _, p_value in p_values)
