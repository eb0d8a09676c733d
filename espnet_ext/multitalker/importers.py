"""What other recognisers write, read as hypotheses of windows.

- ``.json``: Whisper's and WhisperX's (``segments``, with ``words`` or without, with ``speaker`` or without), that of
  the pipelines of transformers (``chunks``), or a list of such objects, one per window; or SegLST. A window says
  ``start`` and ``end`` in seconds of the recording, or ``offset`` and ``duration`` if the times in it begin with it.
- ``.ctm``: of Kaldi, NeMo and NIST, see :mod:`espnet_ext.data.ctm`.
- ``.rttm``: LEXEME lines, ``LEXEME utterance channel start duration word type speaker confidence``.
- ``.jsonl``: ours, see :mod:`espnet_ext.multitalker.hypotheses`.

Windows are told by their times. With a Kaldi ``segments`` file the utterances of the other files (a session of SegLST,
the name of a JSON file without its ending) are windows, and times in them count from the window's start, as Kaldi's and
NeMo's tools write them. Without it, an utterance is a recording: of one window, or, in SegLST, of one for each turn.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from espnet_ext.data.ctm import CTMWord, ctm_word, nist_lines, read_ctm
from espnet_ext.data.data_dir import Segment, parse_segment
from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.data.transcript import SPEAKER
from espnet_ext.errors import InputError
from espnet_ext.multitalker.hypotheses import (
    NOBODY,
    Grouped,
    WindowHypothesis,
    group_by_speaker,
    read_jsonl,
)
from espnet_ext.work.json_text import parse_json

Span = tuple[float, float]


@dataclass(frozen=True)
class HeardWord:
    """A word as a recogniser writes it; times in seconds, or None where it gives none."""

    speaker: str
    text: str
    start: float | None
    end: float | None
    confidence: float | None = None


@dataclass(frozen=True)
class HeardWindow:
    """The words of an utterance or window, in the order of the file; its span in seconds, where the file says it."""

    utterance: str
    words: tuple[HeardWord, ...]
    span: Span | None = None


def read_grouped(paths: Path | Sequence[Path], segments: Path | None = None, *, speaker: str = SPEAKER) -> Grouped:
    """Read hypotheses of windows, grouped by recording and speaker.

    Args:
        paths: files of one or several of the formats above.
        segments: Kaldi's, of the windows.
        speaker: the speaker of words that name none.

    Raises:
        InputError: a file that is missing or does not fit; windows that do not, see :func:`group_by_speaker`.
    """
    every = [paths] if isinstance(paths, Path) else list(paths)
    known = _segments(segments) if segments else None
    ours = [item for path in every if path.suffix == ".jsonl" for item in read_jsonl(path)]
    heard = [(path, window) for path in every if path.suffix != ".jsonl" for window in _read(path, speaker)]
    placed = [_placed(path, window, known) for path, window in heard]
    turns = known is None and any(_is_seglst(path) for path in every if path.suffix == ".json")
    return _own_windows(placed) if turns else group_by_speaker([*ours, *_hypotheses(placed)])


def _segments(path: Path) -> dict[str, Segment]:
    found = {}
    for key, row in read_table(path).items():
        try:
            found[key] = parse_segment(row)
        except ValueError:
            raise InputError(f"{path}: {key}: `{row}` is not `recording start end`: fix it") from None
        if not 0 <= found[key].start < found[key].end:
            raise InputError(f"{path}: {key}: from {found[key].start} to {found[key].end} s is no window: fix it")
    return found


def _read(path: Path, speaker: str) -> Iterator[HeardWindow]:
    readers: dict[str, Callable[[Path, str], Iterable[HeardWindow]]] = {
        ".json": _read_json,
        ".ctm": _read_ctm,
        ".rttm": _read_rttm,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: hypotheses end in .jsonl, .json, .ctm or .rttm: rename the file")
    found = list(reader(path, speaker))
    if not found:
        raise InputError(f"{path}: it holds no word: decode again")
    yield from found


def _placed(
    path: Path, window: HeardWindow, segments: Mapping[str, Segment] | None
) -> tuple[str, Span, tuple[HeardWord, ...]]:
    """Recording and span of a window, and its words with the times of the recording."""
    if segments is not None:
        segment = segments.get(window.utterance)
        if segment is None:
            raise InputError(f"{path}: {window.utterance} is not in --segments: give the segments of its windows")
        moved = tuple(
            replace(word, start=_plus(word.start, segment.start), end=_plus(word.end, segment.start))
            for word in window.words
        )
        return segment.recording, (segment.start, segment.end), moved
    if window.span is None:
        ends = [word.end for word in window.words if word.end is not None]
        if not ends or max(ends) <= 0:
            raise InputError(f"{path}: {window.utterance}: no times: give --segments, or times of words or segments")
        return window.utterance, (0.0, max(ends)), window.words
    return window.utterance, window.span, window.words


def _plus(time: float | None, offset: float) -> float | None:
    return None if time is None else time + offset


def _hypotheses(placed: Iterable[tuple[str, Span, tuple[HeardWord, ...]]]) -> Iterator[WindowHypothesis]:
    """Windows of all recordings, numbered in the order of their times."""
    recordings: dict[str, dict[Span, list[HeardWord]]] = {}
    for recording, span, words in placed:
        recordings.setdefault(recording, {}).setdefault(span, []).extend(words)
    for recording, windows in recordings.items():
        for index, span in enumerate(sorted(windows)):
            speakers: dict[str, list[HeardWord]] = {}
            for word in windows[span]:
                speakers.setdefault(word.speaker, []).append(word)
            for speaker, own in (speakers or {NOBODY: []}).items():
                yield _hypothesis(recording, index, speaker, span, own)


def _own_windows(placed: Iterable[tuple[str, Span, tuple[HeardWord, ...]]]) -> Grouped:
    """Each speaker's turns as windows of that speaker alone: of the others a turn says nothing."""
    grouped: dict[str, dict[str, list[WindowHypothesis]]] = {}
    for recording, span, words in sorted(placed, key=lambda item: (item[0], item[1])):
        own = grouped.setdefault(recording, {})
        if words:
            windows = own.setdefault(words[0].speaker, [])
            windows.append(_hypothesis(recording, len(windows), words[0].speaker, span, words))
    return {name: {who: tuple(windows) for who, windows in sorted(own.items())} for name, own in grouped.items()}


