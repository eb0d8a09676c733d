"""Write and read ``alignment.txt``, aligned text in blocks.

Each block is an utterance, or all that one speaker of a recording said. The file is
like sclite's ``pra`` report, but words stay as they are: capitals for errors would hide
differences of case.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import (
    ErrorRate,
    Pair,
    align,
    count_pairs,
    mark_pair,
)
from espnet_ext.scoring.score import Score

# Both heads, of an utterance and of a speaker, then the three rows. Numbers have 15
# digits at most: int() refuses some thousands.
_BLOCK = re.compile(
    r"(?:id: \((.+)\)\nScores: \(#C #S #D #I\) ([0-9]{1,15}(?: [0-9]{1,15}){3})"
    r"|recording (\S+), speaker (.+?)(?: \(not in the reference\))?)\n"
    r"REF:(.*)\nHYP:(.*)\nEVAL: ?(.*)\n"
)


def format_alignment_blocks(score: Score) -> Iterator[str]:
    """Yield a block of text for each utterance of a score."""
    for key, counts in score.utterances.items():
        numbers = " ".join(map(str, counts.counts))
        yield f"id: ({key})\nScores: (#C #S #D #I) {numbers}\n"
        yield format_alignment(score.align_tokens(key)) + "\n"


def format_speaker_blocks(
    pairs: Mapping[str, Mapping[str, tuple[Sequence[str], Sequence[str]]]],
) -> Iterator[str]:
    """Yield a block of text for each recording and speaker.

    ``pairs`` are the words of reference and hypothesis.
    """
    for recording, speakers in pairs.items():
        for speaker, (reference, hypothesis) in speakers.items():
            unknown = "" if reference else " (not in the reference)"
            yield f"recording {recording}, speaker {speaker}{unknown}\n"
            yield format_alignment(align(reference, hypothesis)) + "\n"


def format_alignment(pairs: Iterable[Pair]) -> str:
    """Write reference, hypothesis and S, D or I for each error in columns.

    Columns are as wide as a terminal shows them. A gap is a row of asterisks. A space
    that was counted as a character shows as U+2423.

    >>> pairs = [("the", "the"), ("cat", "hat"), (None, "sat"), ("down", None)]
    >>> print(format_alignment(pairs), end="")
    REF:  the cat *** down
    HYP:  the hat sat ****
    EVAL:     S   I   D
    """
    rows: list[list[str]] = [["REF: "], ["HYP: "], ["EVAL:"]]
    for reference, hypothesis in pairs:
        cells = _write_column(reference, hypothesis)
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell)
    return "".join(" ".join(row).rstrip() + "\n" for row in rows)


@lru_cache(maxsize=100_000)  # the same pairs of words come often
def _write_column(reference: str | None, hypothesis: str | None) -> list[str]:
    """Write one pair as three cells of equal width: reference, hypothesis, mark."""
    words = [word for word in (reference, hypothesis) if word is not None]
    widest = max(map(measure_display_width, words))
    mark = mark_pair((reference, hypothesis))
    if mark == "C":
        mark = ""  # only errors are marked
    cells = []
    for word in (reference, hypothesis, mark):
        if word is None:
            word = "*" * widest
        elif word == " ":
            word = "\u2423"
        cells.append(word + " " * (widest - measure_display_width(word)))
    return cells


def measure_display_width(word: str) -> int:
    """Measure how many columns of a terminal a word takes, at least one.

    Han and other wide characters take two, combining marks none.
    """
    if word.isascii():
        return len(word)
    width = 0
    for char in word:
        if not unicodedata.combining(char):
            # Unicode's wide and full-width characters.
            width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return max(1, width)


@dataclass(frozen=True, slots=True)
class AlignedBlock:
    """One block of the file: an utterance, or what one speaker of a recording said."""

    key: str
    speaker: str | None  # None where the block is an utterance
    counts: ErrorRate
    pairs: tuple[Pair, ...]


def read_alignment(path: str | Path) -> Iterator[AlignedBlock]:
    """Read the blocks of an ``alignment.txt``, in order.

    A space that was counted stays U+2423, as it is shown. Raises InputError with the
    line: a block is not as scoring writes it, or its counts do not fit its words.
    """
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            yield from parse_alignment(file, str(path))
    except UnicodeDecodeError:
        raise InputError(
            f"{path}: not UTF-8, so not written by scoring: score again"
        ) from None


def parse_alignment(
    text: Iterable[str], name: str = "alignment"
) -> Iterator[AlignedBlock]:
    """Parse the lines of a text as :func:`read_alignment` does.

    ``name`` is what messages call it.
    """
    block = ""
    start = 1  # the number of the block's first line
    for number, line in enumerate(text, start=1):
        if line != "\n":
            block += line
            continue
        if block:
            yield _parse_block(block, f"{name}: line {start}")
        block = ""
        start = number + 1
    if block:
        raise InputError(
            f"{name}: line {start}: breaks off in its last block: score again"
        )


def _parse_block(block: str, place: str) -> AlignedBlock:
    match = _BLOCK.fullmatch(block)
    if match is None:
        raise InputError(f"{place}: not a block of an alignment: score again")
    key, counts, recording, speaker, *rows = match.groups()
    # Only blocks of utterances state their counts.
    stated = ErrorRate(*map(int, counts.split())) if counts else None
    pairs = _parse_rows(*rows)
    if pairs is None or (stated is not None and count_pairs(pairs) != stated):
        raise InputError(
            f"{place}: the rows do not fit each other or their scores: score again"
        )
    return AlignedBlock(key or recording, speaker, count_pairs(pairs), pairs)


def _parse_rows(reference: str, hypothesis: str, marks: str) -> tuple[Pair, ...] | None:
    """Return the tokens by column, or None where the rows do not fit."""
    upper = reference.split()
    lower = hypothesis.split()
    if len(upper) != len(lower):
        return None
    pairs: list[Pair] = []
    # Where a column begins, as a terminal shows it. Marks are ASCII, so in their row
    # this is the index, too.
    place = 0
    for left, right in zip(upper, lower, strict=True):
        mark = marks[place : place + 1].strip()
        expected = "" if left == right else "S"
        place += max(measure_display_width(left), measure_display_width(right)) + 1
        # Only the mark tells a gap from a word of asterisks.
        if mark == "I":
            pairs.append((None, right))
        elif mark == "D":
            pairs.append((left, None))
        elif mark == expected:
            pairs.append((left, right))
        else:
            return None
    return tuple(pairs)
