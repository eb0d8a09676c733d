"""``alignment.txt``: a block of aligned text for each utterance, or for what each speaker of a recording said.

It is like sclite's ``pra`` report, but words stay as they are (sclite prints errors in capitals, which hides
differences of case).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import ErrorRate, Pair, align, count_pairs, mark
from espnet_ext.scoring.score import Score, split_units

_UTTERANCE = re.compile(r"id: \((.+)\)")
_COUNTS = re.compile(r"Scores: \(#C #S #D #I\)" + r" ([0-9]{1,15})" * 4)
_SPEAKER = re.compile(r"recording (\S+), speaker (.+?)( \(not in the reference\))?")
_ROWS = ("REF:", "HYP:", "EVAL:")


def alignment_blocks(score: Score) -> Iterator[str]:
    """Yield a block of text for each utterance of a score."""
    for key, counts in score.utterances.items():
        yield f"id: ({key})\nScores: (#C #S #D #I) {' '.join(map(str, counts.counts))}\n"
        pairs = align(split_units(score.reference[key], score.unit), split_units(score.hypothesis[key], score.unit))
        yield format_alignment(pairs) + "\n"


def speaker_blocks(pairs: Mapping[str, Mapping[str, tuple[Sequence[str], Sequence[str]]]]) -> Iterator[str]:
    """Yield a block of text for each recording and speaker; ``pairs`` are the words of reference and hypothesis."""
    for recording, speakers in pairs.items():
        for speaker, (real, heard) in speakers.items():
            yield f"recording {recording}, speaker {speaker}{'' if real else ' (not in the reference)'}\n"
            yield format_alignment(align(real, heard)) + "\n"


def format_alignment(pairs: Iterable[Pair]) -> str:
    """Write reference, hypothesis and S, D or I for each error, in columns as wide as they look in a terminal.

    A gap is a row of asterisks. A space that was counted as a character shows as U+2423.

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
    """Write one pair as three cells of equal width: reference, hypothesis, mark."""
    widest = max(display_width(word) for word in (reference, hypothesis) if word is not None)
    letter = mark((reference, hypothesis)).replace("C", "")
    return _cell(reference, widest), _cell(hypothesis, widest), _cell(letter, widest)


def _cell(word: str | None, width: int) -> str:
    """Fill up a word, or a gap of asterisks, with blanks."""
    if word is None:
        return "*" * width
    shown = "\u2423" if word == " " else word
    return shown + " " * (width - display_width(shown))


def display_width(word: str) -> int:
    """Measure columns of a terminal: Han and other wide characters take two, combining marks none; at least one."""
    if word.isascii():
        return len(word)
    columns = 0
    for character in word:
        if not unicodedata.combining(character):
            columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return max(columns, 1)


@dataclass(frozen=True, slots=True)
class Aligned:
    """One block of the file: an utterance, or what one speaker of a recording said.

    Attributes:
        key: the utterance's id, or the recording's.
        speaker: None in a block of an utterance.
        counts: of the block.
        pairs: tokens of reference and hypothesis, None for a gap.
    """

    key: str
    speaker: str | None
    counts: ErrorRate
    pairs: tuple[Pair, ...]


def read_alignment(path: str | Path) -> Iterator[Aligned]:
    """Read the blocks of an ``alignment.txt``, in order. A space that was counted stays U+2423, as it is shown.

    Raises:
        InputError: a block that scoring would not write, or whose counts do not fit its words; names the line.
    """
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            yield from parse_alignment(file, str(path))
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8, so not written by scoring: score again") from None


def parse_alignment(text: Iterable[str], name: str = "alignment") -> Iterator[Aligned]:
    """Parse the lines of a text as :func:`read_alignment` does; ``name`` is what messages call it.

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
