"""Whether a paper's claims hold on results: tests over seeds crossed with units, corrected for the number of claims."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espnet_ext.scoring.significance import EXACT_BELOW, LEAST_SEEDS, count_different, crossed_test, holm
from espnet_ext.tables.claims.counts import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED, mark_of
from espnet_ext.tables.plans.tables import Change, Claim, Column, RowRef, Tables, rows_of
from espnet_ext.tables.scores import Scores, SeedScore, errors_by_unit

SIGNIFICANCE = 0.05
CHANGE = " -> "  # between the rows of a change
NOT_KEPT = "scores by recording are not kept"


def judge_claim(claim: Claim, tables: Tables, scores: Scores, scale: str) -> dict[str, Any]:
    """Test one claim on each of its columns, with the seeds that all of its systems have.

    If ``better`` and ``worse`` are changes of the error rate from one row to another, these changes are compared: a
    difference of differences. A claim with a margin is tested as if ``worse`` had that many errors more.

    Returns:
        The claim as results hold it, without the correction for other claims; :func:`correct` adds that. ``p_value`` is
        of the whole claim, and null if it cannot be tested; ``reason`` then says why. ``own`` is there if the claim is
        not the paper's, ``extended`` if there are more seeds than those with which it had read undecided.

    Raises:
        InputError: the systems were scored on different utterances, references or speakers.
    """
    tests = {column.name: _test(claim, tables, scores, column) for column in claim.columns}
    found = [test for test in tests.values() if test]
    reason = _obstacle(found)
    complete = len(found) == len(tests)
    return {
        "text": claim.text,
        "compares": "changes" if isinstance(claim.better, Change) else "rates",
        "better": _label(claim.better),
        "worse": _label(claim.worse),
        "margin": claim.margin,
        "verdict": UNDECIDED if complete else NOT_RUN,
        "reason": reason if complete else None,
        "p_value": _p_value(found, claim.margin) if complete and reason is None else None,
        "p_corrected": None,
        "tests": tests,
        **_marks(claim, scale, found),
    }


def correct(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Correct the claims of a recipe's tables for their number, and decide them.

    The claims that are tested on one corpus and scale are one family (Holm); a comparison that stands in several tables
    is one member of it, see :func:`_comparison`. A claim holds if it points the right way in each of its columns, and
    is contradicted if it points the wrong way in one, in both cases with a corrected p-value below 0.05.
    """
    families: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    made = [{**result, "claims": [dict(claim) for claim in result["claims"]]} for result in results]
    for result in made:
        families.setdefault((result["recipe"], result["meta"]["corpus"], result["scale"]), []).append(result)
    for family in families.values():
        systems = _systems(family)
        comparisons: dict[str, list[dict[str, Any]]] = {}
        for claim in (claim for result in family for claim in result["claims"] if claim["p_value"] is not None):
            comparisons.setdefault(_comparison(claim, systems), []).append(claim)
        p_values = [claims[0]["p_value"] for claims in comparisons.values()]
        for claims, p_value in zip(comparisons.values(), holm(p_values), strict=True):
            for claim in claims:
                claim["p_corrected"] = p_value
                claim["verdict"] = UNDECIDED
                if p_value < SIGNIFICANCE:
                    claim["verdict"] = CONTRADICTED if _reversed(claim) else HOLDS
    return made