def _hypothesis(recording: str, index: int, speaker: str, span: Span, words: Sequence[HeardWord]) -> WindowHypothesis:
    confidences = [word.confidence for word in words if word.confidence is not None]
    try:
        return WindowHypothesis(
            recording,
            index,
            speaker,
            tuple(word.text for word in words),
            *span,
            times=_filled(words, span),
            confidences=tuple(confidences) if words and len(confidences) == len(words) else None,
        )
    except ValueError as error:
        raise InputError(f"{recording}: {error}: fix the hypotheses") from None


def _filled(words: Sequence[HeardWord], span: Span) -> tuple[Span, ...] | None:
    """The times of words; those without share the time between their neighbours. None: no word has a time."""
    if all(word.start is None for word in words):
        return None
    times: list[Span] = []
    for place, word in enumerate(words):
        if word.start is not None and word.end is not None:
            times.append((word.start, word.end))
            continue
        after = next((n for n in range(place, len(words)) if words[n].start is not None), len(words))
        begin = times[-1][1] if times else span[0]
        until = words[after].start if after < len(words) else span[1]
        end = begin + max(0.0, (until or 0.0) - begin) / (after - place)
        times.append((begin, end))
    return tuple(times)


def _load(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file of hypotheses: check the path, or decode first") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}): write Whisper's JSON or SegLST") from None


def _is_seglst(path: Path) -> bool:
    content = _load(path)
    return isinstance(content, list) and bool(content) and isinstance(content[0], dict) and "session_id" in content[0]


