"""Systems compared on one reference: error rates, the paired test for each two of them, and Holm's correction.

With three seeds or more a system the test is that of the project's claims (``docs/statistics.md``): it covers other
trainings and other units. With fewer it covers other units only, for the outputs at hand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
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
    overlapped_share,
    reference_rows,
    split_channels,
)
from espnet_ext.scoring.error_rate import ZERO, ErrorRate, Pair, count_pairs
from espnet_ext.scoring.mixed import MANDARIN_ENGLISH, count_by_language
from espnet_ext.scoring.normalise import normaliser_called
from espnet_ext.scoring.score_files import percent
from espnet_ext.scoring.significance import (
    EXACT_BELOW,
    LEAST_SEEDS,
    count_different,
    crossed_test,
    holm,
    mean_interval,
    outputs_test,
)
from espnet_ext.text.transcripts import AUTO, Transcripts, read_transcripts

VERSION = 1  # of compare.json
LEVEL = 0.05
MUCH_CASE = 0.05  # share of words that differ in case only, from which on a warning is due
MUCH_OVERLAP = 0.01

Errors = NDArray[np.int64]
Counter = Callable[[Sequence[Pair]], ErrorRate]


@dataclass(frozen=True)
class System:
    """A system: its name, and one hypothesis file for each of its trainings."""

    name: str
    files: tuple[Path, ...]


@dataclass(frozen=True)
class Compared:
    """What a comparison found.

    Attributes:
        result: the content of ``compare.json``.
        rows: of the reference.
        aligned: by system, and in each by file.
    """

    result: dict[str, Any]
    rows: Sequence[Row]
    aligned: Mapping[str, Sequence[Aligned]]


def parse_system(text: str) -> System:
    """A system as the command line has it.

    >>> parse_system("base=a.txt,b.txt")
    System(name='base', files=(PosixPath('a.txt'), PosixPath('b.txt')))

    Raises:
        InputError: no name, or no file.
    """
    name, _, files = text.partition("=")
    paths = [Path(file) for file in files.split(",") if file]
    if not name or not paths:
        raise InputError(f"--system {text}: write NAME=FILE, or NAME=FILE,FILE,... with one file per seed")
    return System(name, tuple(paths))


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

    Args:
        utt2spk: table of utterance (or recording) and speaker: speakers are then the units of the test.
        form, reference_form: formats of the files.

    Raises:
        InputError: less than two systems, names that are not unique, numbers of files that do not fit, or what reading
            and aligning refuse.
    """
    _check_systems(systems)
    paths = [path for system in systems for path in system.files]
    files = [read_transcripts(reference, reference_form), *(read_transcripts(path, form) for path in paths)]
    if measure.rate not in BY_SPEAKER:
        files = split_channels(files)
    real, heard = files[0], iter(files[1:])
    rows = reference_rows(real, measure)
    aligned = {
        system.name: [align_to(real, rows, next(heard), measure) for _ in system.files] for system in systems
    }  # fmt: skip
    units = _Units.of(rows, real, utt2spk)
    result = {
        "version": VERSION,
        "rate": measure.rate,
        "normaliser": normaliser_called(measure.normaliser)[1],
        "collar": measure.collar if measure.rate == "tcpwer" else None,
        "reference": {
            "path": str(reference),
            "format": real.format,
            "holds": units.whole,
            "number": len(units.of_whole),
            "empty": len(_empty(rows)),
            "tokens": sum(len(row.tokens) for row in rows),
        },
        "unit": {"kind": units.kind, "names": units.names},
        **_judged(systems, aligned, units, rows, count_pairs),
        "measures": {
            name: _judged(systems, aligned, units, rows, partial(_of_language, name=name))
            for name in MANDARIN_ENGLISH.names
            if measure.rate == "mer" and any(_of_language(_said(row), name=name).correct for row in rows)
        },
    }
    result["warnings"] = _warnings(real, files[1:], rows, systems, aligned, measure)
    return Compared(result, rows, aligned)


