"""The files of a score: ``score.json``, counts by utterance and speaker, and aligned text, which is also read here."""

import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tabulate import tabulate

from espnet_ext.errors import InputError
from espnet_ext.scoring.bootstrap import REPLICAS
from espnet_ext.scoring.error_rate import MAX_ALIGNMENT_CELLS, ErrorRate, Pair, align, count_pairs
from espnet_ext.scoring.score import WHOLE, Score, split_units
from espnet_ext.work.files import atomic_write, write_json

PARTS = "parts"  # the folder of a score's parts
_UTTERANCE = re.compile(r"id: \((.+)\)")
_COUNTS = re.compile(r"Scores: \(#C #S #D #I\)" + r" ([0-9]{1,15})" * 4)
_SPEAKER = re.compile(r"recording (\S+), speaker (.+?)( \(not in the reference\))?")
_TOO_LONG = "(too long to align: "
_ROWS = ("REF:", "HYP:", "EVAL:")


def summarise(
    score: Score, *, by_speaker: bool = False, replicas: int = REPLICAS, seed: int = 0, normaliser: str = "none"
) -> dict[str, Any]:
    """The content of ``score.json``; rates are in percent, ``words`` is the reference length in ``unit``.

    ``normaliser`` names what was done to both texts before; scoring itself changes nothing. If the score has parts,
    ``measures`` holds the same numbers of each by name; ``value`` and ``ci95`` are null if the reference has no token
    of a part.
    """
    draws = {"by_speaker": by_speaker, "replicas": replicas, "seed": seed}
    return {
        **_figures(score, **draws),
        "normaliser": normaliser,
        "bootstrap": {"replicas": replicas, "seed": seed, "resample": "speaker" if by_speaker else "utterance"},
        **({"measures": {name: _figures(part, **draws) for name, part in score.parts.items()}} if score.parts else {}),
    }


def _figures(score: Score, **draws: Any) -> dict[str, Any]:
    total, known = score.total, score.total.reference_length > 0
    return {
        "unit": score.unit,
        "value": percent(total.rate) if known else None,
        "ci95": [percent(limit) for limit in score.interval(**draws)] if known else None,
        "errors": total.errors,
        "words": total.reference_length,
        "correct": total.correct,
        "substitutions": total.substitutions,
        "deletions": total.deletions,
        "insertions": total.insertions,
        "utterances": len(score.utterances),
        "sentence_error_rate": percent(score.sentence_error_rate),
    }


def measures_table(summary: Mapping[str, Any]) -> str:
    """The whole and its parts as a table, one line each: rate with its interval, tokens of the reference, and errors.

    >>> figures = {"errors": 1, "words": 4, "substitutions": 1, "deletions": 0, "insertions": 0}
    >>> english = {**figures, "value": None, "ci95": None, "words": 0}
    >>> print(measures_table({**figures, "value": 25.0, "ci95": [0.0, 50.0], "measures": {"EN": english}}))
      measure    rate %    95% interval    tokens    errors    sub    del    ins
    ---------  --------  --------------  --------  --------  -----  -----  -----
          All     25.00   0.00 to 50.00         4         1      1      0      0
           EN         -               -         0         1      1      0      0
    """
    counts = ("words", "errors", "substitutions", "deletions", "insertions")
    rows = [
        [name, _rate(figures["value"]), _interval(figures["ci95"]), *(figures[key] for key in counts)]
        for name, figures in {WHOLE: summary, **summary["measures"]}.items()
    ]
    header = ["measure", "rate %", "95% interval", "tokens", "errors", "sub", "del", "ins"]
    return tabulate(rows, header, disable_numparse=True, stralign="right")


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _interval(limits: Sequence[float] | None) -> str:
    return "-" if limits is None else " to ".join(f"{limit:.2f}" for limit in limits)


def percent(fraction: float) -> float:
    """A fraction as percent, to four decimals."""
    return round(100 * fraction, 4)


