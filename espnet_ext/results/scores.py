"""Read the scores in ``<expdir>/<system>/seed<seed>/decode_<decoding>/<test set>/``; average over seeds."""

import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.results.schema import known
from espnet_ext.scoring.bootstrap import bootstrap_interval
from espnet_ext.scoring.score import WHOLE
from espnet_ext.scoring.score_files import PARTS

_SEED = re.compile(r"seed(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class SeedScore:
    """One measure of a ``score.json``: an error rate in percent, its 95% interval, and the counts behind it.

    ``utterances`` is the file with the counts of each utterance, which need not be there.
    """

    path: Path
    value: float
    ci95: tuple[float, float] | None
    errors: int
    words: int
    unit: str
    normaliser: str
    utterances: Path


def read_score(path: str | Path, measure: str | None = None) -> SeedScore | None:
    """Read a ``score.json``, or one of its measures.

    Returns:
        None if the reference has no token of the measure, so that it has no error rate.

    Raises:
        InputError: not a score file, a score without this measure, or counts that do not give the value (a file that
            was cut off or edited).
    """
    path = Path(path)
    utterances = path.parent / "per_utterance.tsv"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        normaliser = str(fields["normaliser"])
        if measure:
            measures = {WHOLE: fields, **fields.get("measures", {})}
            if measure not in measures or "measures" not in fields:
                raise InputError(f"{path}: no measure {measure!r}; {known(list(measures))}; score with `score mer`")
            fields = measures[measure]
            if measure != WHOLE:
                utterances = path.parent / PARTS / measure / utterances.name
            if fields["words"] == 0:
                return None
        value, errors, words = float(fields["value"]), int(fields["errors"]), int(fields["words"])
        ci95 = None if fields.get("ci95") is None else (float(fields["ci95"][0]), float(fields["ci95"][1]))
        score = SeedScore(path, value, ci95, errors, words, str(fields["unit"]), normaliser, utterances)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"{path}: not a score file ({error!r}); delete it and score again") from error
    if words < 1 or not math.isclose(value, 100 * errors / words, abs_tol=0.01):
        raise InputError(f"{path}: {errors} errors in {words} words do not give {value}%; delete it and score again")
    return score


def read_scores(
    expdir: str | Path, system: str, decoding: str, test_set: str, measure: str | None = None
) -> dict[int, SeedScore]:
    """The scores of one system's decoding of one test set, by seed in rising order; empty if nothing has run."""
    found = {}
    for folder in (Path(expdir) / system).glob("seed*"):
        path = folder / f"decode_{decoding}" / test_set / "score.json"
        if (match := _SEED.fullmatch(folder.name)) and path.is_file():
            found[int(match[1])] = read_score(path, measure)
    return {seed: score for seed, score in sorted(found.items()) if score}


def read_utterances(path: str | Path) -> dict[str, tuple[int, int]]:
    """Read a ``per_utterance.tsv``: utterance id -> (errors, words).

    Raises:
        InputError: a line that scoring would not write, or an utterance given twice; names file and line.
    """
    counts: dict[str, tuple[int, int]] = {}
    lines = Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    header = lines[0].split("\t")
    missing = {"id", "words", "sub", "del", "ins"} - set(header)
    if missing:
        raise InputError(f"{path}: the header lacks {', '.join(sorted(missing))}; score again")
    for number, line in enumerate(lines[1:], start=2):
        cells = dict(zip(header, line.split("\t"), strict=False))
        try:
            errors, words = sum(int(cells[key]) for key in ("sub", "del", "ins")), int(cells["words"])
        except (KeyError, ValueError) as error:
            raise InputError(f"{path}: line {number} is not 'id words correct sub del ins'; score again") from error
        if cells["id"] in counts:
            raise InputError(f"{path}: line {number}: utterance {cells['id']} stands twice; score again")
        counts[cells["id"]] = (errors, words)
    return counts