def _check_systems(systems: Sequence[System]) -> None:
    names = [system.name for system in systems]
    if len(systems) < 2:
        raise InputError("give two systems or more: --system NAME=FILE --system NAME=FILE")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two systems are called {name}: give each its own name")
    seeds = {len(system.files) for system in systems} - {1}
    if len(seeds) > 1:
        given = ", ".join(f"{system.name} has {len(system.files)}" for system in systems)
        raise InputError(f"{given} files: give each system one file per seed, in the same order, or a single file")


def _empty(rows: Sequence[Row]) -> list[str]:
    """Utterances or recordings in which nothing is said."""
    spoken = {row.whole for row in rows if row.tokens}
    return [whole for whole in dict.fromkeys(row.whole for row in rows) if whole not in spoken]


@dataclass(frozen=True)
class _Units:
    """The units of the test.

    Attributes:
        kind: ``speaker``, ``recording`` or ``utterance``.
        whole: what a file names, ``utterances`` or ``recordings``.
        of_whole: number of the unit, by utterance or recording.
        names: of the units.
    """

    kind: str
    whole: str
    of_whole: Mapping[str, int]
    names: list[str]

    @classmethod
    def of(cls, rows: Sequence[Row], reference: Transcripts, utt2spk: Path | None) -> "_Units":
        wholes = list(dict.fromkeys(row.whole for row in rows))
        whole = "utterance" if reference.of_utterances else "recording"
        if utt2spk is not None:
            table = read_table(utt2spk)
            lost = [key for key in wholes if not table.get(key)]
            if lost:
                raise InputError(f"{utt2spk}: {whole} {lost[0]} of {reference.path} has no speaker: add it")
            kind, unit_of = "speaker", {key: table[key] for key in wholes}
        else:
            speakers: dict[str, set[str]] = {}
            for row in rows:
                speakers.setdefault(row.whole, set()).add(row.speaker)
            one_each = all(len(names) == 1 and "" not in names for names in speakers.values())
            unit_of = {key: next(iter(speakers[key])) if one_each else key for key in wholes}
            kind = "speaker" if one_each and len(set(unit_of.values())) < len(wholes) else whole
            unit_of = unit_of if kind == "speaker" else dict(zip(wholes, wholes, strict=True))
        names = list(dict.fromkeys(unit_of.values()))
        place = {name: number for number, name in enumerate(names)}
        return cls(kind, f"{whole}s", {key: place[name] for key, name in unit_of.items()}, names)

    def unit_of_row(self, rows: Sequence[Row]) -> dict[str, int]:
        """The number of the unit by key of a row."""
        return {row.key: self.of_whole[row.whole] for row in rows}


def _said(row: Row) -> list[Pair]:
    """A row aligned to itself."""
    return [(token, token) for token in row.tokens]


def _of_language(pairs: Sequence[Pair], name: str) -> ErrorRate:
    """Count the tokens of one language; an insertion counts for that of the inserted token."""
    return count_by_language(pairs)[name]


def _judged(
    systems: Sequence[System],
    aligned: Mapping[str, Sequence[Aligned]],
    units: _Units,
    rows: Sequence[Row],
    count: Counter,
) -> dict[str, Any]:
    """Rates and tests of what ``count`` counts of aligned tokens."""
    unit_of = units.unit_of_row(rows)
    length = len(units.names)
    words = np.zeros(length, dtype=np.int64)
    for row in rows:
        words[unit_of[row.key]] += count(_said(row)).correct
    errors: dict[str, Errors] = {}
    totals: dict[str, list[ErrorRate]] = {}
    for system in systems:
        errors[system.name] = np.zeros((len(system.files), length), dtype=np.int64)
        totals[system.name] = []
        for by_unit, rows_of in zip(errors[system.name], aligned[system.name], strict=True):
            total = ZERO
            for key, pairs in rows_of.items():
                found = count(pairs)
                by_unit[unit_of[key]] += found.errors
                total += found
            totals[system.name].append(total)
    tests = [_pair(a.name, b.name, errors, words, units.kind) for a, b in combinations(systems, 2)]
    tested = [pair for pair in tests if pair["p_value"] is not None]
    for pair, corrected in zip(tested, holm([pair["p_value"] for pair in tested]), strict=True):
        better = pair["b"] if pair["difference"] > 0 else pair["a"]
        pair |= {"p_corrected": round(corrected, 6), "better": better if corrected < LEVEL else None}
    return {
        "words": words.tolist(),
        "systems": [_system(system, totals[system.name], errors[system.name], words) for system in systems],
        "pairs": tests,
    }


