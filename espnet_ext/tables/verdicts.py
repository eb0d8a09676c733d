"""Whether a paper's claims hold on results: tests over seeds crossed with units, as
their design says.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from espnet_ext.scoring.formatting import format_p
from espnet_ext.scoring.significance import (
    EXACT_BELOW,
    LEAST_SEEDS,
    crossed_test,
    holm,
    outputs_test,
)
from espnet_ext.tables import result
from espnet_ext.tables.design import Design
from espnet_ext.tables.reading import Column, Row, Tables
from espnet_ext.tables.schema import MERGE
from espnet_ext.tables.score_table import Scores, errors_and_words

SIGNIFICANCE = 0.05
# without a training of their own, systems are tested over units alone
THIS_RECOGNISER = "for this recogniser"


def judge_claims(
    tables: Tables, design: Design, scores: Scores
) -> list[result.ClaimResult]:
    """Test the claims of a design, and decide them, in the order of the design.

    A claim holds if it points the right way on each of its columns, and is contradicted
    if the wrong way on one, with a corrected p-value below 0.05. Otherwise differences
    above the margin, or the paper's effect, may be excluded.
    """
    claims = [_judged(tables, name, design, scores) for name in design.claims]
    p_values = [
        1.0 if claim.p_value is None else min(1.0, design.looks * claim.p_value)
        for claim in claims
    ]
    corrected = (
        accumulate(p_values, max)
        if design.order
        else holm(p_values, max(design.family, len(claims)))
    )
    return [
        claim if claim.p_value is None else _decided(claim, p)
        for claim, p in zip(claims, corrected, strict=True)
    ]


def _judged(
    tables: Tables, name: str, design: Design, scores: Scores
) -> result.ClaimResult:
    """Test one claim on each of its columns, of changes by their difference; not yet
    decided.
    """
    claim = tables.claims[name]
    rows = [tables.rows[row] for row in claim.rows]
    merged = design.freedom != "fewest" and all(
        tables.systems[row.system].kind == MERGE for row in rows
    )
    tests = tuple(
        result.ClaimTest(
            column,
            _paper_effect(rows, column),
            _effect(rows, design, scores, column, merged),
        )
        for column in tables.tested(claim)
    )
    found = [test.here for test in tests if test.here]
    complete = len(found) == len(tests)
    reason = _obstacle(found, design, merged) if complete else None
    p_value = _p_value(found) if complete and reason is None else None
    verdict = result.OPEN if complete else result.NOT_RUN
    if merged and reason is None:
        reason = THIS_RECOGNISER
    return result.ClaimResult(
        name,
        claim,
        design,
        verdict,
        reason,
        p_value,
        None,
        tests,
        _failures(rows, design, scores),
    )


def _decided(claim: result.ClaimResult, p_value: float) -> result.ClaimResult:
    effects = [test.here for test in claim.tests if test.here]
    verdict = result.OPEN
    if p_value < SIGNIFICANCE:
        verdict = (
            result.CONTRADICTED
            if any(effect.points < 0 for effect in effects)
            else result.HOLDS
        )
    elif claim.design.freedom != "fewest":
        excluded = all(effect.excludes for effect in effects)
        verdict = (
            result.NO_DIFFERENCE
            if all(effect.within for effect in effects)
            else result.EXCLUDED
            if excluded
            else result.OPEN
        )
    return replace(claim, verdict=verdict, p_corrected=p_value)


def _paper_effect(rows: Sequence[Row], column: Column) -> float | None:
    """Return how much lower the paper's error rate (or change of it) is, in points;
    None if a number is missing.
    """
    papers = [
        value for row in rows if (value := row.paper.get(column.name)) is not None
    ]
    half = len(rows) // 2
    return (
        round(_change(papers[half:]) - _change(papers[:half]), 4)
        if len(papers) == len(rows)
        else None
    )


def _change[Value: (float, np.ndarray)](values: Sequence[Value]) -> Value:
    """Return what a side of a claim is: its one value, or for two (before and after)
    how much more there is after.
    """
    return values[0] if len(values) == 1 else values[1] - values[0]


def _effect(
    rows: Sequence[Row], design: Design, scores: Scores, column: Column, merged: bool
) -> result.Effect | None:
    [test_set] = column.sets
    by_row = [
        scores.of(row.system, row.decoding, test_set, column.measure) for row in rows
    ]
    failed = {
        seed
        for row in rows
        for seed, own in _failed(row.system, design, scores).items()
        if own
    }
    run = [seed for seed in design.seeds if all(seed in by_seed for by_seed in by_row)]
    seeds = [seed for seed in run if seed not in failed]
    if not seeds:
        return None
    errors, words = errors_and_words(
        [by_seed[seed] for by_seed in by_row for seed in seeds]
    )
    sides, half = list(errors.reshape(len(rows), len(seeds), -1)), len(rows) // 2
    better, worse = _change(sides[:half]), _change(sides[half:])
    test = (
        outputs_test(better, worse, words)
        if merged
        else crossed_test(better, worse, words, fewest=design.freedom == "fewest")
    )
    enough = test.p_value is not None and (merged or test.seeds >= LEAST_SEEDS)

    def interval(error_rate: float) -> tuple[float, float] | None:
        limits = test.interval(1 - error_rate) if enough else None
        return limits and (round(100 * limits[0], 4), round(100 * limits[1], 4))

    # Claims and looks are counted. The paper's effect is in points, or relative to the
    # error rate if that is less.
    level = SIGNIFICANCE / (design.looks * max(design.family, len(design.claims)))
    low, high = interval(level) or (-math.inf, math.inf)
    paper, of_paper = _paper_effect(rows, column) or 0.0, rows[half].paper[column.name]
    if len(rows) == 2 and of_paper:
        paper *= min(
            1.0, 100 * float(sides[half].mean(axis=0).sum() / words.sum()) / of_paper
        )
    return result.Effect(
        points=round(100 * test.difference, 4),
        interval=interval(SIGNIFICANCE),
        p_value=round(test.p_value, 6) if test.p_value is not None and enough else None,
        within=max(-low, high) < (design.margin or 0.0),
        excludes=paper > max(0.0, high),
        run=len(run),
        seeds=tuple(seeds),
        different_seeds=test.seeds,
        units=test.units,
        unit=scores.units[test_set],
    )


def _failed(system: str, design: Design, scores: Scores) -> dict[int, bool]:
    """Return for each seed whether the training has failed; one whose loss is not a
    number has.
    """
    losses = {} if design.failed is None else scores.dev_losses.get(system, {})
    return {
        seed: not losses[seed] <= (design.failed or 0)
        for seed in design.seeds
        if seed in losses
    }


def _failures(rows: Sequence[Row], design: Design, scores: Scores) -> str:
    half = len(rows) // 2
    sides = [
        [
            each
            for system in {row.system for row in side}
            for each in _failed(system, design, scores).values()
        ]
        for side in (rows[:half], rows[half:])
    ]
    if not any(map(any, sides)):
        return ""
    from scipy.stats import fisher_exact  # which takes seconds to import

    p_value = fisher_exact(
        [[sum(side), len(side) - sum(side)] for side in sides]
    ).pvalue
    shares = " and ".join(f"{sum(side)} of {len(side)}" for side in sides)
    return f"; trainings that failed: {shares} (Fisher p = {format_p(float(p_value))})"


def _obstacle(
    effects: Sequence[result.Effect], design: Design, merged: bool
) -> str | None:
    """Return why tests cannot decide; None if they can."""
    fewest = min(effects, key=lambda effect: effect.units)
    if not merged:
        run, different = (
            min(getattr(each, name) for each in effects)
            for name in ("run", "different_seeds")
        )
        if run < len(design.seeds):
            return f"{run} of {len(design.seeds)} seeds"
        if different < LEAST_SEEDS:
            return (
                f"{run} seeds, {different} that differ{'s' if different == 1 else ''}"
            )
    if fewest.units < EXACT_BELOW and 2.0 ** (1 - fewest.units) >= SIGNIFICANCE:
        return f"{fewest.units} {fewest.unit}{'' if fewest.units == 1 else 's'}"
    return None


def _p_value(effects: Sequence[result.Effect]) -> float:
    """Return the p-value of a claim on several columns, which must hold on each and is
    contradicted by one.

    So it is the largest, or, times the number of columns, the smallest of those that
    point the wrong way.
    """
    p_values = [
        (effect.points < 0, effect.p_value)
        for effect in effects
        if effect.p_value is not None
    ]
    wrong = [p_value for is_wrong, p_value in p_values if is_wrong]
    return (
        min(1.0, len(effects) * min(wrong))
        if wrong
        else max(p_value for _, p_value in p_values)
    )
