"""N-best lists, which a first pass gives to a second one.

They are typed objects here, and JSONL on disk, one utterance a line::

    {"utt_id": "1-2-3", "ref": "THE CAT", "hyps": [{"text": "THE CAT", "score": -1.5,
    "scores": {"ctc": -0.9}}, ...]}

A list without hypotheses is refused: who heard nothing writes one hypothesis with empty
text. So are scores that are not finite: one NaN would decide a whole list. ``ref`` is
null or absent without a transcript, and only functions that count errors need it;
against an empty reference each word is an insertion.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, StrictFloat, ValidationError
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_text_lines
from espnet_ext.work.files import atomic_write_text, parse_json, refuse_twins
from espnet_ext.work.settings import find_fault


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis of an utterance."""

    text: str  # words separated by blanks, in the casing that is scored; may be empty
    # Natural logarithm of the probability by the first pass, all its parts together.
    score: float
    # Named parts of it, or added later: ctc, gpt2.
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class NBest:
    """The hypotheses of one utterance, best first. The order is the ranking."""

    utt_id: str
    hyps: tuple[Hypothesis, ...]
    ref: str | None = None

    def __post_init__(self) -> None:
        if not self.utt_id or any(blank in self.utt_id for blank in " \t\r\n"):
            raise InputError(
                f"{self.utt_id!r} cannot be an utterance's id: ids are not empty "
                "and hold no white space"
            )
        if not self.hyps:
            raise InputError(
                f"{self.utt_id}: no hypotheses: decode it again, or give it one "
                "with empty text if nothing was said"
            )
        for number, hyp in enumerate(self.hyps, start=1):
            for name, value in (("score", hyp.score), *hyp.scores.items()):
                if not math.isfinite(value):
                    raise InputError(
                        f"{self.utt_id}: hypothesis {number}: {name} is {value}: "
                        "score it again, or take the "
                        "hypothesis out of the list"
                    )


def read_nbest(path: str | Path) -> list[NBest]:
    """Read lists from JSONL, plain or gzipped, in the file's order.

    Blank lines are skipped.
    """
    return parse_lists(read_text_lines(Path(path)), path)


def parse_lists(lines: Iterable[str], path: str | Path) -> list[NBest]:
    """Parse lists, each a line of JSON in ``path``, which messages name.

    Blank lines are skipped.
    """
    lists: dict[str, NBest] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            nbest = _parse_record(parse_json(line, refuse_twins))
            if nbest.utt_id in lists:
                raise InputError(f"{nbest.utt_id} comes twice: keep one of its lists")
        except ValueError as error:
            raise InputError(
                f"{path}: line {number} is not JSON ({error}): write one list per "
                "line, or name the --format of a "
                "decoder's lists"
            ) from None
        except InputError as error:
            raise InputError(f"{path}: line {number}: {error}") from None
        lists[nbest.utt_id] = nbest
    return list(lists.values())


def write_nbest(path: str | Path, lists: Iterable[NBest]) -> None:
    """Write lists as JSONL, gzipped if its name ends with .gz, in the order given.

    The file is whole or as it was.
    """
    seen: set[str] = set()
    with atomic_write_text(path) as file:
        for nbest in lists:
            if nbest.utt_id in seen:
                raise InputError(
                    f"{path}: {nbest.utt_id} comes twice: keep one of its lists"
                )
            seen.add(nbest.utt_id)
            record = asdict(nbest)
            line = json.dumps(record, ensure_ascii=False, allow_nan=False)
            file.write(line + "\n")
        if not seen:
            raise InputError(f"{path}: there is nothing to write: no N-best lists")


def count_word_errors(nbest: NBest) -> list[int]:
    """Count the word errors of each hypothesis as it is: P3's E(y_i, y*)."""
    reference = split_reference(nbest)
    return [Levenshtein.distance(reference, hyp.text.split()) for hyp in nbest.hyps]


def count_errors_of_lists(lists: Sequence[NBest]) -> list[list[int]]:
    """Count the word errors of many lists at once, on all cores."""
    references: list[list[str]] = []
    hypotheses: list[list[str]] = []
    for nbest in lists:
        reference = split_reference(nbest)
        for hyp in nbest.hyps:
            references.append(reference)
            hypotheses.append(hyp.text.split())
    # One flat list of pairs, which rapidfuzz's C++ shares among its threads.
    distances = cpdist(
        references, hypotheses, scorer=Levenshtein.distance, workers=-1
    ).tolist()
    errors: list[list[int]] = []
    begin = 0
    for nbest in lists:
        end = begin + len(nbest.hyps)
        errors.append(distances[begin:end])
        begin = end
    return errors


