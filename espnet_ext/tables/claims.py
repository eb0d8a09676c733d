"""Do a paper's claims hold here? A paired bootstrap test over utterances for each test set."""

from pathlib import Path
from typing import Any

from espnet_ext.scoring.bootstrap import paired_bootstrap
from espnet_ext.tables.config import Claim, RowRef, Tables
from espnet_ext.tables.scores import check_same_utterances, pooled_utterances, read_scores

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
SIGNIFICANCE = 0.05


def judge_claim(claim: Claim, tables: Tables, expdir: str | Path) -> dict[str, Any]:
    """Test one claim on each of its test sets.

    Per test set: 'holds' where ``better`` has the lower error rate and the two-sided p-value is below 0.05, 'does not
    hold' where it has the higher one and p is below 0.05, else 'undecided'. The claim holds where it holds on all of
    its test sets, does not hold where it fails on one, and is undecided otherwise; null where a score is missing.

    The seeds that both systems have are pooled: each utterance counts with its errors summed over seeds. So the test
    says whether the difference would stand on other utterances, for these trainings; not whether on other seeds.

    Raises:
        InputError: the two were scored on different utterances or references.
    """
    tests = {name: _test(claim, tables, Path(expdir), name) for name in claim.test_sets}
    verdicts = [test and test["verdict"] for test in tests.values()]
    verdict: str | None = UNDECIDED
    if None in verdicts:
        verdict = None
    elif FAILS in verdicts:
        verdict = FAILS
    elif set(verdicts) == {HOLDS}:
        verdict = HOLDS
    better, worse = _label(claim.better), _label(claim.worse)
    return {"text": claim.text, "better": better, "worse": worse, "verdict": verdict, "tests": tests}


def _test(claim: Claim, tables: Tables, expdir: Path, test_set: str) -> dict[str, Any] | None:
    rows = [tables.row(ref) for ref in (claim.better, claim.worse)]
    better, worse = (read_scores(expdir, row.system, row.decoding, test_set) for row in rows)
    seeds = [seed for seed in better if seed in worse]
    pooled = [pooled_utterances([scores[seed] for seed in seeds]) for scores in (better, worse)]
    if not pooled[0] or not pooled[1]:
        return None
    first = [scores[seeds[0]].path.parent / "per_utterance.tsv" for scores in (better, worse)]
    check_same_utterances(first[0], pooled[0], first[1], pooled[1])
    result = paired_bootstrap(
        [pooled[1][utterance][0] for utterance in pooled[0]],
        [errors for errors, _ in pooled[0].values()],
        [words for _, words in pooled[0].values()],
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


def _label(ref: RowRef) -> str:
    return f"{ref.table}/{ref.row}"
