"""Files of other recognisers: Whisper's and WhisperX's JSON, SegLST, CTM and RTTM, read as what was heard in windows.

:mod:`espnet_ext.multitalker.heard.importers` describes the formats.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.text.ctm import CTMWord, ctm_word, nist_lines, read_ctm
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

    def later(self, seconds: float) -> "HeardWord":
        """The word with times that count from an earlier moment."""
        start, end = (None if time is None else time + seconds for time in (self.start, self.end))
        return replace(self, start=start, end=end)


@dataclass(frozen=True)
class HeardWindow:
    """The words of an utterance or window; its span in seconds, where the file says it.

    Attributes:
        back: where times of one speaker go back in the file, from when to when in seconds; the words are in order.
    """

    utterance: str
    words: tuple[HeardWord, ...]
    span: Span | None = None
    back: Span | None = None


def read_heard(path: Path, speaker: str) -> list[HeardWindow]:
    """What a file holds; nothing if it has no word.

    Raises:
        InputError: the file is missing, or not of the format that its ending names.
    """
    readers: dict[str, Callable[[Path, str], Iterable[HeardWindow]]] = {
        ".json": _read_json,
        ".ctm": _read_ctm,
        ".rttm": _read_rttm,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: hypotheses end in .jsonl, .json, .ctm or .rttm: rename the file")
    # Recognisers write an empty CTM for a window in which nobody speaks.
    if reader is not _read_json and path.is_file() and not path.read_bytes().strip():
        return []
    return list(reader(path, speaker))


def _load(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file of hypotheses: check the path, or decode first") from None
    except ValueError as error:
        what = f"not JSON ({error})" if path.read_bytes().strip() else "it is empty"
        raise InputError(f"{path}: {what}: write Whisper's JSON or SegLST") from None


def is_seglst(path: Path) -> bool:
    """Is it a JSON file with turns, and not with windows?"""
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
        except KeyError as error:
            raise InputError(f"{where}: neither Whisper's JSON nor SegLST (it has no {error}): fix it") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{where}: neither Whisper's JSON nor SegLST ({error}): fix it") from None


def _turn(item: Mapping[str, Any], speaker: str) -> HeardWindow:
    """A turn of SegLST; its words share its time by their letters."""
    span = _span(item.get("start_time"), item.get("end_time"))
    words = tuple(_shared(item["words"], item.get("speaker") or speaker, span))
    return HeardWindow(str(item["session_id"]), words, span)


def _whisper(item: Mapping[str, Any], name: str, speaker: str) -> HeardWindow:
    parts = item["segments"] if "segments" in item else item["chunks"]
    words = [word for part in parts for word in _whisper_words(part, speaker)]
    offset = _time(item.get("offset")) or 0.0
    if "offset" in item and not {"duration", "end"} & item.keys():
        raise ValueError("an offset without a duration: give both, in seconds")
    span = _span(item.get("start"), item.get("end"))
    if "duration" in item:
        span = (offset, offset + float(item["duration"]))
    return HeardWindow(str(item.get("recording") or name), tuple(word.later(offset) for word in words), span)


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
        yield HeardWindow(utterance, tuple(sorted(own, key=lambda word: word.start or 0.0)), back=_step_back(own))


def _step_back(words: Iterable[HeardWord]) -> Span | None:
    """Where a speaker's words first go back by more than a second: from when to when."""
    last: dict[str, float] = {}
    for word in words:
        start = word.start or 0.0
        if start < last.get(word.speaker, 0.0) - 1.0:
            return last[word.speaker], start
        last[word.speaker] = start
    return None
