"""Scores of a run, as its tables need them: ``scores.csv.gz`` and ``meta.json``.

The first has a line for each unit (speaker or recording) of each test set, the second
quantities such as latency.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    Field,
    NonNegativeInt,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
)

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write, write_json
from espnet_ext.work.settings import StrictMapping, Weight, read_settings

SCORES, META = "scores.csv.gz", "meta.json"
_ADVICE = "write the tables again (the last stage of the recipe)"

Unit = Literal["speaker", "recording", "session"]


class _Line(NamedTuple):
    """A line of the table."""

    system: str
    decoding: str
    set: str
    measure: str
    seed: NonNegativeInt
    unit: str
    errors: NonNegativeInt
    words: NonNegativeInt


_LINES = TypeAdapter(list[_Line])


class Key(NamedTuple):
    """Whose score it is: a system's decoding of a test set, under a measure.

    The measure is None if there is only one.
    """

    system: str
    decoding: str
    test_set: str
    measure: str | None


@dataclass(frozen=True)
class Score:
    """The errors of one training's decoding, by unit.

    ``source`` is where they are from, for messages.
    """

    source: str
    errors: tuple[int, ...]
    words: tuple[int, ...]
    units: tuple[str, ...]

    @cached_property
    def value(self) -> float:
        """The error rate in percent, to four decimals."""
        return round(100 * sum(self.errors) / sum(self.words), 4)


@dataclass(frozen=True)
class Scores:
    """The scores behind tables."""

    rates: Mapping[Key, Mapping[int, Score]]  # by seed in rising order
    # by system, and by the heading of the column
    quantities: Mapping[str, Mapping[str, float]]
    # of each test set: speakers, or recordings if no speaker has several
    units: Mapping[str, Unit]
    normaliser: str | None  # of the texts before they were scored; None if nothing was
    # the lowest, by system and seed
    dev_losses: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    # seeds of trainings that were best at their last step, by system; None: unknown
    unfinished: Mapping[str, tuple[int, ...]] | None = field(default_factory=dict)

    def select(
        self, system: str, decoding: str, test_set: str, measure: str | None
    ) -> Mapping[int, Score]:
        """Return the scores of a decoding by seed; empty if nothing has run."""
        return self.rates.get(Key(system, decoding, test_set, measure), {})


def make_count_arrays(
    scores: Sequence[Score],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return errors of a test set (scores, units), and words of its units (units,)."""
    errors = np.array([score.errors for score in scores], dtype=np.int64)
    # the same for all scores: ``check_same_units`` has refused others
    words = np.array(scores[0].words, dtype=np.int64)
    return errors, words


class Git(StrictMapping):
    """The commit of the checkout, and whether files had been changed."""

    commit: StrictStr
    dirty: StrictBool


class Hardware(StrictMapping):
    """The machine."""

    cpu: StrictStr
    cores: StrictInt | None
    memory_gib: Weight
    gpu: tuple[StrictStr, ...]


class RunRecord(StrictMapping):
    """How scores were made: by one run of the recipe."""

    command: StrictStr
    git: Git | None
    versions: dict[StrictStr, StrictStr | None]
    date: StrictStr
    hardware: Hardware


class OwnRow(StrictMapping):
    """A row of a system of the user's own, which ``tables.yaml`` does not have.

    In a figure it is a point of a ``curve`` at ``x``.
    """

    table: StrictStr
    name: StrictStr
    system: StrictStr
    decoding: StrictStr
    columns: tuple[StrictStr, ...]
    curve: StrictStr = ""
    x: StrictFloat = 0.0


# Results lie in a folder of this name.
_FolderName = Annotated[str, Field(strict=True, pattern=r"^[^/\\]*$")]


class Meta(StrictMapping):
    """``meta.json``: what scores are of, and how they were made."""

    recipe: StrictStr
    corpus: _FolderName
    scale: _FolderName
    tables: tuple[StrictStr, ...]  # the tables that were asked for
    # whether the paper's numbers are of this corpus, or of one that it stands for
    paper: StrictBool = True
    # those that are synthetic, where it differs from the corpus; None: as that is
    synthetic_sets: tuple[StrictStr, ...] | None = None
    units: dict[StrictStr, Unit]  # as :class:`Scores` has it, and the four below
    normaliser: StrictStr | None
    quantities: dict[StrictStr, dict[StrictStr, float]] = {}
    dev_losses: dict[StrictStr, dict[NonNegativeInt, float]] = {}
    # None: not recorded, before November 28, 2026
    unfinished: dict[StrictStr, tuple[NonNegativeInt, ...]] | None = None
    # of a token under the language model, if a table uses one
    lm_perplexity: Weight | None = None
    own_rows: tuple[OwnRow, ...] = ()  # below those of ``tables.yaml``
    runs: tuple[RunRecord, ...]  # the latest first


