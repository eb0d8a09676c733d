"""Word times of recordings: written to one file, a line of JSON each, and read for one
recording at a time.

A table ``recording file.words:offset`` says where each starts, so that the words need
not fit into memory.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import format_seconds, parse_segment
from espnet_ext.kaldi.tables import read_text_lines, write_table
from espnet_ext.text.words import Span, Word
from espnet_ext.work.files import atomic_write, parse_json

# seconds: what is shorter, a recording or the rest of one, is not trained on: it holds
# no word
SHORTEST = 0.5
# Times of automatic transcripts are rounded to 0.1 s, so neighbouring words may overlap
# by that much.
OVERLAP = 0.1001
_ROUNDING = 1e-3  # of times in single precision, after hours
DROPPED = "<dropped>"  # stands for a region whose words are not known


def find_word_fault(words: Sequence[Word], seconds: float) -> str | None:
    """Return what is wrong with the times of a recording's words, naming the first bad
    one; None if nothing is wrong.

    Wrong are times that are not finite, negative, or more than a second beyond the end
    of the recording; words that end before they begin; and words that begin before the
    previous one, or overlap it by more than 0.1 s.
    """
    before = Word("", 0.0, 0.0)
    for number, word in enumerate(words, 1):
        where = (
            f"word {number}, {'unknown' if word.text == DROPPED else repr(word.text)} "
            f"at {word.start:g} s,"
        )
        if (
            not (math.isfinite(word.start) and math.isfinite(word.end))
            or word.start < 0
        ):
            return f"{where} has an impossible time"
        if word.end < word.start:
            return f"{where} ends before it begins"
        if word.start < before.start:
            return f"{where} begins before the previous word (decreasing times)"
        if word.start < before.end - OVERLAP:
            return f"{where} overlaps the previous word, which ends at {before.end:g} s"
        if word.end > seconds + 1:
            return f"{where} lies beyond the recording's end ({seconds:.1f} s)"
        before = word
    return None


def drop_overlaps(words: Sequence[Word]) -> list[Word]:
    """Join each word that goes back in time, and those that it overlaps, to a region
    called ``<dropped>``.
    """
    kept: list[Word] = []
    for word in words:
        before = kept[-1] if kept else Word("", 0.0, 0.0)
        if word.start >= before.start and word.start >= before.end - OVERLAP:
            kept.append(word)
            continue
        start, end = word.start, word.end
        while kept and kept[-1].end > start:
            start, end = min(start, kept[-1].start), max(end, kept[-1].end)
            kept.pop()
        kept.append(Word(DROPPED, start, end))
    return kept


class RecordingWords:
    """The words of a recording, in order as :func:`find_word_fault` demands."""

    def __init__(self, words: Sequence[Word]):
        self._words = words
        self._starts = np.array([word.start for word in words], dtype=np.float32)
        self._ends = np.array([word.end for word in words], dtype=np.float32)

    def __len__(self) -> int:
        return len(self._words)

    def __iter__(self) -> Iterator[Word]:
        return iter(self._words)

    def _around(self, start: float, end: float) -> range:
        """Return the words that may lie between two times, or across one of them;
        overlaps are short.
        """
        first = int(np.searchsorted(self._starts, start - _ROUNDING)) - 1
        while first > 0 and self._ends[first - 1] > start:
            first -= 1
        return range(
            max(0, first),
            int(np.searchsorted(self._starts, end + _ROUNDING, side="right")),
        )

    def text(self, start: float, end: float) -> str:
        """Return the words that lie wholly between two times, joined by spaces; a word
        across an edge is dropped.
        """
        inside = (
            index
            for index in self._around(start, end)
            if self._starts[index] >= start - _ROUNDING
            and self._ends[index] <= end + _ROUNDING
        )
        return " ".join(
            self._words[index].text
            for index in inside
            if self._words[index].text != DROPPED
        )

    def dropped(self, start: float, end: float) -> list[Span]:
        """Return the dropped regions between two times: starts and ends in seconds."""
        return [
            (max(float(self._starts[index]), start), min(float(self._ends[index]), end))
            for index in self._around(start, end)
            if self._words[index].text == DROPPED
            and self._starts[index] < end
            and self._ends[index] > start
        ]


def write_word_times(
    path: str | Path, recordings: Iterable[tuple[str, Sequence[Word]]]
) -> None:
    """Write ``<path>.words`` and its table ``<path>.scp``, which holds absolute paths;
    one recording is in memory at a time.
    """
    packed = Path(path).absolute().with_suffix(".words")
    offsets: dict[str, str] = {}
    with atomic_write(packed, "wb") as file:
        for recording, words in recordings:
            offsets[recording] = f"{packed}:{file.tell()}"
            content = [
                [word.text, float(word.start), float(word.end)] for word in words
            ]
            file.write(
                f"{recording} {json.dumps(content, ensure_ascii=False)}\n".encode()
            )
    write_table(packed.with_suffix(".scp"), offsets)


def read_word_times(recording: str, entry: str) -> RecordingWords:
    """Read the words of one recording; ``entry`` is its line of the table. Nothing else
    of the file is read.

    Raises InputError: no such file, or another recording's words, as of a table that is
    older than the file.
    """
    path, _, place = entry.rpartition(":")
    try:
        with open(path, "rb") as file:
            file.seek(int(place))
            key, _, content = file.readline().decode().partition(" ")
        if key != recording:
            raise ValueError("they are another recording's")
        words = [
            Word(str(text), float(start), float(end))
            for text, start, end in parse_json(content)
        ]
        if not all(
            math.isfinite(word.start) and math.isfinite(word.end) for word in words
        ):
            raise ValueError("times that are no numbers")
    except (OSError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{entry}: word times of {recording} cannot be read ({error}): "
            "prepare it again"
        ) from None
    return RecordingWords(words)


def write_regions(path: str | Path, regions: Mapping[str, Sequence[Span]]) -> None:
    """Write regions of recordings in seconds, ``recording start end`` in a line, sorted
    by recording.
    """
    with atomic_write(path) as file:
        for recording, own in sorted(regions.items()):
            file.writelines(
                f"{recording} {format_seconds(start)} {format_seconds(end)}\n"
                for start, end in own
            )


def read_regions(path: Path) -> dict[str, list[Span]]:
    """Read regions of recordings; a file may hold none. Raises InputError: a line is
    not ``recording start end``.
    """
    regions: dict[str, list[Span]] = {}
    empty = path.is_file() and not path.stat().st_size
    for number, line in enumerate(() if empty else read_text_lines(path), start=1):
        try:
            recording, start, end = parse_segment(line)
        except ValueError:
            raise InputError(
                f"{path}: line {number} is not `recording start end`: fix it"
            ) from None
        if not 0 <= start <= end:
            raise InputError(
                f"{path}: line {number} begins before 0, or ends before it "
                "begins: fix it"
            )
        regions.setdefault(recording, []).append((start, end))
    return regions
