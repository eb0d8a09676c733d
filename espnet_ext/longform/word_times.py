"""Word times of recordings: written to one ctm file, and read for one recording at a time.

A table ``recording file.ctm:offset`` says where each recording starts, so that the words need not all fit into memory.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from espnet_ext.data.ctm import ctm_word
from espnet_ext.data.data_dir import format_seconds
from espnet_ext.data.kaldi_tables import write_table
from espnet_ext.data.transcript import Word
from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write

# Times of automatic transcripts are rounded to 0.1 s, so neighbouring words may overlap by that much.
OVERLAP = 0.1001
_ROUNDING = 1e-3  # of times in single precision, after hours
DROPPED = "<dropped>"  # stands for a region whose words are not known


def word_faults(words: Sequence[Word], seconds: float) -> str | None:
    """What is wrong with the times of a recording's words, naming the first bad one; None if nothing is wrong.

    Wrong are times that are not finite, negative, or more than a second beyond the end of the recording; words that end
    before they begin; and words that begin before the previous one, or overlap it by more than 0.1 s.

    >>> word_faults([Word("a", 0.0, 0.5), Word("b", 0.2, 0.9)], seconds=2.0)
    "word 2, 'b' at 0.2 s, overlaps the previous word, which ends at 0.5 s"
    """
    before = Word("", 0.0, 0.0)
    for number, word in enumerate(words, 1):
        where = f"word {number}, {word.text!r} at {word.start:g} s,"
        if not (math.isfinite(word.start) and math.isfinite(word.end)) or word.start < 0:
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
    """The words with each that goes back in time, and those that it overlaps, joined to a region called ``<dropped>``.

    >>> drop_overlaps([Word("a", 0, 1), Word("b", 1, 3), Word("c", 2, 4), Word("d", 4, 5)])[1:]
    [Word(text='<dropped>', start=1, end=4, confidence=1.0), Word(text='d', start=4, end=5, confidence=1.0)]
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
    """The words of a recording in some 14 bytes each besides their letters, so that those of many can be kept.

    Args:
        words: in order, as :func:`word_faults` demands.
    """

    def __init__(self, words: Sequence[Word]):
        self._starts = np.array([word.start for word in words], dtype=np.float32)
        self._ends = np.array([word.end for word in words], dtype=np.float32)
        texts = [word.text.encode() for word in words]
        self._places = np.cumsum([0, *map(len, texts)], dtype=np.uint32)
        self._letters = b"".join(texts)

    def _of(self, index: int) -> str:
        return self._letters[self._places[index] : self._places[index + 1]].decode()

    def _around(self, start: float, end: float) -> range:
        """The words that may lie between two times, or across one of them; overlaps are short."""
        first = int(np.searchsorted(self._starts, start - _ROUNDING)) - 1
        while first > 0 and self._ends[first - 1] > start:
            first -= 1
        return range(max(0, first), int(np.searchsorted(self._starts, end + _ROUNDING, side="right")))

    def text(self, start: float, end: float) -> str:
        """The words that lie wholly between two times, joined by spaces; a word across an edge is dropped.

        >>> words = RecordingWords([Word("a", 0, 1), Word("b", 1, 2), Word("c", 2, 3)])
        >>> words.text(0.0, 2.5), words.text(0.5, 3.0)
        ('a b', 'b c')
        """
        inside = (
            index
            for index in self._around(start, end)
            if self._starts[index] >= start - _ROUNDING and self._ends[index] <= end + _ROUNDING
        )
        return " ".join(text for text in map(self._of, inside) if text != DROPPED)

    def dropped(self, start: float, end: float) -> list[tuple[float, float]]:
        """The dropped regions between two times: starts and ends in seconds."""
        return [
            (max(float(self._starts[index]), start), min(float(self._ends[index]), end))
            for index in self._around(start, end)
            if self._of(index) == DROPPED and self._starts[index] < end and self._ends[index] > start
        ]


def write_word_times(path: str | Path, recordings: Iterable[tuple[str, Sequence[Word]]]) -> None:
    """Write ``<path>.ctm`` and its table ``<path>.scp``; one recording is in memory at a time.

    Args:
        path: Path without ending; the table holds the ctm's absolute path.
        recordings: Ids, each once, and their words.
    """
    ctm = Path(path).absolute().with_suffix(".ctm")
    offsets: dict[str, str] = {}
    with atomic_write(ctm, "wb") as file:
        for recording, words in recordings:
            offsets[recording] = f"{ctm}:{file.tell()}"
            for word in words:
                times = f"{format_seconds(word.start)} {format_seconds(word.end - word.start)}"
                file.write(f"{recording} 1 {times} {word.text}\n".encode())
    write_table(ctm.with_suffix(".scp"), offsets)


def read_word_times(recording: str, entry: str) -> list[Word]:
    """Read the words of one recording; ``entry`` is its line of the table.

    Raises:
        InputError: no such file, or the words at the offset are not this recording's, as in a table that is
            older than the file.
    """
    path, _, offset = entry.rpartition(":")
    words: list[Word] = []
    try:
        with open(path, "rb") as file:
            file.seek(int(offset))
            for line in file:
                fields = line.decode().split()
                if fields[:1] != [recording]:
                    break
                found = ctm_word(fields, f"word {len(words) + 1}")
                words.append(Word(found.text, found.start, found.end))
    except (OSError, ValueError, OverflowError, InputError) as error:
        raise InputError(
            f"{entry}: the word times of {recording} cannot be read ({error}): prepare the corpus again"
        ) from None
    return words
