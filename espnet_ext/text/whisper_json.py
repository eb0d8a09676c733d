"""Read the JSON of Whisper, WhisperX, faster-whisper, whisper.cpp and transformers.

A file holds one object or a list. Of several, each is a window: ``start`` and ``end``
in seconds of the recording, or ``offset`` and ``duration`` if times begin with it; and,
where it is not the file's name, ``recording``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from espnet_ext.errors import InputError, warn
from espnet_ext.text.formats import load_json
from espnet_ext.text.words import Segment, Span, divide_span

# keys of the segments of Whisper, transformers and whisper.cpp
PARTS = ("segments", "chunks", "transcription")

# Keys of a word's confidence: of Whisper and faster-whisper, WhisperX, and
# whisper-timestamped.
_SCORES = ("probability", "score", "confidence")

Ends = tuple[float | None, float | None]  # start and end, where they are known


class Window(NamedTuple):
    """The segments of an utterance or window of a recording.

    ``span`` is its time in seconds, where the file says it.
    """

    utterance: str
    segments: tuple[Segment, ...]
    span: Span | None = None


class _TimedWord(NamedTuple):
    """A word as the file has it; what is not known of its times is None."""

    speaker: str
    text: str
    ends: Ends
    score: float | None


def read_whisper(path: Path) -> Iterator[Window]:
    """Read the JSON: a window for each object."""
    content = load_json(path)
    if is_segment_list(content):
        content = {"segments": content}
    several = isinstance(content, list)
    for number, item in enumerate(content if several else [content], start=1):
        where = f"{path}: entry {number}" if several else str(path)
        if not isinstance(item, dict):
            raise InputError(f"{where}: not an object: write Whisper's JSON or SegLST")
        try:
            yield _read_window(item, path.stem)
        except KeyError as error:
            raise InputError(
                f"{where}: neither Whisper's JSON nor SegLST (it has no {error}): "
                "fix it"
            ) from None
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{where}: neither Whisper's JSON nor SegLST ({error}): fix it"
            ) from None


def is_segment_list(content: Any) -> bool:
    """Return whether JSON is a bare list of segments, as faster-whisper gives them."""
    first = content[0] if isinstance(content, list) and content else None
    return (
        isinstance(first, dict)
        and first.keys() >= {"start", "end", "text"}
        and not first.keys() & {*PARTS}
    )


def _read_window(item: Mapping[str, Any], name: str) -> Window:
    """Return the window of an object, with times that count from the recording."""
    utterance = str(item.get("recording") or name)
    span, offset = _read_place(item)
    # The window as its segments count: they fill what they lack of times from it, and
    # are shifted afterwards.
    inside = span
    if span and offset is not None:
        inside = (span[0] - offset, span[1] - offset)
    # Without any of the keys the first one's KeyError becomes read_whisper's message.
    key = next((key for key in PARTS if key in item), PARTS[0])
    parts = item[key]
    ends = [_read_ends_of_part(part, utterance) for part in parts]
    spans = _complete_spans(ends, inside)
    segments: list[Segment] = []
    for part, own in zip(parts, spans, strict=True):
        for segment in _read_part(part, utterance, own):
            if offset is not None:
                segment = shift_segment(segment, offset)
            segments.append(segment)
    return Window(utterance, tuple(segments), span)


def _read_place(item: Mapping[str, Any]) -> tuple[Span | None, float | None]:
    """Return a window's span in its recording, and the moment its times count from.

    The moment, in seconds, is None if they count from the recording's start.
    """
    span = _parse_span(item.get("start"), item.get("end"))
    if "offset" not in item and "duration" not in item:
        return span, None
    if "duration" not in item and "end" not in item:
        raise ValueError("an offset without a duration: give both, in seconds")
    offset = _parse_time(item.get("offset")) or 0.0
    if "duration" in item:
        span = (offset, offset + float(item["duration"]))
    return span, offset


def _complete_spans(every: Sequence[Ends], window: Span | None) -> list[Span | None]:
    """Return the spans of segments, each missing end taken from its neighbour.

    The first and the last, such as that of transformers, which has no end, reach to the
    window's edge. A segment without both ends has no span.
    """
    spans: list[Span | None] = []
    for place, (start, end) in enumerate(every):
        if start is not None and end is not None:
            spans.append((start, end))
        elif start is not None:
            is_last = place + 1 == len(every)
            until = None if is_last else every[place + 1][0]
            if until is None:
                until = window[1] if window else start
            # Never backwards, where segments overlap.
            spans.append((start, max(start, until)))
        elif end is not None:
            begin = every[place - 1][1] if place else None
            if begin is None:
                begin = window[0] if window else 0.0
            spans.append((min(begin, end), end))
        else:
            spans.append(None)
    return spans


def shift_segment(segment: Segment, seconds: float) -> Segment:
    """Return a segment whose times count from a moment that many seconds earlier."""
    times = segment.times
    if times is not None:
        times = tuple((start + seconds, end + seconds) for start, end in times)
    # Where the span is not known, start is 0 and end is infinite: both stay so.
    start = segment.start
    if segment.has_span:
        start += seconds
    end = segment.end + seconds
    return replace(segment, start=start, end=end, times=times)


def _read_part(
    part: Mapping[str, Any], recording: str, span: Span | None
) -> Iterator[Segment]:
    """Yield the segments of one of Whisper's: one for each stretch of one speaker."""
    who = str(part.get("speaker") or "")
    whole = span or (0.0, math.inf)
    if not part.get("words"):
        texts = tuple(part["text"].split())
        yield Segment(recording, who, texts, *whole)
        return
    words: list[_TimedWord] = []
    for item in part["words"]:
        words += _read_words(item, who, recording)
    ends = [word.ends for word in words]
    # Either all words have times, or none has: so have those of one speaker below.
    filled: Sequence[Span | None] | None = fill_times(ends, span)
    if not filled:
        filled = [None] * len(words)
    timed = zip(words, filled, strict=True)
    # WhisperX names the speaker of each word, and they may change within a segment.
    for speaker, group in groupby(timed, key=lambda pair: pair[0].speaker):
        own = list(group)
        texts = tuple(word.text for word, _ in own)
        times = tuple(time for _, time in own if time)
        scores = tuple(word.score for word, _ in own if word.score is not None)
        begin, _ = times[0] if times else whole
        _, until = times[-1] if times else whole
        yield Segment(
            recording,
            speaker,
            texts,
            start=begin,
            end=until,
            times=times or None,
            confidences=scores if len(scores) == len(own) else None,
        )


