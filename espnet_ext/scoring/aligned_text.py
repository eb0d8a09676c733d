"""Read ``alignment.txt`` back, as :mod:`espnet_ext.scoring.report` and ``speaker_attributed`` write it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import ErrorRate, count_pairs
from espnet_ext.scoring.report import display_width

Pair = tuple[str | None, str | None]

_UTTERANCE = re.compile(r"id: \((.+)\)")
_COUNTS = re.compile(r"Scores: \(#C #S #D #I\)" + r" ([0-9]{1,15})" * 4)
_SPEAKER = re.compile(r"recording (\S+), speaker (.+?)( \(not in the reference\))?")
_TOO_LONG = "(too long to align: "
_ROWS = ("REF:", "HYP:", "EVAL:")


@dataclass(frozen=True, slots=True)
class Aligned:
    """One block of the file: an utterance, or what one speaker of a recording said.

    Attributes:
        key: the utterance's id, or the recording's.
        speaker: None in a block of an utterance.
        counts: of the block. None for what a speaker said if that was too long to align: the file does not hold them.
        pairs: tokens of reference and hypothesis, None for a gap; empty where they were too long to align.
    """

    key: str
    speaker: str | None
    counts: ErrorRate | None
    pairs: tuple[Pair, ...]


def read_alignment(path: str | Path) -> Iterator[Aligned]:
    """The blocks of an ``alignment.txt``, in its order. A space that was counted stays U+2423, as it is shown.

    Raises:
        InputError: a block that is not as scoring writes it, or whose counts are not its words'; names the line.
    """
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            yield from parse_alignment(file, str(path))
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8, so not as scoring writes it: score again") from None


def parse_alignment(text: Iterable[str], name: str = "alignment") -> Iterator[Aligned]:
    """The blocks of a text that comes in lines, as :func:`read_alignment`; ``name`` is what messages call it.

    >>> from espnet_ext.scoring.report import format_alignment
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
        raise InputError(f"{path}: line {number}: no block of an alignment begins so: score again")
    if len(body) == 1 and body[0].startswith(_TOO_LONG):
        return Aligned(key, speaker, counts, ())
    if len(body) != len(_ROWS) or any(row.split(" ", 1)[0] != name for row, name in zip(body, _ROWS, strict=True)):
        raise InputError(f"{path}: line {number}: the block of {key} lacks a row of {' '.join(_ROWS)}: score again")
    pairs = _pairs(*(row[len(_ROWS[-1]) + 1 :] for row in body))
    if pairs is None or (counts is not None and count_pairs(pairs) != counts):
        raise InputError(f"{path}: line {number}: the rows of {key} do not fit each other or its scores: score again")
    return Aligned(key, speaker, count_pairs(pairs), pairs)


def _pairs(reference: str, hypothesis: str, marks: str) -> tuple[Pair, ...] | None:
    """Tokens by column; None where the rows do not fit. Which asterisks are a gap is told by the mark above them."""
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
