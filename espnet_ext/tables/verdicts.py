"""Whether a paper's claims hold on results: tests over seeds crossed with units.

Their design says how they are decided; ``docs/statistics.md`` explains it.
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
from espnet_ext.tables.schema import MERGE, TRAIN
from espnet_ext.tables.score_table import Scores, make_count_arrays

SIGNIFICANCE = 0.05
# without a training of their own, systems are tested over units alone
THIS_RECOGNISER = "for this recogniser"
SHARED_VOICES = "of these recordings alone, which may share voices"
SEEN = "decided after the results were seen"
UNRECORDED = "not recorded whether trainings were at their end"
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
    ends_unknown: bool  # of trainings of its systems
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
    p_values = {}
    for claim in judged:
        if claim.p_value is not None:
            p_values[claim.name] = claim.p_value
    # the smallest p-value is multiplied by the number of tests, the next by one less
    holm = list_holm_factors(list(p_values.values()), number)
    factors = dict(zip(p_values, holm, strict=True))
    times = {}
    for claim in judged:
        # without a p-value there is an interval still, as wide as for the smallest
        factor = factors.get(claim.name, number)
        times[claim.name] = factor * tables.tried.get(claim.name, 1)
    products = multiply_in_order(
        list(p_values.values()), [times[name] for name in p_values]
    )
    corrected = dict(zip(p_values, products, strict=True))
    return [
        _decide_claim(claim, design, times[claim.name], corrected.get(claim.name))
        for claim in judged
    ]


def _judge_claim(tables: Tables, name: str, design: Design, scores: Scores) -> _Judged:
    """Test one claim in each of its comparisons, of changes by their difference."""
    claim = tables.claims[name]
    named = [side for side in claim.worse if side == design.against]
    # the one baseline that an old design knew; otherwise the claim must hold for all
    sides = named or claim.worse
    better = [tables.rows[row] for row in list_side_rows(claim.better)]
    columns = tables.list_tested_columns(claim, design.columns)
    tests = []
    every_worse: list[Row] = []
    for side in sides:
        worse = [tables.rows[row] for row in list_side_rows(side)]
        every_worse += worse
        for column in columns:
            tests.append(_run_test(better, worse, tables, design, scores, column))
    obstacle = None
    p_value = None
    outcomes = [test.outcome for test in tests if test.outcome]
    if len(outcomes) == len(tests):
        every_row = [*better, *every_worse]
        obstacle = _find_obstacle(every_row, tests, tables, design, scores)
        # a person's reason comes before one that is computed
        obstacle = design.open.get(name, obstacle)
        if obstacle is None and name not in design.not_testable:
            p_value = _combine_p_values(outcomes)
    trained = any(
        tables.systems[row.system].kind == TRAIN for row in (*better, *every_worse)
    )
    return _Judged(
        name,
        claim,
        tuple(tests),
        obstacle,
        p_value,
        ends_unknown=trained and scores.unfinished is None,
        failures=_describe_failures(better, every_worse, design, scores),
    )


def _run_test(
    better: Sequence[Row],
    worse: Sequence[Row],
    tables: Tables,
    design: Design,
    scores: Scores,
    column: Column,
) -> _Test:
    """Test one comparison, on the seeds that all its systems have without failure.

    A side is a row, or for a change two rows, before and after.
    """
    rows = [*better, *worse]
    [test_set] = column.sets
    by_row = [
        scores.select(row.system, row.decoding, test_set, column.measure)
        for row in rows
    ]
    run = [seed for seed in design.seeds if all(seed in by_seed for by_seed in by_row)]
    # a seed goes in all systems: the same seed is compared with itself
    failed = _find_failed_seeds(rows, design, scores)
    seeds = [seed for seed in run if seed not in failed]
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
    in_order = []
    for by_seed in by_row:
        in_order += [by_seed[seed] for seed in seeds]
    errors, words = make_count_arrays(in_order)
    # (trainings, units) -> (rows, seeds, units)
    errors = errors.reshape(len(rows), len(seeds), -1)
    sound = _find_sound_units(errors, words, design.failed_units)
    errors = errors[:, :, sound]
    words = words[sound]
    # the same outputs for each seed, which say nothing about other trainings
    merged = _are_merged(rows, tables, design)
    # both sides are of one kind, so of as many rows
    half = len(better)
    # errors by seed and unit, (seeds, units): for a change, after less before
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
    """Return which units no system fails on, (units,).

    A system fails on a unit with an error rate above the limit in percent, as the mean
    over seeds. ``errors`` is (rows, seeds, units), ``words`` (units,).
    """
    if limit is None:
        return np.ones(len(words), dtype=bool)
    worst = errors.mean(axis=1).max(axis=0)
    # multiplied out: a unit may have no words
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
        if verdict != result.OPEN:
            notes += _describe_scope(judged, design)
            if judged.ends_unknown:
                notes.append(UNRECORDED)
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
    # under the old rule no difference is excluded, as its registration said
    if design.fewest:
        return result.OPEN
    is_within = all(effect.within for effect in effects)
    if is_within and all(test.margin_says for test in judged.tests):
        return result.NO_DIFFERENCE
    if all(effect.excludes for effect in effects):
        return result.EXCLUDED
    return result.OPEN


def _describe_scope(judged: _Judged, design: Design) -> list[str]:
    """Say what a verdict is about, if that is less than the paper's sentence is.

    That one is about all its baselines, other trainings, and other voices.
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
    """Tell whether units alone were tested, on the outputs of one training."""
    return test.enough and test.outcome is not None and test.outcome.seeds < LEAST_SEEDS