def _systems(family: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """System and decoding of each row, by the name that claims have for it, "table/row"."""
    return {
        f"{result['table']}/{row['name']}": [row["system"], row["decoding"]]
        for result in family
        for row in result["rows"]
    }


def _comparison(claim: Mapping[str, Any], systems: Mapping[str, list[str]]) -> str:
    """What a claim tests: equal for two claims on the same systems and decodings with the same tests.

    A row of a table that is not at hand is only equal to itself, and claims with other seeds are other tests.
    """
    sides = [[systems.get(row, row) for row in claim[side].split(CHANGE)] for side in ("better", "worse")]
    return json.dumps([sides, claim["margin"], claim["tests"]], sort_keys=True)


def verdict_text(claim: Mapping[str, Any]) -> str:
    """A claim's verdict with the reason why it could not be decided, or a dagger if seeds were added after a look.

    >>> verdict_text({"verdict": "undecided", "reason": "2 seeds"})
    'undecided (2 seeds)'
    >>> verdict_text({"verdict": "holds", "reason": None, "extended": 3})
    'holds†'
    """
    return f"{claim['verdict']} ({claim['reason']})" if claim["reason"] else f"{claim['verdict']}{mark_of(claim)}"


def _marks(claim: Claim, scale: str, tests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Whose claim it is, and with how many seeds it had read undecided before more were added."""
    looked = claim.extended.get(scale)
    is_extended = looked is not None and any(len(test["seeds"]) > looked for test in tests)
    return ({"own": True} if claim.own else {}) | ({"extended": looked} if is_extended else {})


def _test(claim: Claim, tables: Tables, scores: Scores, column: Column) -> dict[str, Any] | None:
    sides = rows_of(claim.better), rows_of(claim.worse)
    rows = [tables.row(ref) for side in sides for ref in side]
    assert column.test_set is not None  # tables.yaml is refused where a claim is about a quantity
    by_row = [scores.of(row.system, row.decoding, column.test_set, column.measure) for row in rows]
    seeds = [seed for seed in by_row[0] if all(seed in by_seed for by_seed in by_row)]
    if not seeds:
        return None
    found = [[by_seed[seed] for seed in seeds] for by_seed in by_row]
    by_unit = errors_by_unit([score for row in found for score in row])
    if by_unit is None:
        low, high = (_values(side) for side in (found[: len(sides[0])], found[len(sides[0]) :]))
        different = count_different(np.stack([low, high], axis=1))
        return _summary(float((high - low).mean()), None, None, seeds, different, None, None)
    errors = by_unit.errors.reshape(len(found), len(seeds), -1)
    better, worse = (_errors(side) for side in (errors[: len(sides[0])], errors[len(sides[0]) :]))
    margin = claim.margin / 100
    test = crossed_test(better, worse + margin * by_unit.words, by_unit.words)
    enough = test.seeds >= LEAST_SEEDS
    return _summary(
        100 * (test.difference - margin),
        (test.ci95[0] - margin, test.ci95[1] - margin) if test.ci95 and enough else None,
        test.p_value if enough else None,
        seeds,
        test.seeds,
        test.units,
        by_unit.kind,
    )


def _summary(
    percent: float,
    interval: tuple[float, float] | None,
    p_value: float | None,
    seeds: list[int],
    different: int,
    units: int | None,
    kind: str | None,
) -> dict[str, Any]:
    return {
        "lower_by": round(percent, 4),  # percent absolute
        "ci95": None if interval is None else [round(100 * bound, 4) for bound in interval],
        "p_value": None if p_value is None else round(p_value, 6),
        "seeds": seeds,
        "different_seeds": different,
        "units": units,
        "unit": kind,
    }


def _values(rows: Sequence[Sequence[SeedScore]]) -> NDArray[np.float64]:
    """The rate of each seed in percent; for two rows (before and after), the change."""
    values = [np.array([score.value for score in row]) for row in rows]
    return values[0] if len(values) == 1 else values[1] - values[0]


def _errors(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Errors by seed and unit; for two rows (before and after), how many more there are after."""
    return rows[0] if len(rows) == 1 else rows[1] - rows[0]


def _obstacle(tests: Sequence[Mapping[str, Any]]) -> str | None:
    """Why tests cannot decide; None if they can."""
    if not tests:
        return None
    seeds = min(test["different_seeds"] for test in tests)
    if seeds < LEAST_SEEDS:
        given = min(len(test["seeds"]) for test in tests)
        if given > seeds:
            return f"{given} seeds with the same output" if seeds == 1 else f"{given} seeds, {seeds} that differ"
        return f"{seeds} seed{'' if seeds == 1 else 's'}"
    if any(test["units"] is None for test in tests):
        return NOT_KEPT
    units = min(test["units"] for test in tests)
    if units < EXACT_BELOW and 2.0 ** (1 - units) >= SIGNIFICANCE:
        kind = next(test["unit"] for test in tests if test["units"] == units)
        return f"{units} {kind}{'' if units == 1 else 's'}"
    return None


def _p_value(tests: Sequence[Mapping[str, Any]], margin: float) -> float:
    """The p-value of a claim on several columns.

    If all point the right way: the largest, as the claim must hold on each. Otherwise: the smallest of those that point
    the wrong way, times the number of columns, as one of them suffices to contradict it.
    """
    wrong = [test["p_value"] for test in tests if test["lower_by"] < -margin]
    return min(1.0, len(tests) * min(wrong)) if wrong else max(test["p_value"] for test in tests)


def _reversed(claim: Mapping[str, Any]) -> bool:
    return any(test["lower_by"] < -claim["margin"] for test in claim["tests"].values())


def _label(side: RowRef | Change) -> str:
    return CHANGE.join(f"{ref.table}/{ref.row}" for ref in rows_of(side))
