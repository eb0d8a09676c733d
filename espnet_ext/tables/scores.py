"""Scores by seed: read from ``<expdir>/<system>/seed<seed>/decode_<decoding>/<test set>/``, and averaged."""

import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from espnet_ext.errors import InputError
from espnet_ext.scoring.score import WHOLE
from espnet_ext.scoring.score_files import PARTS
from espnet_ext.scoring.significance import mean_interval
from espnet_ext.work.settings import known

_SEED = re.compile(r"seed(0|[1-9][0-9]*)")


class Count(NamedTuple):
    """The errors and words of an utterance, and the unit that it belongs to: its speaker, or itself if unknown."""

    errors: int
    words: int
    unit: str


Counts = Mapping[str, Count]  # by utterance


@dataclass(frozen=True)
class SeedScore:
    """One measure of a ``score.json``: an error rate in percent, and the counts behind it.

    ``utterances`` is the file with the counts of each utterance, which need not be there; ``counts`` is what it holds.
    """

    path: Path
    value: float
    errors: int
    words: int
    unit: str
    normaliser: str
    utterances: Path
    counts: Counts | None = None


class Scores(Protocol):
    """Where tables find their numbers: in a run's folder, or in the file that is kept beside them."""

    def of(self, system: str, decoding: str, test_set: str, measure: str | None) -> dict[int, SeedScore]:
        """The scores of a system's decoding of a test set, by seed in rising order; empty if nothing has run."""

    def quantity(self, system: str, name: str, unit: str | None) -> float | None:
        """A quantity of the system itself, such as its latency; None if it was not measured."""


@dataclass(frozen=True)
class RunScores:
    """The scores and quantities in a run's folder; each file is read once."""

    expdir: Path
    _read: dict[tuple[str, ...], dict[int, SeedScore]] = field(default_factory=dict, repr=False, compare=False)

    def of(self, system: str, decoding: str, test_set: str, measure: str | None) -> dict[int, SeedScore]:
        """As :func:`read_scores`."""
        key = (system, decoding, test_set, measure or "")
        if key not in self._read:
            self._read[key] = read_scores(self.expdir, system, decoding, test_set, measure)
        return self._read[key]

    def quantity(self, system: str, name: str, unit: str | None) -> float | None:
        """As :func:`read_quantity`."""
        return read_quantity(self.expdir / system / f"{name}.json", unit)


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
        score = SeedScore(path, value, errors, words, str(fields["unit"]), normaliser, utterances)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"{path}: not a score file ({error!r}); delete it and score again") from error
    if words < 1 or not math.isclose(value, 100 * errors / words, abs_tol=0.01):
        raise InputError(f"{path}: {errors} errors in {words} words do not give {value}%; delete it and score again")
    return score


def read_scores(
    expdir: str | Path, system: str, decoding: str, test_set: str, measure: str | None = None
) -> dict[int, SeedScore]:
    """The scores of one system's decoding of one test set, by seed in rising order; empty if nothing has run.

    They have the counts of each utterance, where scoring has left them.

    Raises:
        InputError: as :func:`read_score` and :func:`read_utterances`, or counts that do not add up to the score.
    """
    found = {}
    for folder in (Path(expdir) / system).glob("seed*"):
        path = folder / f"decode_{decoding}" / test_set / "score.json"
        if (match := _SEED.fullmatch(folder.name)) and path.is_file():
            found[int(match[1])] = _with_counts(read_score(path, measure))
    return {seed: score for seed, score in sorted(found.items()) if score}


def _with_counts(score: SeedScore | None) -> SeedScore | None:
    if score is None or not score.utterances.is_file():
        return score
    counts = read_utterances(score.utterances)
    totals = sum(count.errors for count in counts.values()), sum(count.words for count in counts.values())
    if totals != (score.errors, score.words):
        raise InputError(
            f"{score.utterances}: {totals[0]} errors in {totals[1]} words, but {score.path} has {score.errors} in "
            f"{score.words}; score again"
        )
    return replace(score, counts=counts)