def _system(system: System, totals: Sequence[ErrorRate], errors: Errors, words: Errors) -> dict[str, Any]:
    values = [percent(errors[seed].sum() / words.sum()) for seed in range(len(totals))]
    interval = mean_interval(errors, words)
    return {
        "name": system.name,
        "files": [str(path) for path in system.files],
        "value": round(fmean(values), 4),
        "spread": round(stdev(values), 4) if len(values) > 1 else None,
        "ci95": interval and [percent(limit) for limit in interval],
        "values": values,
        "counts": [asdict(total) for total in totals],
        "errors": errors.tolist(),
    }


def _pair(a: str, b: str, errors: Mapping[str, Errors], words: Errors, unit: str) -> dict[str, Any]:
    first, second = np.broadcast_arrays(errors[a], errors[b])
    different = count_different(np.concatenate([first, second], axis=1))
    several = [name for name in (a, b) if len(errors[name]) > 1]
    trainings = min(len(first), different) >= LEAST_SEEDS
    test = (crossed_test if trainings else outputs_test)(second, first, words)
    return {
        "a": a,
        "b": b,
        "difference": percent(test.difference),  # rate of a minus rate of b
        "ci95": test.ci95 and [percent(limit) for limit in test.ci95],
        "p_value": None if test.p_value is None else round(test.p_value, 6),
        "p_corrected": None,
        "least_p": test.least_p,
        "better": None,
        "seeds": len(first),
        "different_seeds": different,
        "units": test.units,
        "unit": unit,
        "trainings": several if trainings else [],  # of which systems the test covers other trainings
        "exact": test.units < EXACT_BELOW,
    }


def _warnings(
    reference: Transcripts,
    hypotheses: Sequence[Transcripts],
    rows: Sequence[Row],
    systems: Sequence[System],
    aligned: Mapping[str, Sequence[Aligned]],
    measure: Measure,
) -> list[str]:
    """What people should know before they believe the numbers."""
    warnings = []
    empty = _empty(rows)
    if empty:
        what = "utterances" if reference.of_utterances else "recordings"
        warnings.append(
            f"{reference.path}: nothing is said in {len(empty)} {what} ({empty[0]}): what is heard there is inserted"
        )
    known = {row.whole for row in rows}
    for each in hypotheses:
        silent = known - {turn.recording for turn in each.segments}
        if silent and not each.of_utterances:
            names = f"{len(silent)} recordings ({min(silent)})"
            warnings.append(f"{each.path}: has no word of {names}: counted as silence")
    for system in systems:
        for path, rows_of in zip(system.files, aligned[system.name], strict=True):
            pairs = [pair for found in rows_of.values() for pair in found]
            cased = sum(a != b and a is not None and b is not None and a.lower() == b.lower() for a, b in pairs)
            if cased >= MUCH_CASE * max(1, sum(a is not None for a, _ in pairs)):
                warnings.append(f"{path}: {cased} substitutions differ only in case: try --normaliser lower")
    overlap = overlapped_share(reference.segments)
    if measure.rate not in BY_SPEAKER and overlap > MUCH_OVERLAP:
        warnings.append(
            f"{reference.path}: {100 * overlap:.0f} % of its speech is overlapped, so the order of words is unclear: "
            "tcpwer or cpwer count each speaker"
        )
    return warnings