def write_reports(
    folder: str | Path, score: Score, summary: Mapping[str, Any], *, alignment: bool | Iterable[str] = True
) -> None:
    """Write the reports into ``folder``; ``score.json`` comes last, so if it is there, the rest is complete.

    ``per_speaker.tsv`` is written if speakers are known, ``alignment.txt`` unless switched off; ``alignment`` may also
    be its text. If the score has parts, ``measures.txt`` lists them and ``parts/<name>/`` holds the counts of each, in
    files of the same names. Files of an earlier call that are not written again are deleted.
    """
    folder = Path(folder)
    for name in ("score.json", "per_speaker.tsv", "measures.txt", "alignment.txt"):
        (folder / name).unlink(missing_ok=True)
    if (folder / PARTS).is_dir():
        shutil.rmtree(folder / PARTS)
    _write_tables(folder, score)
    for name, part in score.parts.items():
        _write_tables(folder / PARTS / name, part)
    if score.parts:
        with atomic_write(folder / "measures.txt") as file:
            file.write(measures_table(summary) + "\n")
    if alignment:
        with atomic_write(folder / "alignment.txt") as file:
            file.writelines(alignment_blocks(score) if alignment is True else alignment)
    write_json(folder / "score.json", summary)


def alignment_blocks(score: Score) -> Iterable[str]:
    """One block of text per utterance, like sclite's ``pra`` report."""
    for key, counts in score.utterances.items():
        numbers = f"{counts.correct} {counts.substitutions} {counts.deletions} {counts.insertions}"
        yield f"id: ({key})\nScores: (#C #S #D #I) {numbers}\n"
        if counts.reference_length * counts.hypothesis_length > MAX_ALIGNMENT_CELLS:  # the counts need no table
            yield f"(too long to align: {counts.reference_length} x {counts.hypothesis_length})\n\n"
            continue
        pairs = align(split_units(score.reference[key], score.unit), split_units(score.hypothesis[key], score.unit))
        yield format_alignment(pairs) + "\n"


def format_alignment(pairs: Iterable[Pair]) -> str:
    """Reference, hypothesis and S, D or I for each error, in columns as wide as they look in a terminal.

    A gap is a row of asterisks. Words stay as they are (sclite prints errors in capitals, which hides differences of
    case). A space that was counted as a character shows as U+2423.

    >>> print(format_alignment([("the", "the"), ("cat", "hat"), (None, "sat"), ("down", None)]), end="")
    REF:  the cat *** down
    HYP:  the hat sat ****
    EVAL:     S   I   D
    """
    columns = [_column(reference, hypothesis) for reference, hypothesis in pairs]
    rows = (" ".join(cells) for cells in zip(*columns, strict=True)) if columns else ("", "", "")
    names = ("REF: ", "HYP: ", "EVAL:")
    return "".join(f"{name} {row}".rstrip() + "\n" for name, row in zip(names, rows, strict=True))


@lru_cache(maxsize=100_000)  # the same pairs of words come often
def _column(reference: str | None, hypothesis: str | None) -> tuple[str, str, str]:
    """One pair as three cells of equal width: reference, hypothesis, mark."""
    widest = max(display_width(word) for word in (reference, hypothesis) if word is not None)
    mark = "I" if reference is None else "D" if hypothesis is None else "" if reference == hypothesis else "S"
    return _cell(reference, widest), _cell(hypothesis, widest), _cell(mark, widest)


def _cell(word: str | None, width: int) -> str:
    """A word, or a gap of asterisks, filled up with blanks."""
    if word is None:
        return "*" * width
    shown = "\u2423" if word == " " else word
    return shown + " " * (width - display_width(shown))


def display_width(word: str) -> int:
    """Width in columns of a terminal: Han and other wide characters take two, combining marks none; at least one."""
    if word.isascii():
        return len(word)
    columns = 0
    for character in word:
        if not unicodedata.combining(character):
            columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return max(columns, 1)


def _write_tables(folder: Path, score: Score) -> None:
    _write_counts(folder / "per_utterance.tsv", score.utterances, score.speaker_of)
    if score.speakers:
        _write_counts(folder / "per_speaker.tsv", score.speakers)


def _write_counts(path: Path, counts: Mapping[str, ErrorRate], speaker_of: Mapping[str, str] | None = None) -> None:
    """Write a line for each utterance or speaker; where the speakers of utterances are known, they come last."""
    with atomic_write(path) as file:
        file.write("id\twords\tcorrect\tsub\tdel\tins" + ("\tspeaker\n" if speaker_of else "\n"))
        for key, c in counts.items():
            cells = [key, c.reference_length, c.correct, c.substitutions, c.deletions, c.insertions]
            cells += [speaker_of[key]] if speaker_of else []
            file.write("\t".join(map(str, cells)) + "\n")