def _read_ends_of_part(part: Mapping[str, Any], recording: str) -> Ends:
    """Return start and end of a segment, by the names that each tool has for them."""
    if "offsets" in part:
        # whisper.cpp's, in milliseconds
        offsets = part["offsets"]
        start = offsets["from"] / 1000
        end = offsets["to"] / 1000
    elif "timestamp" in part:
        start, end = part["timestamp"]
    else:
        start = part.get("start")
        end = part.get("end")
    text = str(part.get("text", "")).strip()
    return _parse_ends(start, end, f"{recording}: `{text}`")


def _read_words(
    item: Mapping[str, Any], who: str, recording: str
) -> Iterator[_TimedWord]:
    """Yield the words of one of Whisper's, which has several if it holds a space.

    They share its time by their lengths, as far as it is known.
    """
    # Whisper's key, or that of whisper-timestamped and transformers.
    key = "word" if "word" in item else "text"
    texts = item[key].split()
    name = next((name for name in _SCORES if name in item), _SCORES[0])
    score = _parse_time(item.get(name))
    start = item.get("start")
    end = item.get("end")
    what = " ".join(texts)
    begin, until = _parse_ends(start, end, f"{recording}: {what}")
    speaker = str(item.get("speaker") or who)
    # With one time known, it is the first word's start or the last one's end.
    spans: list[Ends] = [(None, None)] * len(texts)
    if begin is not None and until is not None:
        spans = [*divide_span(texts, (begin, until))]
    elif texts and begin is not None:
        spans[0] = (begin, None)
    elif texts:
        spans[-1] = (None, until)
    for text, ends in zip(texts, spans, strict=True):
        yield _TimedWord(speaker, text, ends, score)


def fill_times(times: Sequence[Ends], span: Span | None) -> list[Span] | None:
    """Fill in what is missing of words' times; None if no time is known at all.

    Times are in seconds. Words between two known moments (an end, the next start, an
    edge of the ``span``) share the time between them evenly; what is known is kept.
    WhisperX, for one, gives no times to numerals, which its aligner cannot spell.

    >>> fill_times([(1.0, None), (None, None), (2.0, 2.5)], None)
    [(1.0, 1.5), (1.5, 2.0), (2.0, 2.5)]
    """
    if not times:
        return None
    if span is None and all(ends == (None, None) for ends in times):
        return None
    filled: list[Span] = []
    # filled has the words before `first`; those from there on wait for a known moment.
    first = 0
    for place, (_, end) in enumerate(times):
        is_last = place + 1 == len(times)
        until = end
        if until is None and not is_last:
            until = times[place + 1][0]
            if until is None:
                continue
        begin = times[first][0]
        if begin is None and filled:
            begin = filled[-1][1]
        if begin is None:
            begin = span[0] if span else until or 0.0
        if until is None:
            until = span[1] if span else begin
        # Only their number counts here, as times are shared evenly.
        waiting = [""] * (place + 1 - first)
        # The next word may start before this one does: a span never runs backwards.
        shared = (begin, max(begin, until))
        filled += divide_span(waiting, shared, evenly=True)
        first = place + 1
    return filled


def _parse_time(value: Any) -> float | None:
    """Return a number that must be finite, as of seconds or a confidence."""
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not a finite number")
    return number


def _parse_ends(start: Any, end: Any, what: str) -> Ends:
    """Return start and end of what was said, None where they are not known.

    Of an inverted span neither is, and a warning says so.
    """
    first = _parse_time(start)
    last = _parse_time(end)
    if first is not None and last is not None and first > last:
        warn(f"{what.strip()}: from {first} to {last} s is no time span: left out")
        return None, None
    return first, last


def _parse_span(start: Any, end: Any) -> Span | None:
    first = _parse_time(start)
    last = _parse_time(end)
    if first is None or last is None:
        return None
    return first, last
