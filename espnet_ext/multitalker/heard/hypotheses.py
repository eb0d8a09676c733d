"""What a recogniser heard in the windows of a long recording, by speaker: plain values, and their JSONL.

JSONL has one object per line: ``recording``, ``window`` (its index from 0), ``start`` and ``end`` of the window in
seconds, ``speaker``, ``words`` (a list), and, if the recogniser gives them, ``times`` ([start, end] of each word, in
seconds from the recording's start) and ``confidences``. A window in which nobody was heard has one line with an empty
speaker and no words, so that all windows are known.

What other recognisers write is read by :mod:`espnet_ext.multitalker.heard.importers`.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write
from espnet_ext.work.json_text import parse_json

NOBODY = ""  # the speaker of a line that says only that there is a window
SLACK = 1.0  # seconds by which a word may lie outside its window, as recognisers' times are not exact
MOST_WINDOWS = 100_000  # of a recording: 9 days in windows of 16 s that overlap by half; gaps are filled in
_REQUIRED = ("recording", "window", "start", "end", "speaker", "words")
_OPTIONAL = ("times", "confidences")
# recording -> speaker -> what was heard in each of the recording's windows, in their order
Grouped = dict[str, dict[str, tuple["WindowHypothesis", ...]]]


@dataclass(frozen=True)
class WindowHypothesis:
    """What was heard of one speaker in one window.

    Attributes:
        window: index of the window in its recording, from 0.
        words: what was said; empty where the speaker is silent.
        start, end: of the window, seconds.
        times: start and end of each word, in seconds from the recording's start, or None.
        confidences: of each word, or None.

    Raises:
        ValueError: an index below 0 or far too large, a window that ends before it starts, another number of times or
            confidences than of words, one that is not finite, a word that ends before it starts or lies outside the
            window.
    """

    recording: str
    window: int
    speaker: str
    words: tuple[str, ...]
    start: float
    end: float
    times: tuple[tuple[float, float], ...] | None = None
    confidences: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.window < MOST_WINDOWS:
            raise ValueError(f"the window's index is {self.window}, but they start at 0 and stay below {MOST_WINDOWS}")
        if not 0 <= self.start < self.end < math.inf:
            raise ValueError(f"a window from {self.start} to {self.end} s is not a time span")
        for name in _OPTIONAL:
            values = getattr(self, name)
            if values is not None and len(values) != len(self.words):
                raise ValueError(f"{len(values)} {name} for {len(self.words)} words")
        numbers = [*(self.confidences or ()), *(seconds for span in self.times or () for seconds in span)]
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a time or a confidence that is not a finite number")
        for word, (start, end) in zip(self.words, self.times or (), strict=False):
            if end < start:
                raise ValueError(f"{word} ends at {round(end, 3)} s, before it starts at {round(start, 3)} s")
            if not self.start - SLACK <= (start + end) / 2 <= self.end + SLACK:
                window = f"{round(self.start, 3)} to {round(self.end, 3)} s"
                raise ValueError(f"{word} at {round(start, 3)} s lies outside its window, {window}")


def write_jsonl(path: str | Path, hypotheses: Iterable[WindowHypothesis]) -> None:
    """Write hypotheses as JSONL, in the order of recordings, windows and speakers."""
    with atomic_write(path) as file:
        for item in sorted(hypotheses, key=lambda item: (item.recording, item.window, item.speaker)):
            record = {name: getattr(item, name) for name in _REQUIRED}
            record |= {name: getattr(item, name) for name in _OPTIONAL if getattr(item, name) is not None}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_jsonl(path: str | Path) -> list[WindowHypothesis]:
    """Read hypotheses from JSONL.

    Raises:
        InputError: no such file, nothing in it, or a line that does not fit; the message names file and line.
    """
    hypotheses = [_from_json(line, f"{path}: line {number}") for number, line in _lines(path)]
    _require_some(hypotheses, path)
    _refuse_twice(hypotheses, path)
    return hypotheses


def _from_json(line: str, where: str) -> WindowHypothesis:
    try:
        record = parse_json(line)
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error}): write one object per line") from None
    missing = [name for name in _REQUIRED if name not in record] if isinstance(record, dict) else list(_REQUIRED)
    if missing:
        raise InputError(f"{where}: no {', '.join(missing)}: each line must hold {', '.join(_REQUIRED)}")
    _check_types(record, where)
    times = record.get("times")
    confidences = record.get("confidences")
    try:
        return WindowHypothesis(
            **{name: record[name] for name in ("recording", "window", "speaker")},
            words=tuple(record["words"]),
            start=float(record["start"]),
            end=float(record["end"]),
            times=None if times is None else tuple((float(start), float(end)) for start, end in times),
            confidences=None if confidences is None else tuple(float(value) for value in confidences),
        )
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: {record['recording']}: {error}: fix it") from None


def _check_types(record: Mapping[str, Any], where: str) -> None:
    words = record["words"]
    faults = {
        "recording must be a name": not isinstance(record["recording"], str) or not record["recording"],
        "speaker must be a name (empty: nobody was heard)": not isinstance(record["speaker"], str),
        "window must be a whole number": not isinstance(record["window"], int) or isinstance(record["window"], bool),
        "words must be a list of words": not isinstance(words, list) or not all(_is_word(word) for word in words),
    }
    fault = next((text for text, found in faults.items() if found), None)
    if fault is None and words and not record["speaker"]:
        fault = "words without a speaker"
    if fault is not None:
        raise InputError(f"{where}: {fault}: fix it")


def _is_word(word: Any) -> bool:
    return isinstance(word, str) and len(word.split()) == 1 and word == word.strip()


def is_timed(windows: Iterable[WindowHypothesis]) -> bool:
    """Has the recogniser given the times of all words?"""
    return all(item.times is not None or not item.words for item in windows)


def word_times(hypothesis: WindowHypothesis) -> tuple[tuple[float, float], ...]:
    """Start and end of each word in seconds: the recogniser's, or, without these, the window divided evenly."""
    if hypothesis.times is not None:
        return hypothesis.times
    step = (hypothesis.end - hypothesis.start) / max(len(hypothesis.words), 1)
    return tuple(
        (hypothesis.start + step * place, hypothesis.start + step * (place + 1))
        for place in range(len(hypothesis.words))
    )


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers from 1."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file of hypotheses: check the path, or decode first") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text: convert it with iconv") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _require_some(hypotheses: Sequence[WindowHypothesis], path: str | Path) -> None:
    if not hypotheses:
        raise InputError(f"{path}: it holds no hypothesis: decode again")


