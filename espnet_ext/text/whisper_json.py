"""Read the JSON of Whisper and WhisperX (``segments``), faster-whisper, whisper.cpp and
transformers, one or several.

Of several, each is a window: ``start`` and ``end`` in seconds of the recording, or
``offset`` and ``duration`` if times begin with it; and, where it is not the file's
name, ``recording``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, cast

from espnet_ext.errors import InputError, warn
from espnet_ext.text.formats import load_json
from espnet_ext.text.words import Segment, Span, divide_span

PARTS = (
    "segments",
    "chunks",
    "transcription",
)  # keys of the segments of Whisper, transformers and whisper.cpp


Ends = tuple[float | None, float | None]  # start and end, where they are known


class Window(NamedTuple):
    """The segments of an utterance or window of a recording, and its span in seconds,
    where the file says it.
    """

    utterance: str
    segments: tuple[Segment, ...]
    span: Span | None = None


def read_whisper(path: Path) -> Iterator[Window]:
    """Read the JSON: a window for each object."""
    content = load_json(path)
    if is_segment_list(content):
        content = {"segments": content}
    for number, item in enumerate(
        content if isinstance(content, list) else [content], start=1
    ):
        where = f"{path}: entry {number}" if isinstance(content, list) else str(path)
        if not isinstance(item, dict):
            raise InputError(f"{where}: not an object: write Whisper's JSON or SegLST")
        try:
            yield _whisper_window(item, path.stem)
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
    """Return whether JSON is a list of Whisper's segments, as faster-whisper gives
    them, without what is around it.
    """
    first = content[0] if isinstance(content, list) and content else None
    return (
        isinstance(first, dict)
        and first.keys() >= {"start", "end", "text"}
        and not first.keys() & {*PARTS}
    )


def _whisper_window(item: Mapping[str, Any], name: str) -> Window:
    utterance = str(item.get("recording") or name)
    own = _span(item.get("start"), item.get("end"))
    shifted = "offset" in item or "duration" in item
    if shifted and not {"duration", "end"} & item.keys():
        raise ValueError("an offset without a duration: give both, in seconds")
    offset = _time(item.get("offset")) or 0.0
    if "duration" in item:
        own = (offset, offset + float(item["duration"]))
    elif shifted:
        own = _span(item.get("start"), item["end"])
    parts = item[next((name for name in PARTS if name in item), PARTS[0])]
    inside = own and (own[0] - offset, own[1] - offset)
    spans = _whole_spans([_ends_of_part(part, utterance) for part in parts], inside)
    segments = [
        segment
        for part, span in zip(parts, spans, strict=True)
        for segment in _whisper_part(part, utterance, span)
    ]
    if not shifted:
        return Window(utterance, tuple(segments), own)
    return Window(
        utterance, tuple(shift_segment(each, offset) for each in segments), own
    )


def _whole_spans(every: Sequence[Ends], window: Span | None) -> list[Span | None]:
    """Return the spans of segments; one of which an end is missing, as of
    transformers' last, reaches to its neighbour or to the window's edge.
    """
    spans: list[Span | None] = []
    for place, (start, end) in enumerate(every):
        if start is None and end is None:
            spans.append(None)
            continue
        if end is None:
            after = every[place + 1][0] if place + 1 < len(every) else None
            edge = window[1] if window else start
            end = edge if after is None else after
        if start is None:
            before = every[place - 1][1] if place else None
            edge = window[0] if window else 0.0
            start = edge if before is None else before
        known = start, cast(float, end)
        spans.append(
            (known[0], max(known))
            if every[place][1] is None
            else (min(known), known[1])
        )
    return spans


def shift_segment(segment: Segment, seconds: float) -> Segment:
    """Return a segment whose times count from an earlier moment."""
    times = segment.times and tuple(
        (start + seconds, end + seconds) for start, end in segment.times
    )
    begin = segment.start + seconds if segment.has_span else 0.0
    return replace(segment, start=begin, end=segment.end + seconds, times=times)


def _whisper_part(
    part: Mapping[str, Any], recording: str, span: Span | None
) -> Iterator[Segment]:
    """Return the segments of one of Whisper's: one for each stretch of words of one
    speaker.
    """
    who = str(part.get("speaker") or "")
    begin, until = span or (0.0, math.inf)
    if not part.get("words"):
        yield Segment(recording, who, tuple(part["text"].split()), begin, until)
        return
    timed = [
        item for word in part["words"] for item in _timed_words(word, who, recording)
    ]
    filled: Sequence[Span | None] = fill_times(
        [ends for _, _, ends, _ in timed], span
    ) or [None] * len(timed)
    for speaker, group in groupby(
        zip(timed, filled, strict=True), key=lambda pair: pair[0][0]
    ):
        own = list(group)
        known = tuple(time for _, time in own if time)
        scores = tuple(score for (*_, score), _ in own if score is not None)
        yield Segment(
            recording,
            speaker,
            tuple(text for (_, text, *_), _ in own),
            known[0][0] if known else begin,
            known[-1][1] if known else until,
            known or None,
            scores if len(scores) == len(own) else None,
        )


def _ends_of_part(part: Mapping[str, Any], recording: str) -> Ends:
    """Return start and end of a segment, by the names that each tool has for them."""
    if "offsets" in part:  # whisper.cpp's, in milliseconds
        start, end = (part["offsets"][name] / 1000 for name in ("from", "to"))
    elif "timestamp" in part:
        start, end = part["timestamp"]
    else:
        start, end = part.get("start"), part.get("end")
    return _ends(start, end, f"{recording}: `{str(part.get('text', '')).strip()}`")


def _timed_words(
    word: Mapping[str, Any], who: str, recording: str
) -> Iterator[tuple[str, str, Ends, float | None]]:
    """Yield speaker, text, start and end, and confidence of a word, which may be
    several.
    """
    texts = word["word" if "word" in word else "text"].split()
    names = ("probability", "score", "confidence")
    score = _time(next((word[name] for name in names if name in word), None))
    begin, until = _ends(
        word.get("start"), word.get("end"), f"{recording}: {' '.join(texts)}"
    )
    speaker = str(word.get("speaker") or who)
    spans: Sequence[Ends]
    if begin is not None and until is not None:
        spans = divide_span(texts, (begin, until))
    else:
        inner: list[Ends] = [(None, None)] * max(0, len(texts) - 1)
        spans = [*inner, (None, until)] if begin is None else [(begin, None), *inner]
    for text, ends in zip(texts, spans, strict=False):
        yield speaker, text, ends, score


def fill_times(times: Sequence[Ends], span: Span | None) -> list[Span] | None:
    """Fill in times of words that are missing, from the span's ends or the words
    beside them; of a word with one end that end is kept.

    None if no time is known at all.

    >>> fill_times([(1.0, None), (None, None), (2.0, 2.5)], None)
    [(1.0, 1.5), (1.5, 2.0), (2.0, 2.5)]
    """
    if span is None and all(ends == (None, None) for ends in times):
        return None
    if not times:
        return None
    filled: list[Span] = []
    first = 0  # of the words that share the time between two known moments
    for place, (_, end) in enumerate(times):
        following = times[place + 1][0] if place + 1 < len(times) else None
        if end is None and following is None and place + 1 < len(times):
            continue
        begin = times[first][0]
        until = following if end is None else end
        if begin is None and filled:
            begin = filled[-1][1]
        if begin is None:
            begin = span[0] if span else until or 0.0
        if until is None:
            until = span[1] if span else begin
        shared = [""] * (place + 1 - first)
        filled += divide_span(shared, (begin, max(begin, until)), evenly=True)
        first = place + 1
    return filled


def _time(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not a finite number")
    return number


def _ends(start: Any, end: Any, what: str) -> Ends:
    """Return start and end of what was said, None where they are not known; of an
    inverted span neither is, and a line says so.
    """
    first, last = _time(start), _time(end)
    if first is not None and last is not None and first > last:
        warn(f"{what.strip()}: from {first} to {last} s is no time span: left out")
        return None, None
    return first, last


def _span(start: Any, end: Any) -> Span | None:
    first, last = _time(start), _time(end)
    return None if first is None or last is None else (first, last)