@dataclass(frozen=True, slots=True)
class Aligned:
    """One block of the file: an utterance, or what one speaker of a recording said.

    Attributes:
        key: the utterance's id, or the recording's.
        speaker: None in a block of an utterance.
        counts: of the block. None for a speaker whose words were too long to align: the file does not hold them.
        pairs: tokens of reference and hypothesis, None for a gap; empty where they were too long to align.
    """

    key: str
    speaker: str | None
    counts: ErrorRate | None
    pairs: tuple[Pair, ...]


def read_alignment(path: str | Path) -> Iterator[Aligned]:
    """The blocks of an ``alignment.txt``, in order. A space that was counted stays U+2423, as it is shown.

    Raises:
        InputError: a block that scoring would not write, or whose counts do not fit its words; names the line.
    """
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            yield from parse_alignment(file, str(path))
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8, so not written by scoring: score again") from None


def parse_alignment(text: Iterable[str], name: str = "alignment") -> Iterator[Aligned]:
    """The blocks of the lines of a text, as :func:`read_alignment`; ``name`` is what messages call it.

    >>> from espnet_ext.scoring.score_files import format_alignment
    >>> text = "id: (u)\\nScores: (#C #S #D #I) 1 0 0 1\\n" + format_alignment([("a", "a"), (None, "b")]) + "\\n"
    >>> next(parse_alignment(text.splitlines(keepends=True))).pairs
    (('a', 'a'), (None, 'b'))
    """
    lines: list[str] = []
    for number, line in enumerate(text, start=1):
        if line != "\n":
            lines.append(line.removesuffix("\n"))
        elif lines:
            yield _block(lines, name, number - len(lines))
            lines = []
    if lines:
        raise InputError(f"{name}: breaks off in its last block: score again")


def _block(lines: list[str], path: str, number: int) -> Aligned:
    """``number`` is the line on which the block begins."""
    counts: ErrorRate | None = None
    body = lines[1:]
    if (match := _UTTERANCE.fullmatch(lines[0])) and body and (found := _COUNTS.fullmatch(body[0])):
        key, speaker, counts = match[1], None, ErrorRate(*map(int, found.groups()))
        body = body[1:]
    elif match := _SPEAKER.fullmatch(lines[0]):
        key, speaker = match[1], match[2]
    else:
        raise InputError(f"{path}: line {number}: not the beginning of a block of an alignment: score again")
    if len(body) == 1 and body[0].startswith(_TOO_LONG):
        return Aligned(key, speaker, counts, ())
    if len(body) != len(_ROWS) or any(row.split(" ", 1)[0] != name for row, name in zip(body, _ROWS, strict=True)):
        raise InputError(f"{path}: line {number}: the block of {key} lacks a row of {' '.join(_ROWS)}: score again")
    pairs = _pairs(*(row[len(_ROWS[-1]) + 1 :] for row in body))
    if pairs is None or (counts is not None and count_pairs(pairs) != counts):
        raise InputError(f"{path}: line {number}: the rows of {key} do not fit each other or its scores: score again")
    return Aligned(key, speaker, count_pairs(pairs), pairs)


def _pairs(reference: str, hypothesis: str, marks: str) -> tuple[Pair, ...] | None:
    """Tokens by column; None where the rows do not fit. The mark in the same column says which asterisks are a gap."""
    upper, lower = reference.split(), hypothesis.split()
    if len(upper) != len(lower):
        return None
    pairs: list[Pair] = []
    place = 0  # the column's first cell in a terminal: marks are ASCII, so also their index
    for left, right in zip(upper, lower, strict=True):
        mark = marks[place : place + 1].strip()
        place += max(display_width(left), display_width(right)) + 1
        if mark not in ("", "S", "D", "I") or (mark == "" and left != right) or (mark == "S" and left == right):
            return None
        pairs.append((None if mark == "I" else left, None if mark == "D" else right))
    return tuple(pairs)