def check_same_units(rates: Mapping[Key, Mapping[int, Score]]) -> None:
    """Refuse scores of a test set whose units or reference lengths differ.

    Claims are tested on errors unit by unit, so these must be the same in all systems.
    """
    first: dict[tuple[str, str | None], Score] = {}
    for key, by_seed in rates.items():
        for score in by_seed.values():
            same = first.setdefault((key.test_set, key.measure), score)
            if (score.units, score.words) == (same.units, same.words):
                continue
            ours = dict(zip(score.units, score.words, strict=True))
            theirs = dict(zip(same.units, same.words, strict=True))
            differing = [
                unit for unit in (*ours, *theirs) if ours.get(unit) != theirs.get(unit)
            ]
            what = "another order of utterances"
            if differing:
                what = f"other words of {differing[0]}"
            why = (
                "other utterances, references or speakers; score both again on the "
                "same test set"
            )
            raise InputError(f"{score.source}: {what} than in {same.source}: {why}")


def write_scores(folder: str | Path, scores: Scores, meta: Meta) -> None:
    """Write ``scores.csv.gz`` and ``meta.json``. Same scores give same bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_Line._fields)
    for key, by_seed in scores.rates.items():
        for seed, score in by_seed.items():
            for counts in zip(score.units, score.errors, score.words, strict=True):
                writer.writerow((*key[:3], key.measure or "", seed, *counts))
    with atomic_write(Path(folder) / SCORES, "wb") as file:
        # gzip would note the time, and git see a change
        file.write(gzip.compress(text.getvalue().encode("utf-8"), mtime=0))
    content = meta.model_dump(mode="json", exclude=_list_defaults(meta))
    write_json(Path(folder) / META, content)


def _list_defaults(meta: Meta) -> set[str]:
    """Return the fields that are left out of the file: those that say nothing."""
    unsaid = {
        "paper": meta.paper,
        "synthetic_sets": meta.synthetic_sets is None,
        "unfinished": meta.unfinished is None,
        "own_rows": not meta.own_rows,
    }
    return {name for name, left_out in unsaid.items() if left_out}


def read_scores(folder: str | Path) -> tuple[Scores, Meta]:
    """Read what :func:`write_scores` has written.

    Raises InputError: a file is missing or damaged.
    """
    folder = Path(folder)
    meta = read_meta(folder)
    path = folder / SCORES
    rates: dict[Key, dict[int, dict[str, tuple[int, int]]]] = {}
    for number, line in enumerate(_read_lines(path), start=2):  # below the heading
        key = Key(line.system, line.decoding, line.set, line.measure or None)
        counts = rates.setdefault(key, {}).setdefault(line.seed, {})
        # of a table that was put together by hand, or of another meta.json
        if line.unit in counts or line.set not in meta.units:
            text = "a unit given twice, or a test set that meta.json lacks"
            raise InputError(f"{path}: line {number}: {text}; {_ADVICE}")
        counts[line.unit] = line.errors, line.words
    made: dict[Key, dict[int, Score]] = {}
    for key, found in rates.items():
        made[key] = {
            seed: _make_score(folder, key, seed, own) for seed, own in found.items()
        }
    check_same_units(made)
    scores = Scores(
        made,
        meta.quantities,
        meta.units,
        meta.normaliser,
        meta.dev_losses,
        meta.unfinished,
    )
    return scores, meta


def _read_lines(path: Path) -> list[_Line]:
    try:
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
        first, *lines = csv.reader(io.StringIO(text))
        if tuple(first) != _Line._fields:
            raise InputError(
                f"{path}: line 1: not {','.join(_Line._fields)}; {_ADVICE}"
            )
        return _LINES.validate_python(lines)
    except ValidationError as error:
        fault = error.errors()[0]  # its place begins with the index of the line
        raise InputError(
            f"{path}: line {int(fault['loc'][0]) + 2}: {fault['msg']}; {_ADVICE}"
        ) from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(f"{path}: not readable ({error}); {_ADVICE}") from error


def _make_score(
    folder: Path, key: Key, seed: int, counts: Mapping[str, tuple[int, int]]
) -> Score:
    source = (
        f"{folder / SCORES}: {key.system}, {key.decoding}, {key.test_set}, seed {seed}"
    )
    errors, words = zip(*counts.values(), strict=True)
    if not any(words):
        raise InputError(f"{source}: a reference without words; {_ADVICE}")
    return Score(source, errors, words, tuple(counts))


def read_meta(folder: str | Path) -> Meta:
    """Read ``meta.json``."""
    return read_settings(Meta, Path(folder) / META, _ADVICE)
