"""Write and read word times of recordings, a line of JSON each in one file.

A table ``recording file.words:offset`` says where each recording starts: one is read at
a time, and the words of all need not fit into memory.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import format_seconds, parse_segment
from espnet_ext.kaldi.tables import read_text_lines, write_table
from espnet_ext.text.words import SLACK, Span, Word
from espnet_ext.work.files import atomic_write, parse_json

# Seconds: a recording or the rest of one that is shorter holds no word, and is not
# trained on.
SHORTEST = 0.5
# Times of automatic transcripts are rounded to 0.1 s, so neighbouring words may overlap
# by that much.
OVERLAP = 0.1001
# Seconds: single precision has steps of 1 ms after 8,192 s (2.3 hours).
_ROUNDING = 1e-3
DROPPED = "<dropped>"  # stands for a region whose words are not known


def find_word_fault(words: Sequence[Word], seconds: float) -> str | None:
    """Find what is wrong with the times of a recording's words; None if nothing is.

    The first bad word is named; ``seconds`` is the length of the recording.
    Wrong are times that are not finite, negative, or more than a second beyond the end
    of the recording; words that end before they begin; and words that begin before the
    previous one, or overlap it by more than 0.1 s.
    """
    before = Word("", 0.0, 0.0)
    for number, word in enumerate(words, 1):
        name = "unknown" if word.text == DROPPED else repr(word.text)
        where = f"word {number}, {name} at {word.start:g} s,"
        if not _has_finite_times(word) or word.start < 0:
            return f"{where} has an impossible time"
        if word.end < word.start:
            return f"{where} ends before it begins"
        if word.start < before.start:
            return f"{where} begins before the previous word (decreasing times)"
        if word.start < before.end - OVERLAP:
            return f"{where} overlaps the previous word, which ends at {before.end:g} s"
        if word.end > seconds + SLACK:
            return f"{where} lies beyond the recording's end ({seconds:.1f} s)"
        before = word
    return None


def _has_finite_times(word: Word) -> bool:
    return math.isfinite(word.start) and math.isfinite(word.end)


def drop_overlaps(words: Sequence[Word]) -> list[Word]:
    """Join each word that goes back in time, and those that it overlaps, to one region.

    The region is called ``<dropped>``: which of its words were said, and where, cannot
    be told.
    """
    kept: list[Word] = []
    for word in words:
        before = kept[-1] if kept else Word("", 0.0, 0.0)
        # What find_word_fault demands of a word, so that it accepts what is kept.
        earliest = max(before.start, before.end - OVERLAP)
        if word.start >= earliest:
            kept.append(word)
            continue
        start = word.start
        end = word.end
        # A region may reach back over several words, and they may be regions.
        while kept and kept[-1].end > start:
            last = kept.pop()
            start = min(start, last.start)
            end = max(end, last.end)
        kept.append(Word(DROPPED, start, end))
    return kept


class RecordingWords:
    """The words of a recording, in order as :func:`find_word_fault` demands."""

    def __init__(self, words: Sequence[Word]):
        starts = [word.start for word in words]
        ends = [word.end for word in words]
        self._words = words
        # Single precision: hours of words are kept in memory, of many recordings.
        self._starts = np.array(starts, dtype=np.float32)
        self._ends = np.array(ends, dtype=np.float32)

    def __len__(self) -> int:
        return len(self._words)

    def __iter__(self) -> Iterator[Word]:
        return iter(self._words)

    def _find_around(
        self, start: float, end: float
    ) -> Iterator[tuple[np.float32, np.float32, Word]]:
        """Yield starts, ends and words that may lie between two times, or across one.

        Starts are sorted, and ends are but for overlaps, which are short: so the first
        is the word before, or an earlier one as long as they reach into the time.
        """
        first = int(np.searchsorted(self._starts, start - _ROUNDING)) - 1
        while first > 0 and self._ends[first - 1] > start:
            first -= 1
        last = int(np.searchsorted(self._starts, end + _ROUNDING, side="right"))
        for index in range(max(0, first), last):
            yield self._starts[index], self._ends[index], self._words[index]

    def join_between(self, start: float, end: float) -> str:
        """Join the words that lie wholly between two times by spaces.

        A word across an edge is left out.
        """
        inside = []
        for begin, until, word in self._find_around(start, end):
            if begin < start - _ROUNDING or until > end + _ROUNDING:
                continue
            if word.text != DROPPED:
                inside.append(word.text)
        return " ".join(inside)

    def find_dropped(self, start: float, end: float) -> list[Span]:
        """Find the dropped regions between two times: starts and ends in seconds."""
        regions = []
        for begin, until, word in self._find_around(start, end):
            if word.text != DROPPED or begin >= end or until <= start:
                continue
            first = max(float(begin), start)
            last = min(float(until), end)
            regions.append((first, last))
        return regions


def write_word_times(
    path: str | Path, recordings: Iterable[tuple[str, Sequence[Word]]]
) -> None:
    """Write ``<path>.words`` and its table ``<path>.scp``, which holds absolute paths.

    One recording is in memory at a time.
    """
    packed = Path(path).absolute().with_suffix(".words")
    offsets: dict[str, str] = {}
    with atomic_write(packed, "wb") as file:
        for recording, words in recordings:
            offsets[recording] = f"{packed}:{file.tell()}"
            content = []
            for word in words:
                content.append([word.text, float(word.start), float(word.end)])
            line = json.dumps(content, ensure_ascii=False)
            file.write(f"{recording} {line}\n".encode())
    # Only now, when the words are in place: no offset points into an unfinished file.
    write_table(packed.with_suffix(".scp"), offsets)


def read_word_times(recording: str, entry: str) -> RecordingWords:
    """Read the words of one recording; ``entry`` is its line of the table.

    Nothing else of the file is read. Raises InputError: no such file, or another
    recording's words, as of a table that is older than the file.
    """
    path, _, place = entry.rpartition(":")
    try:
        with open(path, "rb") as file:
            file.seek(int(place))
            key, _, content = file.readline().decode().partition(" ")
        # An old table's offsets may be the beginning of another line, or the middle.
        if key != recording:
            raise ValueError("they are another recording's")
        words = []
        for text, start, end in parse_json(content):
            words.append(Word(str(text), float(start), float(end)))
        if not all(_has_finite_times(word) for word in words):
            raise ValueError("times that are no numbers")
    except (OSError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{entry}: word times of {recording} cannot be read ({error}): "
            "prepare it again"
        ) from None
    return RecordingWords(words)


def write_regions(path: str | Path, regions: Mapping[str, Sequence[Span]]) -> None:
    """Write regions in seconds, ``recording start end`` in a line, by recording."""
    with atomic_write(path) as file:
        for recording, own in sorted(regions.items()):
            for start, end in own:
                begin = format_seconds(start)
                until = format_seconds(end)
                file.write(f"{recording} {begin} {until}\n")


def read_regions(path: Path) -> dict[str, list[Span]]:
    """Read regions of recordings, in seconds; a file may hold none.

    Raises InputError: a line is not ``recording start end``.
    """
    regions: dict[str, list[Span]] = {}
    # read_text_lines refuses empty files, but most corpora have no such region.
    if path.is_file() and not path.stat().st_size:
        return regions
    for number, line in enumerate(read_text_lines(path), start=1):
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