def read_utterances(path: str | Path) -> dict[str, Count]:
    """Read a ``per_utterance.tsv``: the counts of each utterance.

    Raises:
        InputError: a line that scoring would not write, or an utterance given twice; names file and line.
    """
    counts: dict[str, Count] = {}
    lines = Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    header = lines[0].split("\t")
    missing = {"id", "words", "sub", "del", "ins"} - set(header)
    if missing:
        raise InputError(f"{path}: the header lacks {', '.join(sorted(missing))}; score again")
    for number, line in enumerate(lines[1:], start=2):
        cells = dict(zip(header, line.split("\t"), strict=False))
        try:
            errors, words = sum(int(cells[key]) for key in ("sub", "del", "ins")), int(cells["words"])
            unit = cells["speaker"] if "speaker" in header else cells["id"]
        except (KeyError, ValueError) as error:
            raise InputError(f"{path}: line {number} is not 'id words correct sub del ins'; score again") from error
        if cells["id"] in counts:
            raise InputError(f"{path}: line {number}: utterance {cells['id']} stands twice; score again")
        counts[cells["id"]] = Count(errors, words, unit)
    return counts


def read_quantity(path: str | Path, unit: str | None) -> float | None:
    """Read a quantity of a system, such as ``latency.json`` with ``{"value": 49.0, "unit": "ms"}``.

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
    return value


@dataclass(frozen=True)
class UnitErrors:
    """Errors by seed and unit.

    Attributes:
        errors: (scores, units), in the order of the scores.
        words: reference length of each unit, (units,).
        kind: what a unit is: a ``speaker``, or a ``recording`` if no speaker has several.
    """

    errors: NDArray[np.int64]
    words: NDArray[np.int64]
    kind: str


def errors_by_unit(scores: Sequence[SeedScore]) -> UnitErrors | None:
    """The errors of scores of one test set, summed over each unit; None if the counts of utterances are missing.

    Raises:
        InputError: two scores were made on different utterances, references or speakers; names one.
    """
    tables = [score.counts for score in scores]
    if not tables or not all(tables):
        return None
    first = tables[0] or {}
    for score, table in zip(scores[1:], tables[1:], strict=True):
        check_same_utterances(scores[0].utterances, first, score.utterances, table or {})
    units = {unit: number for number, unit in enumerate(dict.fromkeys(count.unit for count in first.values()))}
    place = np.array([units[count.unit] for count in first.values()])
    errors = np.zeros((len(scores), len(units)), dtype=np.int64)
    words = np.zeros(len(units), dtype=np.int64)
    np.add.at(words, place, [count.words for count in first.values()])
    for row, table in zip(errors, tables, strict=True):
        np.add.at(row, place, [(table or {})[utterance].errors for utterance in first])
    alone = all(count.unit == utterance for utterance, count in first.items()) or len(units) == len(first)
    return UnitErrors(errors, words, "recording" if alone else "speaker")


def check_same_utterances(path_a: Path, a: Counts, path_b: Path, b: Counts) -> None:
    """Refuse two scores of a test set whose utterances, reference lengths or speakers differ; names an utterance."""
    if a.keys() != b.keys():
        only = min(a.keys() ^ b.keys())
        raise InputError(f"{path_a} and {path_b}: utterance {only} is in one only; score both on the same test set")
    for utterance, count in a.items():
        if count.words != b[utterance].words:
            raise InputError(f"{path_a} and {path_b}: utterance {utterance} has different references; score both again")
        if count.unit != b[utterance].unit:
            raise InputError(f"{path_a} and {path_b}: utterance {utterance} has different speakers; score both again")


def cell_here(scores: Mapping[int, SeedScore]) -> dict[str, Any] | None:
    """The result for one cell: the score of a single seed, or the mean over seeds with its spread.

    With several seeds: ``value`` is the mean of the seeds' ``values``; ``spread`` their sample standard deviation;
    ``errors`` and ``words`` their sums. ``ci95`` is the interval of the value over units (speakers or recordings), for
    these trainings, and means the same with one seed as with several; it is null without the counts of utterances. So
    ``ci95`` says how much the value would change with other speakers, and ``spread`` how much one training would change
    with another seed.
    """
    if not scores:
        return None
    counts = {"errors": sum(s.errors for s in scores.values()), "words": sum(s.words for s in scores.values())}
    by_unit = errors_by_unit(list(scores.values()))
    interval = mean_interval(by_unit.errors, by_unit.words) if by_unit else None
    ci95 = None if interval is None else [round(100 * bound, 4) for bound in interval]
    if len(scores) == 1:
        (score,) = scores.values()
        return {"value": score.value, "ci95": ci95, **counts}
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
