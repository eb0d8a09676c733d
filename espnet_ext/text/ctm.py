"""CTM, the format of word times of NIST, Kaldi and NeMo: one word a line.

A line is ``recording channel start duration word [confidence [type [speaker]]]``, in seconds; lines that begin with
``;;`` are comments. What is not known of the last three is ``NA``.
"""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import text_lines

LAYOUT = "recording channel start duration word [confidence [type [speaker]]]"
_LEAST, _MOST = 5, 8  # fields
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_UNKNOWN = ("NA", "<NA>")


class CTMWord(NamedTuple):
    """A line; start and end in seconds, None where confidence or speaker are not known."""

    recording: str
    channel: str
    text: str
    start: float
    end: float
    confidence: float | None = None
    speaker: str | None = None


def read_ctm(path: Path) -> Iterator[CTMWord]:
    """The words of a file, in its order.

    Raises:
        InputError: the file is missing, empty or not UTF-8, or a line is not of the format.
    """
    for where, line in nist_lines(path):
        yield ctm_word(line.split(), where)


def ctm_word(fields: Sequence[str], where: str, layout: str = LAYOUT) -> CTMWord:
    """The word of a line's fields; ``where`` and ``layout`` are for the message.

    Raises:
        InputError: there are too few or too many fields, or a start, duration or confidence is no number.
    """
    recording, channel, start, seconds, text, score, _, speaker = [*fields[:_MOST], *["NA"] * (_MOST - len(fields))]
    known = None if score in _UNKNOWN else score
    timed = _LEAST <= len(fields) <= _MOST and is_number(start) and is_number(seconds)
    if not timed or not (known is None or is_number(known.removeprefix("-"))):
        raise InputError(f"{where} is not `{layout}`: fix it")
    return CTMWord(
        recording,
        channel,
        text,
        float(start),
        float(start) + float(seconds),
        None if known is None else float(known),
        None if speaker in _UNKNOWN else speaker,
    )


def is_number(text: str) -> bool:
    """Whether a field is a finite number that is not negative."""
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def nist_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of NIST's formats (CTM, STM, RTTM, trn), without comments and empty ones, and where each is.

    Raises:
        InputError: the file is missing, empty or not UTF-8.
    """
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip() and not line.startswith(";;"):
            yield f"{path}: line {number}", line
