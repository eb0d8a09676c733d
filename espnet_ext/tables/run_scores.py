"""Scores as a run leaves them in its folder: read, checked, and gathered for tables."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator

from espnet_ext.errors import InputError
from espnet_ext.scoring.score import WHOLE
from espnet_ext.scoring.score_files import PARTS
from espnet_ext.tables.reading import Column, Tables
from espnet_ext.tables.score_table import Key, Score, Scores, Unit, check_same_units
from espnet_ext.work.settings import read_settings

REPORT = "training.json"  # of the training of a rescorer
# Relative fall of the loss that more steps would continue; a schedule that ends at a
# learning rate of zero leaves a smaller one to chance.
STILL_FALLING = 0.01
AGAIN = "delete it and run its step again"
_SEED = re.compile(r"seed(0|[1-9][0-9]*)")
_LOSS = re.compile(r"epoch results: .*\[valid\] .*?\bloss=([-+.0-9a-z]+)")


class _Counts(BaseModel):
    """What tables need of a ``score.json``, or of one of its measures."""

    unit: str  # what is counted: ``word``
    errors: int
    words: int


class _Summary(_Counts):
    normaliser: str
    measures: dict[str, _Counts] | None = None


class _Report(BaseModel):
    """What tables need of a rescorer's ``training.json``."""

    history: Annotated[list[dict[str, Any]], Field(min_length=1)]

    @property
    def chosen_by(self) -> str:
        """The value of each evaluation that chose the model."""
        return "dev_wer" if "dev_wer" in self.history[0] else "dev_loss"

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        for number, values in enumerate(self.history):
            if not isinstance(values.get(self.chosen_by), int | float):
                raise ValueError(f"history[{number}]: no number {self.chosen_by}")
        return self


class _Quantity(BaseModel):
    """A quantity of a system, such as ``{"value": 49.0, "unit": "ms"}``."""

    value: float
    unit: str


def gather_scores(
    tables: Tables,
    names: Iterable[str],
    expdir: str | Path,
    tags: tuple[str, str] = ("", ""),
) -> Scores:
    """Gather the scores that some tables and their claims need from a run's folder.

    Scores are in ``<system>/seed<N>/decode_<decoding>/<test set>``, quantities in
    ``<system>/<quantity>.json``. What is not there, or lacks a measure, has not run.
    ``tags`` end the names of systems' and of decodings' folders. Raises InputError for
    scores that cannot be compared: they differ in normalisation or unit, or in
    utterances, references or speakers.
    """
    expdir = Path(expdir)
    of_systems, of_decodings = tags
    rates: dict[Key, dict[int, Score]] = {}
    quantities: dict[str, dict[str, float]] = {}
    units = {}
    first: _Scored | None = None
    for system, decoding, column in _list_needed_cells(tables, names):
        folder = expdir / f"{system}{of_systems}"
        if not column.sets:
            value = _read_quantity(folder, column)
            if value is not None:
                quantities.setdefault(system, {})[column.heading] = value
        for test_set in column.sets:
            key = Key(system, decoding, test_set, column.measure)
            # several tables, or an average, may need the same scores
            if key in rates:
                continue
            place = Path(f"decode_{decoding}{of_decodings}") / test_set
            for seed, scored in _read_seeds(folder, place, column.measure).items():
                first = first or scored
                _check_comparable(scored, first)
                rates.setdefault(key, {})[seed] = scored.score
                units[test_set] = scored.unit
    check_same_units(rates)
    lowest = {}
    unfinished = {}
    for system in dict.fromkeys(key.system for key in rates):
        folder = expdir / f"{system}{of_systems}"
        by_seed = _read_dev_losses(folder)
        if by_seed:
            lowest[system] = {
                seed: _find_lowest(course) for seed, course in by_seed.items()
            }
        seeds = _find_unfinished(folder, by_seed)
        if seeds:
            unfinished[system] = seeds
    normaliser = first.normaliser if first else None
    return Scores(rates, quantities, units, normaliser, lowest, unfinished)


def _read_quantity(folder: Path, column: Column) -> float | None:
    """Read a quantity of a system; None if it was not measured."""
    path = folder / f"{column.name}.json"
    if not path.is_file():
        return None
    quantity = read_settings(_Quantity, path, AGAIN)
    if quantity.unit != column.unit:
        raise InputError(
            f"{path}: in {quantity.unit}, but the table has {column.unit}; measure "
            "again"
        )
    return quantity.value


def _check_comparable(scored: "_Scored", first: "_Scored") -> None:
    # rates of words and of characters, or of texts with and without punctuation, would
    # stand in one table
    if (scored.token, scored.normaliser) != (first.token, first.normaliser):
        raise InputError(
            f"{scored.score.source}: another unit or text normalisation than in "
            f"{first.score.source}; score both again in the same way"
        )


def _read_dev_losses(folder: Path) -> dict[int, list[float]]:
    """Return the losses on the dev sets of each training by ESPnet, by seed."""
    found = {}
    # the log, since ESPnet's checkpoint, which has them too, needs torch to be read
    for path in folder.glob("seed*/log/train.log"):
        text = path.read_text(encoding="utf-8", errors="replace")
        losses = [float(loss) for loss in _LOSS.findall(text)]
        seed = _read_seed(path.parents[1])
        if losses and seed is not None:
            found[seed] = losses
    return dict(sorted(found.items()))