def _read_json(path: Path, speaker: str) -> Iterator[HeardWindow]:
    content = _load(path)
    items = content if isinstance(content, list) else [content]
    for number, item in enumerate(items, start=1):
        where = f"{path}: entry {number}" if content is items else str(path)
        if not isinstance(item, dict):
            raise InputError(f"{where}: not an object: write Whisper's JSON or SegLST")
        try:
            yield _turn(item, speaker) if "session_id" in item else _whisper(item, path.stem, speaker)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{where}: neither Whisper's JSON nor SegLST ({error!r}): fix it") from None


def _turn(item: Mapping[str, Any], speaker: str) -> HeardWindow:
    """A turn of SegLST; its words share its time by their letters."""
    span = _span(item.get("start_time"), item.get("end_time"))
    words = tuple(_shared(item["words"], item.get("speaker") or speaker, span))
    return HeardWindow(str(item["session_id"]), words, span)


def _whisper(item: Mapping[str, Any], name: str, speaker: str) -> HeardWindow:
    parts = item["segments"] if "segments" in item else item["chunks"]
    words = [word for part in parts for word in _whisper_words(part, speaker)]
    offset = _time(item.get("offset")) or 0.0
    span = _span(item.get("start"), item.get("end"))
    if "duration" in item:
        span = (offset, offset + float(item["duration"]))
    moved = (replace(word, start=_plus(word.start, offset), end=_plus(word.end, offset)) for word in words)
    return HeardWindow(str(item.get("recording") or name), tuple(moved), span)


def _whisper_words(part: Mapping[str, Any], speaker: str) -> Iterator[HeardWord]:
    """The words of a segment: with times, or sharing the segment's by their letters."""
    who = part.get("speaker") or speaker
    if not part.get("words"):
        start, end = part["timestamp"] if "timestamp" in part else (part.get("start"), part.get("end"))
        yield from _shared(part["text"], who, _span(start, end))
        return
    for word in part["words"]:
        span = _span(word.get("start"), word.get("end"))
        score = _time(word.get("probability", word.get("score")))
        for each in _shared(word["word"], word.get("speaker") or who, span):
            yield replace(each, confidence=score)


def _shared(text: str, speaker: str, span: Span | None) -> Iterator[HeardWord]:
    """The words of a text, which share its time by their letters."""
    words = text.split()
    letters = sum(map(len, words))
    start, end = span or (None, None)
    done = 0
    for word in words:
        share = [None if start is None or end is None else start + (end - start) * at / letters
                 for at in (done, done + len(word))]  # fmt: skip
        yield HeardWord(str(speaker), word, share[0], share[1])
        done += len(word)


def _time(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not a finite number")
    return number


def _span(start: Any, end: Any) -> Span | None:
    first, last = _time(start), _time(end)
    return None if first is None or last is None else (first, last)


def _read_ctm(path: Path, speaker: str) -> Iterator[HeardWindow]:
    return _by_utterance(read_ctm(path), speaker)


def _read_rttm(path: Path, speaker: str) -> Iterator[HeardWindow]:
    layout = "LEXEME utterance channel start duration word type speaker confidence"

    def words() -> Iterator[CTMWord]:
        for where, line in nist_lines(path):
            if line.split()[0] == "LEXEME":
                timed, labels = line.split()[1:6], line.split()[6:]
                kind, who, score = [*labels, *["NA"] * 3][:3]
                yield ctm_word([*timed, score, kind, who] if len(timed) == 5 else timed, where, layout)

    return _by_utterance(words(), speaker)


def _by_utterance(words: Iterable[CTMWord], speaker: str) -> Iterator[HeardWindow]:
    utterances: dict[str, list[HeardWord]] = {}
    for word in words:
        heard = HeardWord(word.speaker or speaker, word.text, word.start, word.end, word.confidence)
        utterances.setdefault(word.recording, []).append(heard)
    for utterance, own in utterances.items():
        yield HeardWindow(utterance, tuple(sorted(own, key=lambda word: word.start or 0.0)))
