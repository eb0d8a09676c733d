"""Compare systems on one reference: error rates, and a paired test for each two.

P-values are corrected by Holm's method. With three seeds or more a system the test is
that of claims (``docs/statistics.md``); with fewer it covers units only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.scoring.alignments import (
    BY_SPEAKER,
    Aligned,
    Measure,
    Row,
    align_to,
    make_reference_rows,
)
from espnet_ext.scoring.error_rate import ZERO, ErrorRate, count_pairs
from espnet_ext.scoring.normalise import find_normaliser
from espnet_ext.scoring.recordings import load_for_scoring
from espnet_ext.scoring.score import (
    advise_on_writing,
    count_writing_errors,
    find_speaker,
    refuse,
)
from espnet_ext.scoring.score_files import convert_to_percent
from espnet_ext.scoring.significance import (
    EXACT_BELOW,
    LEAST_SEEDS,
    correct_by_holm,
    estimate_interval,
    run_crossed_test,
    run_outputs_test,
)
from espnet_ext.text.transcripts import AUTO, Transcripts

VERSION = 2  # of compare.json
LEVEL = 0.05  # of a corrected p-value, below which a system is called better

Errors = NDArray[np.int64]


@dataclass(frozen=True)
class System:
    """A system: its name, and one hypothesis file for each of its trainings."""

    name: str
    files: tuple[Path, ...]


@dataclass(frozen=True)
class Compared:
    """What a comparison found."""

    result: dict[str, Any]  # the content of compare.json
    rows: Sequence[Row]  # of the reference
    aligned: Mapping[str, Sequence[Aligned]]  # by system and file


def parse_system(text: str) -> System:
    """Parse a system as the command line has it.

    Raises InputError: it has no name, or no file.
    """
    name, _, files = text.partition("=")
    paths = tuple(Path(file) for file in files.split(",") if file)
    if not name or not paths:
        raise InputError(
            f"--system {text}: write NAME=FILE, or NAME=FILE,FILE,... with one "
            "file per seed"
        )
    return System(name, paths)


def compare_systems(
    reference: Path,
    systems: Sequence[System],
    measure: Measure,
    *,
    utt2spk: Path | None = None,
    form: str = AUTO,
    reference_form: str = AUTO,
) -> Compared:
    """Compare systems, each on one hypothesis file or on one for each of its trainings.

    ``utt2spk`` is a table of utterance (or recording) and speaker: speakers are then
    the units of the test. Raises InputError: fewer than two systems, names that are not
    unique, numbers of files that do not fit, or what reading and aligning refuse.
    """
    _check_systems(systems)
    paths = [path for system in systems for path in system.files]
    loaded = load_for_scoring(
        reference,
        paths,
        by_speaker=measure.rate in BY_SPEAKER,
        reference_form=reference_form,
        form=form,
    )
    real = loaded.reference
    rows = make_reference_rows(real, measure)
    aligned: dict[str, list[Aligned]] = {}
    hypotheses = iter(loaded.hypotheses)  # in the order of ``paths``
    for system in systems:
        own = [next(hypotheses) for _ in system.files]
        aligned[system.name] = [align_to(real, rows, each, measure) for each in own]
    kind, unit_of = _find_units(rows, real, utt2spk)
    names = list(dict.fromkeys(unit_of.values()))
    place = {name: number for number, name in enumerate(names)}
    units = np.array([place[unit_of[row.whole]] for row in rows])
    words = _sum_by_unit(units, [len(row.tokens) for row in rows])
    totals: dict[str, list[ErrorRate]] = {}  # by system, of each training
    errors: dict[str, Errors] = {}  # by system, (trainings, units)
    for name, files in aligned.items():
        totals[name] = []
        by_unit = []
        for found in files:
            counts = [count_pairs(found[row.key]) for row in rows]
            totals[name].append(sum(counts, start=ZERO))
            by_unit.append(_sum_by_unit(units, [each.errors for each in counts]))
        errors[name] = np.stack(by_unit)
    pairs = []
    for a, b in combinations(systems, 2):
        pairs.append(_compare_pair(a.name, b.name, errors, words, kind))
    _, normaliser = find_normaliser(measure.normaliser)
    result = {
        "version": VERSION,
        "rate": measure.rate,
        "normaliser": normaliser,
        "collar": measure.collar if measure.rate == "tcpwer" else None,
        "reference": {
            "path": str(reference),
            "format": real.format,
            "holds": f"{_name_wholes(real)}s",
            "number": len(unit_of),
            "empty": len(_find_empty(rows)),
            "tokens": int(words.sum()),
        },
        "unit": {"kind": kind, "names": names},
        "words": words.tolist(),
        "systems": [
            _describe_system(system, totals[system.name], errors[system.name], words)
            for system in systems
        ],
        "pairs": _correct_p_values(pairs),
        "warnings": [*loaded.warnings, *_find_warnings(real, paths, rows, aligned)],
    }
    return Compared(result, rows, aligned)


def _name_wholes(transcripts: Transcripts) -> str:
    """Return what a file has ids of."""
    return "utterance" if transcripts.of_utterances else "recording"


def _find_empty(rows: Sequence[Row]) -> list[str]:
    """Return the utterances or recordings in which nothing is said."""
    spoken = {row.whole for row in rows if row.tokens}
    wholes = dict.fromkeys(row.whole for row in rows)
    return [whole for whole in wholes if whole not in spoken]


def _find_units(
    rows: Sequence[Row], reference: Transcripts, utt2spk: Path | None
) -> tuple[str, dict[str, str]]:
    """Return what the units of the test are, and that of each utterance or recording.

    A unit is the speaker if that is known: if a table names them, or there is one in
    each recording and one has several.
    """
    wholes = list(dict.fromkeys(row.whole for row in rows))
    if utt2spk is not None:
        table = read_table(utt2spk)
        speaker_of = {key: find_speaker(table, key) for key in wholes}
        lost = [key for key in wholes if not speaker_of[key]]
        fault = f"of {reference.path} has no speaker: add it"
        refuse(lost, str(utt2spk), fault, _name_wholes(reference))
        return "speaker", speaker_of
    speakers: dict[str, set[str]] = {}
    for row in rows:
        speakers.setdefault(row.whole, set()).add(row.speaker)
    if all(len(names) == 1 and "" not in names for names in speakers.values()):
        unit_of = {key: name for key, (name,) in speakers.items()}
        # Otherwise a speaker is a recording, and is called what it was given as.
        if len(set(unit_of.values())) < len(wholes):
            return "speaker", unit_of
    return _name_wholes(reference), {whole: whole for whole in wholes}


def _sum_by_unit(units: NDArray[np.int64], numbers: Sequence[int]) -> Errors:
    """Sum a number for each row by unit, (units,)."""
    sums = np.zeros(units.max() + 1, dtype=np.int64)
    # Not sums[units] += numbers, which adds only once for a unit of several rows.
    np.add.at(sums, units, numbers)
    return sums


def _describe_system(
    system: System, totals: Sequence[ErrorRate], errors: Errors, words: Errors
) -> dict[str, Any]:
    """Return what ``compare.json`` holds of a system; ``errors`` are (seeds, units)."""
    values = [convert_to_percent(own.sum() / words.sum()) for own in errors]
    interval = estimate_interval(errors, words)
    return {
        "name": system.name,
        "files": [str(path) for path in system.files],
        "value": round(fmean(values), 4),
        "spread": round(stdev(values), 4) if len(values) > 1 else None,
        "ci95": interval and [convert_to_percent(limit) for limit in interval],
        "values": values,
        "counts": [asdict(total) for total in totals],
        "errors": errors.tolist(),
    }


def _compare_pair(
    a: str, b: str, errors: Mapping[str, Errors], words: Errors, unit: str
) -> dict[str, Any]:
    """Test two systems; the result is yet without correction and verdict."""
    # A system of one file is the same in each pair of trainings.
    first, second = np.broadcast_arrays(errors[a], errors[b])
    test = run_outputs_test(second, first, words)
    covered: list[str] = []  # systems of which the test covers other trainings
    if test.seeds >= LEAST_SEEDS:
        test = run_crossed_test(second, first, words)
        covered = [name for name in (a, b) if len(errors[name]) > 1]
    return {
        "a": a,
        "b": b,
        "difference": convert_to_percent(test.difference),  # rate of a minus that of b
        "ci95": test.ci95 and [convert_to_percent(limit) for limit in test.ci95],
        "p_value": None if test.p_value is None else round(test.p_value, 6),
        "p_corrected": None,
        "least_p": test.least_p,
        "better": None,
        "seeds": len(first),
        "different_seeds": test.seeds,
        "units": test.units,
        "unit": unit,
        "trainings": covered,
        "exact": test.units < EXACT_BELOW,
    }


def _correct_p_values(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Correct the p-values of tests for their number, and name the better system."""
    tested = [pair for pair in pairs if pair["p_value"] is not None]
    p_values = correct_by_holm([pair["p_value"] for pair in tested])
    for pair, p_value in zip(tested, p_values, strict=True):
        pair["p_corrected"] = round(p_value, 6)
        if p_value < LEVEL:
            pair["better"] = pair["b"] if pair["difference"] > 0 else pair["a"]
    return pairs


