"""Word times of recordings: written to one binary file, and read for one recording at a time.

A table ``recording file.words:offset`` says where each recording starts, so that the words need not all fit into
memory.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import format_seconds, parse_segment
from espnet_ext.kaldi.tables import text_lines, write_table
from espnet_ext.text.words import Word
from espnet_ext.work.files import atomic_write

SHORTEST = 0.5  # seconds: what is shorter, a recording or the rest of one, is not trained on: it holds no word
# Times of automatic transcripts are rounded to 0.1 s, so neighbouring words may overlap by that much.
OVERLAP = 0.1001
_ROUNDING = 1e-3  # of times in single precision, after hours
_SIZES = 8  # bytes of the numbers of words and letters
DROPPED = "<dropped>"  # stands for a region whose words are not known


def word_faults(words: Sequence[Word], seconds: float) -> str | None:
    """Return what is wrong with the times of a recording's words, naming the first bad one; None if nothing is wrong.

    Wrong are times that are not finite, negative, or more than a second beyond the end of the recording; words that end
    before they begin; and words that begin before the previous one, or overlap it by more than 0.1 s.

    >>> word_faults([Word("a", 0.0, 0.5), Word("b", 0.2, 0.9)], seconds=2.0)
    "word 2, 'b' at 0.2 s, overlaps the previous word, which ends at 0.5 s"
    """
    before = Word("", 0.0, 0.0)
    for number, word in enumerate(words, 1):
        where = f"word {number}, {'unknown' if word.text == DROPPED else repr(word.text)} at {word.start:g} s,"
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
    """Join each word that goes back in time, and those that it overlaps, to a region called ``<dropped>``.

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


def _are_places(places: np.ndarray, letters: np.ndarray) -> bool:
    """Return whether words begin and end there: in order, none empty, and all letters whole."""
    if places[0] or places[-1] != len(letters) or (places[1:] <= places[:-1]).any():
        return False
    letters.tobytes().decode()  # UnicodeDecodeError is a ValueError
    return not (letters[places[:-1]] & 0xC0 == 0x80).any()  # UTF-8: the later bytes of a letter


class RecordingWords:
    """The words of a recording in 12 bytes each besides their letters, as they lie in the file.

    Args:
        starts, ends: in seconds, in order as :func:`word_faults` demands, float32, (words,).
        places: where the letters of each word begin, and those of the last end, uint32, (words + 1,).
        letters: of all words, UTF-8, uint8, (letters,).
    """

    def __init__(self, starts: np.ndarray, ends: np.ndarray, places: np.ndarray, letters: np.ndarray):
        self._starts, self._ends, self._places, self._letters = starts, ends, places, letters

    @classmethod
    def of(cls, words: Sequence[Word]) -> Self:
        """Pack words.

        >>> list(RecordingWords.of([Word("a", 0, 1), Word("b", 1, 2)]))[1]
        Word(text='b', start=1.0, end=2.0, confidence=1.0)
        """
        texts = [word.text.encode() for word in words]
        return cls(
            np.array([word.start for word in words], dtype=np.float32),
            np.array([word.end for word in words], dtype=np.float32),
            np.cumsum([0, *map(len, texts)], dtype=np.uint32),
            np.frombuffer(b"".join(texts), dtype=np.uint8),
        )

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Word]:
        for index, (start, end) in enumerate(zip(self._starts, self._ends, strict=True)):
            yield Word(self._of(index), float(start), float(end))

    def to_bytes(self) -> bytes:
        """Return the numbers of words and letters, uint32, and then the arrays; filled up to multiples of 4 bytes."""
        arrays = (self._starts, self._ends, self._places, self._letters)
        head = np.array([len(self._starts), len(self._letters)], dtype=np.uint32)
        return b"".join(array.tobytes() for array in (head, *arrays)) + bytes(-len(self._letters) % 4)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what :meth:`to_bytes` gave. Raises ValueError if it is damaged."""
        words, letters = (int(number) for number in np.frombuffer(data, np.uint32, 2))
        arrays = []
        offset = _SIZES
        for kind, count in ((np.float32, words), (np.float32, words), (np.uint32, words + 1), (np.uint8, letters)):
            arrays.append(np.frombuffer(data[offset : offset + np.dtype(kind).itemsize * count], kind))
            offset += arrays[-1].nbytes
        starts, ends, places, text = arrays
        if [len(array) for array in arrays] != [words, words, words + 1, letters] or not _are_places(places, text):
            raise ValueError("no words there")
        if not (np.isfinite(starts).all() and np.isfinite(ends).all()):
            raise ValueError("times that are no numbers")
        return cls(*arrays)

    def _of(self, index: int) -> str:
        return self._letters[self._places[index] : self._places[index + 1]].tobytes().decode()

    def _around(self, start: float, end: float) -> range:
        """Return the words that may lie between two times, or across one of them; overlaps are short."""
        first = int(np.searchsorted(self._starts, start - _ROUNDING)) - 1
        while first > 0 and self._ends[first - 1] > start:
            first -= 1
        return range(max(0, first), int(np.searchsorted(self._starts, end + _ROUNDING, side="right")))

    def text(self, start: float, end: float) -> str:
        """Return the words that lie wholly between two times, joined by spaces; a word across an edge is dropped.

        >>> words = RecordingWords.of([Word("a", 0, 1), Word("b", 1, 2), Word("c", 2, 3)])
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
        """Return the dropped regions between two times: starts and ends in seconds."""
        return [
            (max(float(self._starts[index]), start), min(float(self._ends[index]), end))
            for index in self._around(start, end)
            if self._of(index) == DROPPED and self._starts[index] < end and self._ends[index] > start
        ]