def _read_seed(folder: Path) -> int | None:
    """Return the seed of a folder ``seed<N>``; None for another folder."""
    match = _SEED.fullmatch(folder.name)
    return int(match[1]) if match else None


def _find_lowest(losses: Sequence[float]) -> float:
    """Return the lowest loss; "nan" is higher than any number."""
    # a NaN is the one value that differs from itself
    return min(losses, key=lambda loss: (loss != loss, loss))


def _find_unfinished(
    folder: Path, losses: Mapping[int, Sequence[float]]
) -> tuple[int, ...]:
    """Return the seeds whose training was best at its last step.

    ``losses`` are those of ESPnet's trainings; a rescorer's has a report, with the word
    error rate on dev where that chose the model.
    """
    seeds = {seed for seed, course in losses.items() if _is_falling(course)}
    for path in folder.glob(f"seed*/{REPORT}"):
        report = read_settings(_Report, path, AGAIN)
        seed = _read_seed(path.parent)
        course = [values[report.chosen_by] for values in report.history]
        if seed is not None and _is_falling(course):
            seeds.add(seed)
    return tuple(sorted(seeds))


def _is_falling(losses: Sequence[float]) -> bool:
    """Tell whether the last loss is the lowest, by more than chance."""
    *earlier, last = losses
    return bool(earlier) and last < (1 - STILL_FALLING) * _find_lowest(earlier)


def _list_needed_cells(
    tables: Tables, names: Iterable[str]
) -> Iterator[tuple[str, str, Column]]:
    """Yield system, decoding and column of each cell that tables need.

    Tables need their own cells, and those of baselines and claims in other tables.
    """
    for name in names:
        table = tables.tables[name]
        cells = []
        for row in table.rows:
            # in a figure, a row has the column of its curve alone
            cells += [(row, tables.columns[column]) for column in row.paper]
        if table.baseline:
            baseline = tables.rows[table.baseline]
            cells += [(baseline, column) for column in table.columns]
        for claim in tables.claims.values():
            if claim.table != name:
                continue
            tested = tables.list_tested_columns(claim)
            for place in claim.rows:
                cells += [(tables.rows[place], column) for column in tested]
        for row, column in cells:
            yield row.system, row.decoding, column


@dataclass(frozen=True)
class _Scored:
    score: Score
    token: str
    normaliser: str
    unit: Unit


def _read_seeds(folder: Path, place: Path, measure: str | None) -> dict[int, _Scored]:
    """Read the scores of a system, by the seed of its training.

    ``place`` is the decoding of a test set, below the folder of a seed.
    """
    found = {}
    for training in folder.glob("seed*"):
        path = training / place / "score.json"
        seed = _read_seed(training)
        if seed is None or not path.is_file():
            continue
        scored = _read_scored(path, measure)
        if scored is not None:
            found[seed] = scored
    return dict(sorted(found.items()))


def _read_scored(path: Path, measure: str | None) -> _Scored | None:
    """Read a score, or one of its measures.

    None if it lacks that measure, or if the reference has no token of it.
    """
    summary = read_settings(_Summary, path, AGAIN)
    folder = path.parent
    counts: _Counts | None = summary
    if measure not in (None, WHOLE):
        counts = (summary.measures or {}).get(str(measure))
        folder = path.parent / PARTS / str(measure)
    if counts is None:
        return None
    # the whole rate is a measure only where there are others beside it
    if measure and not (summary.measures and counts.words):
        return None
    utterances = folder / "per_utterance.tsv"
    unit, sums = _sum_units(utterances)
    errors = tuple(own for own, _ in sums.values())
    words = tuple(own for _, own in sums.values())
    # a file of another scoring would give another interval than belongs to the score
    if not counts.words or (sum(errors), sum(words)) != (counts.errors, counts.words):
        raise InputError(
            f"{utterances}: {sum(errors)} errors in {sum(words)} words, but {path} has "
            f"{counts.errors} in {counts.words}; score again"
        )
    # units in the order of the file: those of two systems are compared one by one
    score = Score(str(utterances), errors, words, tuple(sums))
    return _Scored(score, counts.unit, summary.normaliser, unit)


def _sum_units(path: Path) -> tuple[Unit, dict[str, tuple[int, int]]]:
    """Sum errors and words of a ``per_utterance.tsv`` by unit.

    A unit is a session or a speaker, otherwise an utterance.
    """
    sums: dict[str, tuple[int, int]] = {}
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            for line in lines:
                # several speakers of a session make errors together, so it comes first
                unit = line.get("session", line.get("speaker", line["id"]))
                errors, words = sums.get(unit, (0, 0))
                errors += sum(int(line[kind]) for kind in ("sub", "del", "ins"))
                sums[unit] = (errors, words + int(line["words"]))
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file beside the score; score again"
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: line {lines.line_num} is not 'id words correct sub del "
            "ins'; score again"
        ) from error
    if "session" in (lines.fieldnames or ()):
        return "session", sums
    # below the header each unit has one line: speakers are recordings, or not known
    has_one_each = len(sums) == lines.line_num - 1
    return "recording" if has_one_each else "speaker", sums
