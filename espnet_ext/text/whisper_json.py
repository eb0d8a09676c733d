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
from typing import Any, NamedTuple

from espnet_ext.errors import InputError
from espnet_ext.text.formats import load_json
from espnet_ext.text.words import Segment, Span, divided

PARTS = (
    "segments",
    "chunks",
    "transcription",
)  # keys of the segments of Whisper, transformers and whisper.cpp


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
    parts = item[next((name for name in PARTS if name in item), PARTS[0])]
    segments = [segment for part in parts for segment in _whisper_part(part, utterance)]
    if "offset" not in item and "duration" not in item:
        return Window(
            utterance, tuple(segments), _span(item.get("start"), item.get("end"))
        )
    if not {"duration", "end"} & item.keys():
        raise ValueError("an offset without a duration: give both, in seconds")
    offset = _time(item.get("offset")) or 0.0
    span = (
        (offset, offset + float(item["duration"]))
        if "duration" in item
        else _span(item.get("start"), item["end"])
    )
    return Window(
        utterance, tuple(later(segment, offset) for segment in segments), span
    )


def later(segment: Segment, seconds: float) -> Segment:
    """Return a segment whose times count from an earlier moment."""
    times = segment.times and tuple(
        (start + seconds, end + seconds) for start, end in segment.times
    )
    begin = segment.start + seconds if segment.has_span else 0.0
    return replace(segment, start=begin, end=segment.end + seconds, times=times)


def _whisper_part(part: Mapping[str, Any], recording: str) -> Iterator[Segment]:
    """Return the segments of one of Whisper's: one for each stretch of words of one
    speaker.
    """
    who = str(part.get("speaker") or "")
    start, end = (
        part["timestamp"]
        if "timestamp" in part
        else (part.get("start"), part.get("end"))
    )
    if "offsets" in part:  # whisper.cpp's, in milliseconds
        start, end = (part["offsets"][name] / 1000 for name in ("from", "to"))
    span = _span(start, end)
    begin, until = span or (0.0, math.inf)
    if not part.get("words"):
        yield Segment(recording, who, tuple(part["text"].split()), begin, until)
        return
    timed: list[tuple[str, str, Span | None, float | None]] = []
    for word in part["words"]:
        texts, time = (
            word["word" if "word" in word else "text"].split(),
            _span(word.get("start"), word.get("end")),
        )
        score = _time(
            next(
                (
                    word[name]
                    for name in ("probability", "score", "confidence")
                    if name in word
                ),
                None,
            )
        )
        times = divided(texts, time) if time else [None] * len(texts)
        timed += [
            (str(word.get("speaker") or who), text, own, score)
            for text, own in zip(texts, times, strict=True)
        ]
    filled: Sequence[Span | None] = filled_times(
        [time for _, _, time, _ in timed], span
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


def filled_times(times: Sequence[Span | None], span: Span | None) -> list[Span] | None:
    """Fill in times that are missing: such words share the time between their
    neighbours, or from the span's ends.

    None if no time is known at all.
    """
    if not any(times) and (span is None or not times):
        return None
    filled: list[Span] = []
    for place, time in enumerate(times):
        if time is not None:
            filled.append(time)
            continue
        after = next(
            (n for n in range(place, len(times)) if times[n] is not None), len(times)
        )
        following = times[after] if after < len(times) else None
        begin = (
            filled[-1][1]
            if filled
            else span[0]
            if span
            else following[0]
            if following
            else 0.0
        )
        until = following[0] if following else span[1] if span else begin
        filled.append((begin, begin + max(0.0, until - begin) / (after - place)))
    return filled


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