def read_quantity(path: str | Path, unit: str | None) -> dict[str, Any] | None:
    """Read a quantity of a system, such as ``latency.json`` with ``{"value": 49.0, "unit": "ms"}``, as a cell.

    Returns:
        None if there is no such file.

    Raises:
        InputError: the file holds no quantity, or one in another unit.
    """
    path = Path(path)
    if not path.is_file():
        return None
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        value, found = float(fields["value"]), fields["unit"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a quantity ({error!r}); delete it and measure again") from error
    if found != unit:
        raise InputError(f"{path}: in {found}, but the table has {unit}; delete it and measure again")
    return {"value": value, "ci95": None, "errors": None, "words": None}


def pooled_utterances(scores: Sequence[SeedScore]) -> dict[str, tuple[int, int]] | None:
    """Errors and words of each utterance, summed over scores of one test set (seeds); None if a file is missing.

    Raises:
        InputError: two scores were made on different utterances or references; names one.
    """
    paths = [score.utterances for score in scores]
    if not paths or not all(path.is_file() for path in paths):
        return None
    tables = [read_utterances(path) for path in paths]
    for path, table in zip(paths[1:], tables[1:], strict=True):
        check_same_utterances(paths[0], tables[0], path, table)
    return {
        utterance: (sum(table[utterance][0] for table in tables), sum(table[utterance][1] for table in tables))
        for utterance in tables[0]
    }


def check_same_utterances(
    path_a: Path, a: Mapping[str, tuple[int, int]], path_b: Path, b: Mapping[str, tuple[int, int]]
) -> None:
    """Refuse two scores of a test set whose utterances or reference lengths differ; the message names an utterance."""
    if a.keys() != b.keys():
        only = min(a.keys() ^ b.keys())
        raise InputError(f"{path_a} and {path_b}: utterance {only} is in one only; score both on the same test set")
    for utterance, (_, words) in a.items():
        if words != b[utterance][1]:
            raise InputError(f"{path_a} and {path_b}: utterance {utterance} has different references; score both again")


def cell_here(scores: Mapping[int, SeedScore]) -> dict[str, Any] | None:
    """The result for one cell: the score of a single seed, or the mean over seeds with its spread.

    With several seeds: ``value`` is the mean of the seeds' ``values``; ``spread`` their sample standard deviation;
    ``errors`` and ``words`` their sums; ``ci95`` the bootstrap interval of that mean over utterances, each utterance
    with its errors summed over seeds (null without ``per_utterance.tsv``). So ``ci95`` says how much the mean of these
    seeds would change with other utterances, and ``spread`` how much one training would change with another seed.
    """
    if not scores:
        return None
    counts = {"errors": sum(s.errors for s in scores.values()), "words": sum(s.words for s in scores.values())}
    if len(scores) == 1:
        (score,) = scores.values()
        return {"value": score.value, "ci95": list(score.ci95) if score.ci95 else None, **counts}
    utterances = pooled_utterances(list(scores.values()))
    ci95 = None
    if utterances:
        low, high = bootstrap_interval(*zip(*utterances.values(), strict=True))
        ci95 = [round(100 * low, 4), round(100 * high, 4)]
    return {**_mean({seed: score.value for seed, score in scores.items()}), "ci95": ci95, **counts}


def average_here(per_test_set: Sequence[Mapping[int, SeedScore]]) -> dict[str, Any] | None:
    """The mean of the test sets' error rates, over the seeds that have run on all of them; None if none has.

    It is not the error rate of the pooled test sets, so it has no counts and no interval.
    """
    seeds = [seed for seed in per_test_set[0] if all(seed in scores for scores in per_test_set)]
    if not seeds:
        return None
    values = {seed: statistics.fmean(scores[seed].value for scores in per_test_set) for seed in seeds}
    return {**_mean(values), "ci95": None, "errors": None, "words": None}


def _mean(values: Mapping[int, float]) -> dict[str, Any]:
    if len(values) == 1:
        return {"value": round(next(iter(values.values())), 4)}
    return {
        "value": round(statistics.fmean(values.values()), 4),
        "spread": round(statistics.stdev(values.values()), 4),
        "values": {str(seed): round(value, 4) for seed, value in values.items()},
    }
