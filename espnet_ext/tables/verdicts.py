"""Whether a paper's claims hold on results: tests over seeds crossed with units, as
their design says (``docs/statistics.md``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espnet_ext.scoring.formatting import format_count, format_p
from espnet_ext.scoring.significance import (
    EXACT_BELOW,
    LEAST_SEEDS,
    CrossedTest,
    list_holm_factors,
    multiply_in_order,
    run_crossed_test,
    run_outputs_test,
)
from espnet_ext.tables import result
from espnet_ext.tables.design import Claim, Design, list_side_rows
from espnet_ext.tables.reading import Column, Row, Tables
from espnet_ext.tables.schema import MERGE
from espnet_ext.tables.score_table import Scores, make_count_arrays

SIGNIFICANCE = 0.05
# without a training of their own, systems are tested over units alone
THIS_RECOGNISER = "for this recogniser"
SHARED_VOICES = "of these recordings alone, which may share voices"
SEEN = "decided after the results were seen"
ALONE = "against {} alone, not all that the paper names"


@dataclass(frozen=True)
class _Test:
    """A test of one comparison before it is corrected."""

    column: Column
    against: Row  # the last row of the side that should be worse
    paper: float | None
    margin_says: bool  # whether the margin is below the paper's effect
    outcome: CrossedTest | None  # None: not run
    enough: bool  # whether there are seeds enough for an interval
    relative_paper: float  # the paper's effect, or less: relative to our error rate
    run: int
    seeds: tuple[int, ...]
    unit: str
    failed_units: tuple[int, int]  # left out, of how many


@dataclass(frozen=True)
class _Judged:
    """A claim with its tests, before p-values are corrected for their number."""

    name: str
    claim: Claim
    tests: tuple[_Test, ...]
    obstacle: str | None  # why there is no verdict
    p_value: float | None
    failures: str


def judge_claims(
    tables: Tables, design: Design, scores: Scores
) -> list[result.ClaimResult]:
    """Test the claims of a design, and decide them, in the order of the design.

    A claim holds if it points the right way in each of its comparisons, and is
    contradicted if the wrong way in one, with a corrected p-value below 0.05. Otherwise
    differences above the margin, or the paper's effect, may be excluded. p-values are
    corrected for the tests of the design (Holm) and for the designs of the question;
    intervals by the same number.
    """
    judged = [_judge_claim(tables, name, design, scores) for name in design.claims]
    number = design.tests or len(judged)
    tested = [claim for claim in judged if claim.p_value is not None]
    p_values = [claim.p_value for claim in tested if claim.p_value is not None]
    factors = {
        claim.name: factor
        for claim, factor in zip(
            tested, list_holm_factors(p_values, number), strict=True
        )
    }
    times = {
        claim.name: factors.get(claim.name, number) * tables.tried.get(claim.name, 1)
        for claim in judged
    }
    corrected = multiply_in_order(p_values, [times[claim.name] for claim in tested])
    found = {
        claim.name: p_value for claim, p_value in zip(tested, corrected, strict=True)
    }
    return [
        _decide_claim(claim, design, times[claim.name], found.get(claim.name))
        for claim in judged
    ]


def _judge_claim(tables: Tables, name: str, design: Design, scores: Scores) -> _Judged:
    """Test one claim in each of its comparisons, of changes by their difference."""
    claim = tables.claims[name]
    named = [side for side in claim.worse if side == design.against]
    sides = named or claim.worse
    better = [tables.rows[row] for row in list_side_rows(claim.better)]
    rows = [tables.rows[row] for side in sides for row in list_side_rows(side)]
    columns = tables.list_tested_columns(claim, design.columns)
    tests = []
    for side in sides:
        worse = [tables.rows[row] for row in list_side_rows(side)]
        tests += [
            _run_test(better, worse, tables, design, scores, column)
            for column in columns
        ]
    obstacle = None
    p_value = None
    if all(test.outcome for test in tests):
        obstacle = _find_obstacle([*better, *rows], tests, tables, design, scores)
        obstacle = design.open.get(name, obstacle)
        if obstacle is None and name not in design.not_testable:
            p_value = _combine_p_values(
                [test.outcome for test in tests if test.outcome]
            )
    failures = _describe_failures(better, rows, design, scores)
    return _Judged(name, claim, tuple(tests), obstacle, p_value, failures)


def _run_test(
    better: Sequence[Row],
    worse: Sequence[Row],
    tables: Tables,
    design: Design,
    scores: Scores,
    column: Column,
) -> _Test:
    rows = [*better, *worse]
    [test_set] = column.sets
    by_row = [
        scores.select(row.system, row.decoding, test_set, column.measure)
        for row in rows
    ]
    run = [seed for seed in design.seeds if all(seed in by_seed for by_seed in by_row)]
    seeds = [
        seed for seed in run if seed not in _find_failed_seeds(rows, design, scores)
    ]
    paper = _compute_paper_effect(better, worse, column)
    unit = scores.units.get(test_set, "")
    if not seeds:
        return _Test(
            column=column,
            against=worse[-1],
            paper=paper,
            margin_says=False,
            outcome=None,
            enough=False,
            relative_paper=0.0,
            run=len(run),
            seeds=(),
            unit=unit,
            failed_units=(0, 0),
        )
    errors, words = make_count_arrays(
        [by_seed[seed] for by_seed in by_row for seed in seeds]
    )
    # (trainings, units) -> (rows, seeds, units)
    errors = errors.reshape(len(rows), len(seeds), -1)
    sound = _find_sound_units(errors, words, design.failed_units)
    errors = errors[:, :, sound]
    words = words[sound]
    merged = _are_merged(rows, tables, design)
    half = len(better)
    ours = _compute_change(list(errors[:half]))
    theirs = _compute_change(list(errors[half:]))
    if merged:
        outcome = run_outputs_test(ours, theirs, words)
    else:
        outcome = run_crossed_test(ours, theirs, words, fewest=design.fewest)
    margin = design.margin
    effect = paper or 0.0
    of_paper = worse[-1].paper[column.name]
    if len(rows) == 2 and of_paper:
        # The paper's effect is in points. Where we make fewer errors there is less room
        # for it: then it is as large relative to our error rate.
        rate = 100 * float(errors[half].mean(axis=0).sum() / words.sum())
        effect *= min(1.0, rate / of_paper)
    has_p_value = outcome.p_value is not None
    return _Test(
        column=column,
        against=worse[-1],
        paper=paper,
        # a margin as large as the effect could not exclude it
        margin_says=margin is not None and (paper is None or margin < effect),
        outcome=outcome,
        enough=has_p_value and (merged or outcome.seeds >= LEAST_SEEDS),
        relative_paper=effect,
        run=len(run),
        seeds=tuple(seeds),
        unit=unit,
        failed_units=(int((~sound).sum()), len(sound)),
    )


def _are_merged(rows: Sequence[Row], tables: Tables, design: Design) -> bool:
    """Tell whether no system has a training of its own."""
    return not design.fewest and all(
        tables.systems[row.system].kind == MERGE for row in rows
    )


def _find_sound_units(
    errors: NDArray[np.int64], words: NDArray[np.int64], limit: float | None
) -> NDArray[np.bool_]:
    """Return which units no system fails on, (units,): none has an error rate above the
    limit in percent, as the mean over seeds; ``errors`` is (rows, seeds, units).
    """
    if limit is None:
        return np.ones(len(words), dtype=bool)
    worst = errors.mean(axis=1).max(axis=0)
    return 100 * worst <= limit * words


def _decide_claim(
    judged: _Judged, design: Design, times: int, p_corrected: float | None
) -> result.ClaimResult:
    tests = tuple(_finish_test(test, design, times) for test in judged.tests)
    effects = [test.here for test in tests if test.here]
    why_not = design.not_testable.get(judged.name)
    notes = [note for note in (why_not, judged.obstacle) if note][:1]
    if any(test.outcome is None for test in judged.tests):
        verdict = result.NOT_RUN
        notes = []
    elif why_not:
        verdict = result.NOT_TESTABLE
    elif p_corrected is None:
        verdict = result.OPEN
    else:
        verdict = _read_verdict(judged, effects, design, p_corrected)
        notes += [] if verdict == result.OPEN else _describe_scope(judged, design)
    return result.ClaimResult(
        judged.name,
        judged.claim,
        design,
        verdict,
        tuple(notes),
        judged.p_value,
        p_corrected,
        times,
        tests,
        judged.failures,
    )


def _read_verdict(
    judged: _Judged,
    effects: Sequence[result.Effect],
    design: Design,
    p_corrected: float,
) -> str:
    if p_corrected < SIGNIFICANCE:
        wrong = any(effect.points < 0 for effect in effects)
        return result.CONTRADICTED if wrong else result.HOLDS
    if design.fewest:
        return result.OPEN
    if all(effect.within for effect in effects) and all(
        test.margin_says for test in judged.tests
    ):
        return result.NO_DIFFERENCE
    excluded = all(effect.excludes for effect in effects)
    return result.EXCLUDED if excluded else result.OPEN


def _describe_scope(judged: _Judged, design: Design) -> list[str]:
    """Say what a verdict is about, if that is less than the paper's sentence, other
    trainings, and other voices.
    """
    tests = judged.tests
    notes = []
    if len({test.against.name for test in tests}) < len(judged.claim.worse):
        notes.append(ALONE.format(tests[0].against.name))
    if all(_is_of_outputs(test) for test in tests):
        notes.append(THIS_RECOGNISER)
    if not design.own_voices and any(test.unit != "speaker" for test in tests):
        notes.append(SHARED_VOICES)
    if design.seen:
        notes.append(SEEN)
    return notes


def _is_of_outputs(test: _Test) -> bool:
    return test.enough and test.outcome is not None and test.outcome.seeds < LEAST_SEEDS


def _finish_test(test: _Test, design: Design, times: int) -> result.ClaimTest:
    """Give a test its interval, corrected as its p-value is."""
    against = test.against.name
    if test.outcome is None:
        return result.ClaimTest(test.column, test.paper, None, against)
    limits = test.outcome.interval(1 - SIGNIFICANCE / times) if test.enough else None
    interval = limits and (round(100 * limits[0], 4), round(100 * limits[1], 4))
    low, high = interval or (-math.inf, math.inf)
    p_value = test.outcome.p_value if test.enough else None
    effect = result.Effect(
        points=round(100 * test.outcome.difference, 4),
        interval=interval,
        p_value=None if p_value is None else round(p_value, 6),
        within=max(-low, high) < (design.margin or 0.0),
        excludes=test.relative_paper > max(0.0, high),
        run=test.run,
        seeds=test.seeds,
        different_seeds=test.outcome.seeds,
        units=test.outcome.units,
        unit=test.unit,
        failed_units=test.failed_units[0],
    )
    return result.ClaimTest(test.column, test.paper, effect, against)


def _compute_paper_effect(
    better: Sequence[Row], worse: Sequence[Row], column: Column
) -> float | None:
    """Return how much lower the paper's error rate (or change of it) is, in points;
    None if a number is missing.
    """
    ours = [row.paper.get(column.name) for row in better]
    theirs = [row.paper.get(column.name) for row in worse]
    if None in ours or None in theirs:
        return None
    return round(
        _compute_change([value for value in theirs if value is not None])
        - _compute_change([value for value in ours if value is not None]),
        4,
    )


def _compute_change[Value: (float, np.ndarray)](values: Sequence[Value]) -> Value:
    """Return what a side of a claim is: its one value, or for two (before and after)
    how much more there is after.
    """
    return values[0] if len(values) == 1 else values[1] - values[0]


def _find_failed_seeds(rows: Sequence[Row], design: Design, scores: Scores) -> set[int]:
    failed: set[int] = set()
    for row in rows:
        of_row = _find_failed(row.system, design, scores)
        failed |= {seed for seed, has_failed in of_row.items() if has_failed}
    return failed


def _find_failed(system: str, design: Design, scores: Scores) -> Mapping[int, bool]:
    """Return for each seed whether the training has failed; one whose loss is not a
    number has.
    """
    if design.failed is None:
        return {}
    losses = scores.dev_losses.get(system, {})
    return {
        # not "greater": that is false for a loss that is not a number
        seed: not losses[seed] <= design.failed
        for seed in design.seeds
        if seed in losses
    }


def _describe_failures(
    better: Sequence[Row], worse: Sequence[Row], design: Design, scores: Scores
) -> str:
    sides = []
    for rows in (better, worse):
        systems = {row.system for row in rows}
        of_side = [_find_failed(system, design, scores) for system in systems]
        sides.append([failed for own in of_side for failed in own.values()])
    if not any(map(any, sides)):
        return ""
    from scipy.stats import fisher_exact  # which takes seconds to import

    failed_and_not = [[sum(side), len(side) - sum(side)] for side in sides]
    p_value = fisher_exact(failed_and_not).pvalue
    shares = " and ".join(f"{sum(side)} of {len(side)}" for side in sides)
    return f"; trainings that failed: {shares} (Fisher p = {format_p(float(p_value))})"


def _find_obstacle(
    rows: Sequence[Row],
    tests: Sequence[_Test],
    tables: Tables,
    design: Design,
    scores: Scores,
) -> str | None:
    """Return why tests cannot decide; None if they can."""
    outcomes = [test.outcome for test in tests if test.outcome]
    if not _are_merged(rows, tables, design):
        run = min(test.run for test in tests)
        different = min(outcome.seeds for outcome in outcomes)
        if run < len(design.seeds):
            return f"{run} of {len(design.seeds)} seeds"
        if different < LEAST_SEEDS:
            differ = "differs" if different == 1 else "differ"
            return f"{run} seeds, {different} that {differ}"
    fewest = min(
        tests, key=lambda test: test.outcome.units if test.outcome else math.inf
    )
    units = fewest.outcome.units if fewest.outcome else 0
    # few units must pass the exact test, too, of which no p-value is below 2 / 2^units
    if units < EXACT_BELOW and 2.0 ** (1 - units) >= SIGNIFICANCE:
        return format_count(units, fewest.unit)
    return _name_unfinished(rows, design, scores)


def _name_unfinished(rows: Sequence[Row], design: Design, scores: Scores) -> str | None:
    """Name the trainings that were best at their last step, so that more steps might
    change which system is better.
    """
    for row in rows:
        at_end = set(scores.unfinished.get(row.system, ())) & set(design.seeds)
        if at_end:
            number = f"{len(at_end)} of {len(design.seeds)} trainings"
            return f"{row.name}: {number} are best at their last step"
    return None


def _combine_p_values(outcomes: Sequence[CrossedTest]) -> float | None:
    """Return the p-value of a claim on several comparisons, which must hold in each and
    is contradicted by one.

    So it is the largest, or, times their number, the smallest of those that point the
    wrong way.
    """
    p_values = [
        (outcome.difference < 0, round(outcome.p_value, 6))
        for outcome in outcomes
        if outcome.p_value is not None
    ]
    wrong = [p_value for is_wrong, p_value in p_values if is_wrong]
    if wrong:
        return min(1.0, len(outcomes) * min(wrong))
    return max(p_value for _, p_value in p_values)
