"""Whether a paper's claims hold on results: a paired bootstrap test over utterances for each test set."""

from pathlib import Path
from typing import Any

from espnet_ext.results.scores import check_same_utterances, pooled_utterances, read_scores
from espnet_ext.results.tables import Change, Claim, Column, RowRef, Tables, rows_of
from espnet_ext.scoring.bootstrap import paired_bootstrap

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
SIGNIFICANCE = 0.05


def judge_claim(claim: Claim, tables: Tables, expdir: str | Path) -> dict[str, Any]:
    """Test one claim on each of its columns.

    Verdict per column: 'holds' if ``better`` has the lower error rate and the two-sided p-value is below 0.05; 'does
    not hold' if it has the higher error rate and p is below 0.05; otherwise 'undecided'. The claim holds if it holds on
    all of its columns, does not hold if it fails on one, and is otherwise undecided. It is null if a score is missing.

    If ``better`` and ``worse`` are changes of the error rate from one row to another, these changes are compared: a
    difference of differences, on the same draws of utterances for all of the rows.

    The seeds that all of the systems have are pooled: each utterance counts with its errors summed over seeds. So the
    test says whether the difference holds on other utterances for these trainings, not whether it holds on other seeds.

    Raises:
        InputError: the systems were scored on different utterances or references.
    """
    tests = {column.name: _test(claim, tables, Path(expdir), column) for column in claim.columns}
    verdicts = [test and test["verdict"] for test in tests.values()]
    verdict: str | None = UNDECIDED
    if None in verdicts:
        verdict = None
    elif FAILS in verdicts:
        verdict = FAILS
    elif set(verdicts) == {HOLDS}:
        verdict = HOLDS
    return {
        "text": claim.text,
        "compares": "changes" if isinstance(claim.better, Change) else "rates",
        "better": _label(claim.better),
        "worse": _label(claim.worse),
        "verdict": verdict,
        "tests": tests,
    }


def _test(claim: Claim, tables: Tables, expdir: Path, column: Column) -> dict[str, Any] | None:
    sides = rows_of(claim.better), rows_of(claim.worse)
    rows = [tables.row(ref) for side in sides for ref in side]
    assert column.test_set is not None  # tables.yaml is refused where a claim is about a quantity
    scores = [read_scores(expdir, row.system, row.decoding, column.test_set, column.measure) for row in rows]
    seeds = [seed for seed in scores[0] if all(seed in by_seed for by_seed in scores)]
    found = [pooled_utterances([by_seed[seed] for seed in seeds]) for by_seed in scores]
    pooled = [counts for counts in found if counts]
    if len(pooled) < len(found):
        return None
    files = [by_seed[seeds[0]].utterances for by_seed in scores]
    for file, counts in zip(files[1:], pooled[1:], strict=True):
        check_same_utterances(files[0], pooled[0], file, counts)
    better, worse = pooled[: len(sides[0])], pooled[len(sides[0]) :]
    utterances = list(pooled[0])
    result = paired_bootstrap(
        _errors(worse, utterances), _errors(better, utterances), [words for _, words in pooled[0].values()]
    )
    verdict = UNDECIDED
    if result.p_value < SIGNIFICANCE and result.difference != 0:
        verdict = HOLDS if result.difference > 0 else FAILS
    return {
        "verdict": verdict,
        "p_value": result.p_value,
        "lower_by": round(100 * result.difference, 4),  # percent absolute
        "ci95": [round(100 * bound, 4) for bound in result.ci95],
        "seeds": seeds,
    }


def _errors(rows: list[dict[str, tuple[int, int]]], utterances: list[str]) -> list[int]:
    """The errors of each utterance; for two rows (before and after), how many more there are after."""
    if len(rows) == 1:
        return [rows[0][utterance][0] for utterance in utterances]
    before, after = rows
    return [after[utterance][0] - before[utterance][0] for utterance in utterances]


def _label(side: RowRef | Change) -> str:
    return " -> ".join(f"{ref.table}/{ref.row}" for ref in rows_of(side))
