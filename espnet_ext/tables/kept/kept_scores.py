"""``scores.json.gz``: the errors of each utterance behind a run's tables, so that anybody can recompute them."""

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import StrictInt, StrictStr, ValidationError

from espnet_ext.errors import InputError
from espnet_ext.tables.kept.result_files import Rate
from espnet_ext.tables.plans.schema import AVERAGE
from espnet_ext.tables.plans.tables import Tables
from espnet_ext.tables.scores import Count, Counts, Scores, SeedScore, check_same_utterances
from espnet_ext.work.files import atomic_write
from espnet_ext.work.settings import StrictMapping

VERSION = 1


class KeptSet(StrictMapping):
    """A test set under one measure: its utterances, their words, and the speaker of each (null: not known)."""

    test_set: StrictStr
    measure: StrictStr | None
    utterances: list[StrictStr]
    words: list[StrictInt]
    speakers: list[StrictStr] | None


class KeptScore(StrictMapping):
    """A decoding by one training; ``errors`` of each utterance of its set, null if only the sums are known."""

    system: StrictStr
    decoding: StrictStr
    test_set: StrictStr
    measure: StrictStr | None
    seed: StrictInt
    unit: StrictStr
    normaliser: StrictStr
    value: Rate
    total_errors: StrictInt
    total_words: StrictInt
    errors: list[StrictInt] | None


class KeptQuantity(StrictMapping):
    """A quantity of a system, such as its latency."""

    system: StrictStr
    name: StrictStr
    unit: StrictStr | None
    value: float


class KeptFile(StrictMapping):
    """All of ``scores.json.gz``."""

    version: Literal[1]
    sets: list[KeptSet]
    scores: list[KeptScore]
    quantities: list[KeptQuantity]


@dataclass(frozen=True)
class KeptScores:
    """The scores in a ``scores.json.gz``, found as tables look for them.

    Attributes:
        by_decoding: by system, decoding, test set and measure: the scores by seed.
        quantities: by system and name: unit and value.
    """

    by_decoding: Mapping[tuple[str, str, str, str | None], Mapping[int, SeedScore]]
    quantities: Mapping[tuple[str, str], tuple[str | None, float]]

    def of(self, system: str, decoding: str, test_set: str, measure: str | None) -> dict[int, SeedScore]:
        """The scores of a system's decoding of a test set, by seed in rising order."""
        return dict(sorted(self.by_decoding.get((system, decoding, test_set, measure), {}).items()))

    def quantity(self, system: str, name: str, unit: str | None) -> float | None:
        """A quantity of a system; None if it was not measured in this unit."""
        found = self.quantities.get((system, name))
        return found[1] if found and found[0] == unit else None


def gather(tables: Tables, scores: Scores) -> dict[str, Any]:
    """The scores that a recipe's tables and claims can need, as ``scores.json.gz`` holds them.

    Raises:
        InputError: two scores of a test set were made on different utterances, references or speakers.
    """
    sets: dict[tuple[str, str | None], tuple[Path, Counts]] = {}
    kept: list[dict[str, Any]] = []
    for system, decoding, test_set, measure in _needed(tables):
        for seed, score in scores.of(system, decoding, test_set, measure).items():
            if score.counts:
                first = sets.setdefault((test_set, measure), (score.utterances, score.counts))
                check_same_utterances(*first, score.utterances, score.counts)
            kept.append(_kept_score(system, decoding, test_set, measure, seed, score, sets))
    return {
        "version": VERSION,
        "sets": [_kept_set(*key, counts) for key, (_, counts) in sets.items()],
        "scores": kept,
        "quantities": _kept_quantities(tables, scores),
    }


def _needed(tables: Tables) -> list[tuple[str, str, str, str | None]]:
    needed: dict[tuple[str, str, str, str | None], None] = {}
    for table in tables.tables.values():
        for row in table.rows:
            for column in table.columns_of(row):
                sets = tables.test_sets if column.test_set == AVERAGE else (column.test_set,)
                needed |= {(row.system, row.decoding, name, column.measure): None for name in sets if name}
    return list(needed)


def _kept_set(test_set: str, measure: str | None, counts: Counts) -> dict[str, Any]:
    speakers = [count.unit for count in counts.values()]
    return {
        "test_set": test_set,
        "measure": measure,
        "utterances": list(counts),
        "words": [count.words for count in counts.values()],
        "speakers": None if speakers == list(counts) else speakers,
    }


def _kept_score(
    system: str,
    decoding: str,
    test_set: str,
    measure: str | None,
    seed: int,
    score: SeedScore,
    sets: Mapping[tuple[str, str | None], tuple[Path, Counts]],
) -> dict[str, Any]:
    errors = None
    if score.counts:
        errors = [score.counts[utterance].errors for utterance in sets[test_set, measure][1]]
    return {
        "system": system,
        "decoding": decoding,
        "test_set": test_set,
        "measure": measure,
        "seed": seed,
        "unit": score.unit,
        "normaliser": score.normaliser,
        "value": score.value,
        "total_errors": score.errors,
        "total_words": score.words,
        "errors": errors,
    }