def write_word_times(path: str | Path, recordings: Iterable[tuple[str, Sequence[Word]]]) -> None:
    """Write ``<path>.words`` and its table ``<path>.scp``; one recording is in memory at a time.

    Args:
        path: Path without ending; the table holds the absolute path of the words.
        recordings: Ids, each once, and their words.
    """
    packed = Path(path).absolute().with_suffix(".words")
    offsets: dict[str, str] = {}
    with atomic_write(packed, "wb") as file:
        for recording, words in recordings:
            file.write(_head(recording))
            offsets[recording] = f"{packed}:{file.tell()}"
            file.write(RecordingWords.of(words).to_bytes())
    write_table(packed.with_suffix(".scp"), offsets)


def _head(recording: str) -> bytes:
    """Return what stands before the words of a recording: its id, by which a table older than the file is noticed."""
    return b"\n" * (-len(recording.encode()) % 4) + recording.encode()


def read_word_times(recording: str, entry: str) -> RecordingWords:
    """Read the words of one recording; ``entry`` is its line of the table. Nothing else of the file is read.

    Raises:
        InputError: no such file, or the words at the offset are not this recording's, as in a table that is
            older than the file.
    """
    path, _, place = entry.rpartition(":")
    head = _head(recording)
    try:
        with open(path, "rb") as file:
            file.seek(int(place) - len(head))
            if file.read(len(head)) != head:
                raise ValueError("they are another recording's")
            sizes = file.read(_SIZES)
            words, letters = np.frombuffer(sizes, np.uint32)
            left = os.fstat(file.fileno()).st_size - file.tell()  # damaged sizes may exceed all memory
            return RecordingWords.from_bytes(sizes + file.read(min(4 + 12 * int(words) + int(letters), left)))
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(
            f"{entry}: the word times of {recording} cannot be read ({error}): prepare the corpus again"
        ) from None


def write_regions(path: str | Path, regions: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Write regions of recordings in seconds, ``recording start end`` in a line, sorted by recording."""
    with atomic_write(path) as file:
        for recording in sorted(regions):
            for start, end in regions[recording]:
                file.write(f"{recording} {format_seconds(start)} {format_seconds(end)}\n")


def read_regions(path: Path) -> dict[str, list[tuple[float, float]]]:
    """Read regions of recordings; a file may hold none.

    Raises:
        InputError: no such file, not UTF-8, or a line that is not ``recording start end`` with times in order.
    """
    regions: dict[str, list[tuple[float, float]]] = {}
    empty = path.is_file() and not path.stat().st_size
    for number, line in enumerate(() if empty else text_lines(path), start=1):
        try:
            recording, start, end = parse_segment(line)
        except ValueError:
            raise InputError(f"{path}: line {number} is not `recording start end`: fix it") from None
        if not 0 <= start <= end:
            raise InputError(f"{path}: line {number} begins before 0, or ends before it begins: fix it")
        regions.setdefault(recording, []).append((start, end))
    return regions
