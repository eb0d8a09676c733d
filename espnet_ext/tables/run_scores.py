"""Scores as a run leaves them in its folder: read, checked, and gathered for tables."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from espnet_ext.errors import InputError
from espnet_ext.scoring.score import WHOLE
from espnet_ext.scoring.score_files import PARTS
from espnet_ext.tables.reading import Column, Tables
from espnet_ext.tables.score_table import Key, Score, Scores, Unit, check_same_units

_SEED = re.compile(r"seed(0|[1-9][0-9]*)")


class Count(NamedTuple):
    """The errors and words of an utterance, and the unit that it belongs to: its speaker, or itself if unknown."""

    errors: int
    words: int
    unit: str


def gather(tables: Tables, names: Iterable[str], expdir: str | Path) -> Scores:
    """Gather the scores that some tables and their claims need from a run's folder.

    Scores are in ``<system>/seed<N>/decode_<decoding>/<test set>``, quantities in ``<system>/<quantity>.json``. What is
    not there, or lacks a measure, has not run.

    Raises:
        InputError: a file that is no score, or scores that cannot be compared: they differ in normalisation or unit, or
            were made on different utterances, references or speakers.
    """
    expdir = Path(expdir)
    rates: dict[Key, dict[int, Score]] = {}
    quantities, units = {}, {}
    first: _Scored | None = None
    for system, decoding, column in _needed(tables, names):
        if not column.sets:
            value = read_quantity(expdir / system / f"{column.name}.json", column.unit)
            if value is not None:
                quantities[system, column.name, column.unit or ""] = value
            continue
        for test_set in column.sets:
            key = Key(system, decoding, test_set, column.measure)
            for seed, scored in {} if key in rates else _of_seeds(expdir, key).items():
                first = first or scored
                if (scored.token, scored.normaliser) != (first.token, first.normaliser):
                    text = f"another unit or text normalisation than in {first.score.source}"
                    raise InputError(f"{scored.score.source}: {text}; score both again in the same way")
                rates.setdefault(key, {})[seed] = scored.score
                units[test_set] = scored.unit
    check_same_units(rates)
    return Scores(rates, quantities, units, first.normaliser if first else None)


def _needed(tables: Tables, names: Iterable[str]) -> Iterator[tuple[str, str, Column]]:
    """System, decoding and column of each cell of some tables, of their baselines, and of what their claims test."""
    for name in names:
        table = tables.tables[name]
        cells = [(row, tables.columns[column]) for row in table.rows for column in row.paper]
        if table.baseline:
            cells += [(tables.rows[table.baseline], column) for column in table.columns]
        for claim in table.claims:
            cells += [(tables.rows[row], column) for row in claim.rows for column in table.tested(claim)]
        for row, column in cells:
            yield row.system, row.decoding, column


@dataclass(frozen=True)
class _Scored:
    score: Score
    token: str
    normaliser: str
    unit: Unit


def _of_seeds(expdir: Path, key: Key) -> dict[int, _Scored]:
    found = {}
    for folder in (expdir / key.system).glob("seed*"):
        path = folder / f"decode_{key.decoding}" / key.test_set / "score.json"
        if (match := _SEED.fullmatch(folder.name)) and path.is_file() and (scored := _read_scored(path, key.measure)):
            found[int(match[1])] = scored
    return dict(sorted(found.items()))


def _read_scored(path: Path, measure: str | None) -> _Scored | None:
    summary = read_score(path, measure)
    if summary is None:
        return None
    utterances = path.with_name("per_utterance.tsv")
    if measure and measure != WHOLE:
        utterances = path.parent / PARTS / measure / utterances.name
    counts = read_utterances(utterances)
    sums: dict[str, list[int]] = {}
    for count in counts.values():
        total = sums.setdefault(count.unit, [0, 0])
        total[0] += count.errors
        total[1] += count.words
    errors, words = zip(*sums.values(), strict=True) if sums else ((), ())
    if (sum(errors), sum(words)) != (summary.errors, summary.words):
        raise InputError(
            f"{utterances}: {sum(errors)} errors in {sum(words)} words, but {path} has {summary.errors} in "
            f"{summary.words}; score again"
        )
    alone = len(sums) == len(counts)
    score = Score(str(utterances), errors, words, tuple(sums))
    return _Scored(score, summary.unit, summary.normaliser, "recording" if alone else "speaker")


@dataclass(frozen=True)
class Summary:
    """One measure of a ``score.json``: rate in percent, counts, what is counted (``word``), and normalisation."""

    value: float
    errors: int
    words: int
    unit: str
    normaliser: str


def read_score(path: str | Path, measure: str | None = None) -> Summary | None:
    """Read a ``score.json``, or one of its measures.

    Returns:
        None if the score has no such measure, or the reference no token of it, so that there is no error rate.

    Raises:
        InputError: not a score file, or counts that do not give the value (a file that was cut off or edited).
    """
    try:
        fields = json.loads(Path(path).read_text(encoding="utf-8"))
        normaliser = str(fields["normaliser"])
        if measure:
            measures = {WHOLE: fields, **fields["measures"]} if "measures" in fields else {}
            if measure not in measures or measures[measure]["words"] == 0:
                return None
            fields = measures[measure]
        value, errors, words = float(fields["value"]), int(fields["errors"]), int(fields["words"])
        summary = Summary(value, errors, words, str(fields["unit"]), normaliser)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a score file ({error!r}); delete it and score again") from error
    if words < 1 or not math.isclose(value, 100 * errors / words, abs_tol=0.01):
        raise InputError(f"{path}: {errors} errors in {words} words do not give {value}%; delete it and score again")
    return summary


def read_utterances(path: str | Path) -> dict[str, Count]:
    """Read a ``per_utterance.tsv``: the counts of each utterance.

    Raises:
        InputError: no such file, a line that scoring would not write, or an utterance given twice; names the line.
    """
    counts: dict[str, Count] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file beside the score; score again") from None
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
