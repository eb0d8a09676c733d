"""``alignment.txt``: a block of aligned text for each utterance, or for what each
speaker of a recording said.

It is like sclite's ``pra`` report, but words stay as they are: capitals for errors
would hide differences of case.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import ErrorRate, Pair, align, count_pairs, mark
from espnet_ext.scoring.score import Score

_BLOCK = re.compile(
    r"(?:id: \((.+)\)\nScores: \(#C #S #D #I\) ([0-9]{1,15}(?: [0-9]{1,15}){3})"
    r"|recording (\S+), speaker (.+?)(?: \(not in the reference\))?)\n"
    r"REF:(.*)\nHYP:(.*)\nEVAL: ?(.*)\n"
)


def format_alignment_blocks(score: Score) -> Iterator[str]:
    """Yield a block of text for each utterance of a score."""
    for key, counts in score.utterances.items():
        yield (
            f"id: ({key})\nScores: (#C #S #D #I) {' '.join(map(str, counts.counts))}\n"
        )
        yield format_alignment(score.pairs(key)) + "\n"


def format_speaker_blocks(
    pairs: Mapping[str, Mapping[str, tuple[Sequence[str], Sequence[str]]]],
) -> Iterator[str]:
    """Yield a block of text for each recording and speaker.

    ``pairs`` are the words of reference and hypothesis.
    """
    for recording, speakers in pairs.items():
        for speaker, (real, heard) in speakers.items():
            yield (
                f"recording {recording}, speaker "
                f"{speaker}{'' if real else ' (not in the reference)'}\n"
            )
            yield format_alignment(align(real, heard)) + "\n"


def format_alignment(pairs: Iterable[Pair]) -> str:
    """Write reference, hypothesis and S, D or I for each error, in columns as wide as
    they look in a terminal.

    A gap is a row of asterisks. A space that was counted as a character shows as
    U+2423.

    >>> pairs = [("the", "the"), ("cat", "hat"), (None, "sat"), ("down", None)]
    >>> print(format_alignment(pairs), end="")
    REF:  the cat *** down
    HYP:  the hat sat ****
    EVAL:     S   I   D
    """
    columns = [_column(reference, hypothesis) for reference, hypothesis in pairs]
    rows = (
        (" ".join(cells) for cells in zip(*columns, strict=True))
        if columns
        else ("", "", "")
    )
    names = ("REF: ", "HYP: ", "EVAL:")
    return "".join(
        f"{name} {row}".rstrip() + "\n" for name, row in zip(names, rows, strict=True)
    )


@lru_cache(maxsize=100_000)  # the same pairs of words come often
def _column(reference: str | None, hypothesis: str | None) -> tuple[str, ...]:
    """Write one pair as three cells of equal width: reference, hypothesis, mark."""
    widest = max(
        measure_display_width(word)
        for word in (reference, hypothesis)
        if word is not None
    )
    cells = []
    for word in (reference, hypothesis, mark((reference, hypothesis)).replace("C", "")):
        shown = "*" * widest if word is None else "\u2423" if word == " " else word
        cells.append(shown + " " * (widest - measure_display_width(shown)))
    return tuple(cells)


def measure_display_width(word: str) -> int:
    """Measure columns of a terminal: Han and other wide characters take two, combining
    marks none; at least one.
    """
    if word.isascii():
        return len(word)
    shown = (char for char in word if not unicodedata.combining(char))
    return max(
        1, sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in shown)
    )


@dataclass(frozen=True, slots=True)
class Aligned:
    """One block of the file: an utterance (without a speaker), or what one speaker of a
    recording said.
    """

    key: str
    speaker: str | None
    counts: ErrorRate
    pairs: tuple[Pair, ...]


def read_alignment(path: str | Path) -> Iterator[Aligned]:
    """Read the blocks of an ``alignment.txt``, in order.

    A space that was counted stays U+2423, as it is shown. Raises InputError: a block
    that scoring would not write, or whose counts do not fit its words; names the line.
    """
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            yield from parse_alignment(file, str(path))
    except UnicodeDecodeError:
        raise InputError(
            f"{path}: not UTF-8, so not written by scoring: score again"
        ) from None


def parse_alignment(text: Iterable[str], name: str = "alignment") -> Iterator[Aligned]:
    """Parse the lines of a text as :func:`read_alignment` does.

    ``name`` is what messages call it.
    """
    block, start = "", 1
    for number, line in enumerate(text, start=1):
        if line != "\n":
            block += line
            continue
        if block:
            yield _aligned(block, f"{name}: line {start}")
        block, start = "", number + 1
    if block:
        raise InputError(
            f"{name}: line {start}: breaks off in its last block: score again"
        )


def _aligned(block: str, place: str) -> Aligned:
    match = _BLOCK.fullmatch(block)
    if match is None:
        raise InputError(f"{place}: not a block of an alignment: score again")
    key, counts, recording, speaker, *rows = match.groups()
    found = ErrorRate(*map(int, counts.split())) if counts else None
    pairs = _pairs(*rows)
    if pairs is None or (found is not None and count_pairs(pairs) != found):
        raise InputError(
            f"{place}: the rows do not fit each other or their scores: score again"
        )
    return Aligned(key or recording, speaker, count_pairs(pairs), pairs)


def _pairs(reference: str, hypothesis: str, marks: str) -> tuple[Pair, ...] | None:
    """Return the tokens by column, or None where the rows do not fit.

    The mark tells a gap from asterisks.
    """
    upper, lower = reference.split(), hypothesis.split()
    if len(upper) != len(lower):
        return None
    pairs: list[Pair] = []
    place = (
        0  # the column's first cell in a terminal: marks are ASCII, so also their index
    )
    for left, right in zip(upper, lower, strict=True):
        mark = marks[place : place + 1].strip()
        place += max(measure_display_width(left), measure_display_width(right)) + 1
        if (
            mark not in ("", "S", "D", "I")
            or (mark == "" and left != right)
            or (mark == "S" and left == right)
        ):
            return None
        pairs.append((None if mark == "I" else left, None if mark == "D" else right))
    return tuple(pairs)