def split_reference(nbest: NBest) -> list[str]:
    """Split the reference into words, of which there may be none.

    A list without reference is refused.
    """
    if nbest.ref is None:
        raise InputError(f"{nbest.utt_id}: no reference, so errors cannot be counted")
    return nbest.ref.split()


def require_references(lists: Iterable[NBest], path: str | Path, option: str) -> None:
    """Refuse lists of ``path`` without reference: ``option`` is what gives them."""
    for nbest in lists:
        try:
            split_reference(nbest)
        except InputError as error:
            raise InputError(
                f"{path}: {error}: give {option}, or leave it out"
            ) from None


def select_part(nbest: NBest, name: str) -> list[float]:
    """Return a named part of each hypothesis's score; InputError if one lacks it."""
    for number, hyp in enumerate(nbest.hyps, start=1):
        if name not in hyp.scores:
            known = ", ".join(hyp.scores) or "none at all"
            raise InputError(
                f"{nbest.utt_id}: hypothesis {number} has no scores named {name}; "
                f"it has {known}"
            )
    return [hyp.scores[name] for hyp in nbest.hyps]


def find_shared_lists(lists: Iterable[NBest], others: Iterable[NBest]) -> list[NBest]:
    """Find the lists that are among others too, with the same hypotheses.

    A file has several paths, and copies: only what is in them tells.
    """
    known = {nbest.utt_id: nbest.hyps for nbest in others}
    return [nbest for nbest in lists if known.get(nbest.utt_id) == nbest.hyps]


def drop_repeated_texts(nbest: NBest) -> NBest:
    """Drop hypotheses whose text came before: the best of each text stays."""
    # Lists are best first, and a dict keeps the order of insertion.
    best: dict[str, Hypothesis] = {}
    for hyp in nbest.hyps:
        best.setdefault(hyp.text, hyp)
    return replace(nbest, hyps=tuple(best.values()))


def join_lines(text: str) -> str:
    """Join the lines of a text to one, with single blanks between its words."""
    return " ".join(text.split())


def make_list(
    where: str | Path,
    utterance: str,
    hyps: Sequence[Hypothesis],
    ref: str | None = None,
) -> NBest:
    """Make a list that was read from ``where``, which messages name."""
    try:
        return NBest(utterance, tuple(hyps), None if ref is None else join_lines(ref))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def rank_lists(
    where: str | Path, found: Mapping[str, Mapping[int, Hypothesis]]
) -> list[NBest]:
    """Make lists, sorted by utterance, of hypotheses by their ranks: 1, 2 ..."""
    for utterance, ranks in found.items():
        if ranks and sorted(ranks) != list(range(1, len(ranks) + 1)):
            raise InputError(
                f"{where}: {utterance}: ranks are {sorted(ranks)}, not 1 to "
                f"{len(ranks)}: decode again"
            )
    return [
        make_list(where, utterance, [ranks[rank] for rank in sorted(ranks)])
        for utterance, ranks in sorted(found.items())
    ]


class _Hypothesis(BaseModel):
    text: str
    score: StrictFloat
    scores: dict[str, StrictFloat] | None = None


class _List(BaseModel):
    utt_id: str
    ref: str | None = None
    hyps: list[_Hypothesis]


def _parse_record(record: Any) -> NBest:
    if not isinstance(record, dict) or not isinstance(record.get("utt_id"), str):
        raise InputError(
            "not an N-best list: each line must be an object with utt_id, ref and hyps"
        )
    try:
        found = _List.model_validate(record)
    except ValidationError as error:
        raise InputError(f"{record['utt_id']}: {find_fault(record, error)}") from None
    # Blanks do not distinguish hypotheses: they must not make two of one text.
    hyps = [
        Hypothesis(join_lines(hyp.text), hyp.score, hyp.scores or {})
        for hyp in found.hyps
    ]
    ref = None if found.ref is None else join_lines(found.ref)
    return NBest(found.utt_id, tuple(hyps), ref)