def _finish_test(test: _Test, design: Design, times: int) -> result.ClaimTest:
    """Give a test its interval, corrected as its p-value is."""
    against = test.against.name
    if test.outcome is None:
        return result.ClaimTest(test.column, test.paper, None, against)
    interval = None
    p_value = None
    # without one, no effect is within a margin, and none is excluded
    low = -math.inf
    high = math.inf
    if test.enough:
        p_value = test.outcome.p_value
        # Bonferroni's, as wide as the p-value is multiplied
        limits = test.outcome.compute_interval(1 - SIGNIFICANCE / times)
        if limits:
            low = round(100 * limits[0], 4)
            high = round(100 * limits[1], 4)
            interval = (low, high)
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
    """Return how much lower the paper's error rate, or its change, is, in points.

    None if a number is missing.
    """
    ours = [row.paper.get(column.name) for row in better]
    theirs = [row.paper.get(column.name) for row in worse]
    if None in ours or None in theirs:
        return None
    lower = _compute_change([value for value in ours if value is not None])
    higher = _compute_change([value for value in theirs if value is not None])
    return round(higher - lower, 4)


def _compute_change[Value: (float, np.ndarray)](values: Sequence[Value]) -> Value:
    """Return a side's one value, or of two (before, after) how much more is after."""
    if len(values) == 1:
        return values[0]
    before, after = values
    return after - before


def _find_failed_seeds(rows: Sequence[Row], design: Design, scores: Scores) -> set[int]:
    failed: set[int] = set()
    for row in rows:
        of_row = _find_failed(row.system, design, scores)
        failed |= {seed for seed, has_failed in of_row.items() if has_failed}
    return failed


def _find_failed(system: str, design: Design, scores: Scores) -> Mapping[int, bool]:
    """Return for each seed whether the training has failed, by its loss on dev."""
    failed: dict[int, bool] = {}
    if design.failed is None:
        return failed
    losses = scores.dev_losses.get(system, {})
    for seed in design.seeds:
        if seed in losses:
            # not "greater", which is false for NaN: a training that ends with it failed
            failed[seed] = not losses[seed] <= design.failed
    return failed


def _describe_failures(
    better: Sequence[Row], worse: Sequence[Row], design: Design, scores: Scores
) -> str:
    sides = []
    for rows in (better, worse):
        trainings: list[bool] = []
        # a system may have several rows, of other decodings
        for system in {row.system for row in rows}:
            trainings += _find_failed(system, design, scores).values()
        sides.append(trainings)
    if not any(map(any, sides)):
        return ""
    from scipy.stats import fisher_exact  # which takes seconds to import

    # left out of the comparison, they must not be forgotten: a system may win by them
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
        # trainings that give the same output to the letter are one
        if different < LEAST_SEEDS:
            differ = "differs" if different == 1 else "differ"
            return f"{run} seeds, {different} that {differ}"
    units = min(outcome.units for outcome in outcomes)
    # few units must pass the exact test, too, of which no p-value is below 2 / 2^units
    if units < EXACT_BELOW and 2.0 ** (1 - units) >= SIGNIFICANCE:
        fewest = [
            test for test in tests if test.outcome and test.outcome.units == units
        ]
        return format_count(units, fewest[0].unit)
    return _name_unfinished(rows, design, scores)


def _name_unfinished(rows: Sequence[Row], design: Design, scores: Scores) -> str | None:
    """Name the trainings that were best at their last step; None if there are none."""
    unfinished = scores.unfinished or {}
    # with more steps the other system might be the better one
    for row in rows:
        at_end = set(unfinished.get(row.system, ())) & set(design.seeds)
        if at_end:
            number = f"{len(at_end)} of {len(design.seeds)} trainings"
            return f"{row.name}: {number} are best at their last step"
    return None


def _combine_p_values(outcomes: Sequence[CrossedTest]) -> float | None:
    """Return the p-value of a claim on several comparisons.

    It must hold in each and is contradicted by one. So it is the largest, or, times
    their number (Bonferroni), the smallest of those that point the wrong way.
    """
    right: list[float] = []
    wrong: list[float] = []
    for outcome in outcomes:
        if outcome.p_value is not None:
            side = wrong if outcome.difference < 0 else right
            side.append(round(outcome.p_value, 6))
    if wrong:
        return min(1.0, len(outcomes) * min(wrong))
    return max(right)