def _refuse_twice(hypotheses: Iterable[WindowHypothesis], path: str | Path) -> None:
    seen: set[tuple[str, int, str]] = set()
    for item in hypotheses:
        key = (item.recording, item.window, item.speaker)
        if key in seen:
            raise InputError(
                f"{path}: {item.recording}: speaker {item.speaker} appears twice in window {item.window}: "
                "join the two lines, in the order of speech"
            )
        seen.add(key)


def group_by_speaker(hypotheses: Iterable[WindowHypothesis]) -> Grouped:
    """Group hypotheses by recording and speaker, with an empty one wherever a speaker is silent (P4, 3.1).

    A window that is missing between others is filled in at their distance: nobody was heard in it.

    Returns:
        recording -> speaker -> one hypothesis per window, window 0 first. A recording in which nobody was heard has no
        speakers.

    Raises:
        InputError: two hypotheses disagree about a window's times, windows are not in the order of their times, two are
            at the same time, or they are not counted from 0.
    """
    heard: dict[str, dict[str, dict[int, WindowHypothesis]]] = {}
    spans: dict[str, dict[int, tuple[float, float]]] = {}
    for item in hypotheses:
        speakers = heard.setdefault(item.recording, {})
        if item.speaker != NOBODY:
            speakers.setdefault(item.speaker, {})[item.window] = item
        span = spans.setdefault(item.recording, {}).setdefault(item.window, (item.start, item.end))
        if max(abs(span[0] - item.start), abs(span[1] - item.end)) > 1e-3:
            raise InputError(
                f"{item.recording}: window {item.window} goes from {span[0]} to {span[1]} s, but from {item.start} to "
                f"{item.end} s for speaker {item.speaker or 'nobody'}: cut and decode the recording again"
            )
    grouped: Grouped = {}
    for recording in sorted(heard):
        every = _every_window(recording, spans[recording])
        grouped[recording] = {
            speaker: tuple(
                items.get(index) or WindowHypothesis(recording, index, speaker, (), start, end)
                for index, (start, end) in enumerate(every)
            )
            for speaker, items in sorted(heard[recording].items())
        }
    return grouped


def _every_window(recording: str, spans: Mapping[int, tuple[float, float]]) -> list[tuple[float, float]]:
    """Start and end of each window from 0 to the last, those in between filled in."""
    order = sorted(spans)
    first, last = order[0], order[-1]
    for one, other in pairwise(order):
        if spans[other][0] <= spans[one][0]:
            raise InputError(
                f"{recording}: window {other} starts at {spans[other][0]} s, but window {one} at {spans[one][0]} s: "
                "number windows in the order of their starts"
            )
    length = max(end - start for start, end in spans.values())
    # Of a single window with an index above 0 nothing is known but its start.
    known = (0, 0.0) if first == last else (first, spans[first][0])
    shift = (spans[last][0] - known[1]) / max(last - known[0], 1)
    if first > 0 and (not spans[first][0] or spans[first][0] < first * shift / 2):
        raise InputError(f"{recording}: window {first} starts at {spans[first][0]} s: count windows from 0")
    every = []
    for index in range(last + 1):
        start = max(0.0, round(known[1] + shift * (index - known[0]), 8))
        every.append(spans.get(index, (start, start + length)))
    return every