def _find_warnings(
    reference: Transcripts,
    hypotheses: Sequence[Path],
    rows: Sequence[Row],
    aligned: Mapping[str, Sequence[Aligned]],
) -> list[str]:
    """Return what people should know of alignments before they believe the rates."""
    warnings = []
    empty = _find_empty(rows)
    if empty:
        what = f"{len(empty)} {_name_wholes(reference)}s ({empty[0]})"
        warnings.append(
            f"{reference.path}: nothing is said in {what}: what is heard there is "
            "inserted"
        )
    for path, found in zip(hypotheses, chain(*aligned.values()), strict=True):
        pairs = list(chain(*found.values()))
        errors = count_pairs(pairs).errors
        advice = advise_on_writing(count_writing_errors(pairs), errors)
        if advice:
            warnings.append(f"{path}: {advice}")
    return warnings


def _check_systems(systems: Sequence[System]) -> None:
    names = [system.name for system in systems]
    if len(systems) < 2:
        raise InputError(
            "give two systems or more: --system NAME=FILE --system NAME=FILE"
        )
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two systems are called {name}: give each its own name")
    # Files of several systems are paired by seed; a single one is paired with all.
    numbers = {len(system.files) for system in systems} - {1}
    if len(numbers) > 1:
        counts = [f"{system.name} has {len(system.files)}" for system in systems]
        given = ", ".join(counts)
        raise InputError(
            f"{given} files: give each system one file per seed, in the same "
            "order, or a single file"
        )