def _kept_quantities(tables: Tables, scores: Scores) -> list[dict[str, Any]]:
    columns = {
        (row.system, column.name, column.unit)
        for table in tables.tables.values()
        for row in table.rows
        for column in table.columns_of(row)
        if column.test_set is None
    }
    found = []
    for system, name, unit in sorted(columns):
        value = scores.quantity(system, name, unit)
        if value is not None:
            found.append({"system": system, "name": name, "unit": unit, "value": value})
    return found


def merge(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """Put kept scores together; where both have a score, it is the new one.

    A test set that has changed takes its old scores with it: they belong to other utterances. A system that has no
    score left then takes its quantities with it.
    """
    if old is None:
        return dict(new)
    sets = {(each["test_set"], each["measure"]): each for each in old["sets"]}
    fresh = {(each["test_set"], each["measure"]): each for each in new["sets"]}
    gone = {key for key, each in fresh.items() if sets.get(key, each) != each}
    key = ("system", "decoding", "test_set", "measure", "seed")
    scores = {
        tuple(each[name] for name in key): each
        for each in [*old["scores"], *new["scores"]]
        if each in new["scores"] or (each["test_set"], each["measure"]) not in gone
    }
    ended = {each["system"] for each in old["scores"]} - {each["system"] for each in scores.values()}
    still = [each for each in old["quantities"] if each["system"] not in ended]
    quantities = {(each["system"], each["name"]): each for each in [*still, *new["quantities"]]}
    return {
        "version": VERSION,
        "sets": list((sets | fresh).values()),
        "scores": list(scores.values()),
        "quantities": list(quantities.values()),
    }


def write_scores(path: str | Path, kept: Mapping[str, Any]) -> None:
    """Write a ``scores.json.gz``. The same scores give the same bytes."""
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    with atomic_write(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.write(text.encode("utf-8"))


def read_scores_file(path: str | Path) -> dict[str, Any]:
    """Read a ``scores.json.gz``.

    Raises:
        InputError: no such file, one that is damaged, or keys and values that it cannot have.
    """
    try:
        kept = json.loads(gzip.decompress(Path(path).read_bytes()).decode("utf-8"))
        KeptFile.model_validate(kept)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file: the tables beside it say that their scores are kept there") from None
    except (OSError, EOFError, zlib.error, ValueError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path}: not the scores of a run ({first}); write the tables again") from error
    return kept


def kept_scores(path: str | Path) -> KeptScores:
    """The scores in a ``scores.json.gz``, found as tables look for them.

    Raises:
        InputError: as :func:`read_scores_file`, or lists whose lengths do not fit each other.
    """
    path = Path(path)
    kept = read_scores_file(path)
    sets = {(each["test_set"], each["measure"]): each for each in kept["sets"]}
    found: dict[tuple[str, str, str, str | None], dict[int, SeedScore]] = {}
    for each in kept["scores"]:
        name = each["system"], each["decoding"], each["test_set"], each["measure"]
        score = SeedScore(
            path / "/".join(map(str, (*name[:2], f"seed{each['seed']}", name[2]))),
            each["value"],
            each["total_errors"],
            each["total_words"],
            each["unit"],
            each["normaliser"],
            path,
            _counts(path, each, sets),
        )
        found.setdefault(name, {})[each["seed"]] = score
    quantities = {(each["system"], each["name"]): (each["unit"], each["value"]) for each in kept["quantities"]}
    return KeptScores(found, quantities)


def _counts(path: Path, score: Mapping[str, Any], sets: Mapping[Any, Mapping[str, Any]]) -> Counts | None:
    errors: Sequence[int] | None = score["errors"]
    where = f"{path}: {score['system']}, seed {score['seed']}, {score['test_set']}"
    counts = None
    if errors is not None:
        its_set = sets.get((score["test_set"], score["measure"]))
        if its_set is None:
            raise InputError(f"{where}: its test set is not in the file; write the tables again")
        units = its_set["speakers"] or its_set["utterances"]
        lists = its_set["utterances"], errors, its_set["words"], units
        if len({len(each) for each in lists}) > 1:
            raise InputError(f"{where}: another number of utterances than its test set; write the tables again")
        counts = {utterance: Count(*numbers) for utterance, *numbers in zip(*lists, strict=True)}
        sums = sum(errors), sum(its_set["words"])
        if sums != (score["total_errors"], score["total_words"]):
            raise InputError(f"{where}: its utterances have {sums[0]} errors in {sums[1]} words, not what it says")
    value = 100 * score["total_errors"] / score["total_words"] if score["total_words"] else None
    if value is None or abs(value - score["value"]) > 1e-3:
        raise InputError(f"{where}: {score['total_errors']} errors do not give {score['value']}%")
    return counts
