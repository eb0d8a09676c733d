"""Write segments to SegLST, windows to our JSON, and lines to files for people.

Lines have word times: subtitles, plain text, CTM, JSON like Whisper's.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from espnet_ext.errors import InputError, warn
from espnet_ext.text import captions
from espnet_ext.text.formats import NOT_KNOWN
from espnet_ext.text.words import SPEAKER, Segment, Word, divide_span, sort_by_start
from espnet_ext.work.files import atomic_write, write_json

SCREEN = 42  # characters of a line on a screen
SHOWN = 1.0  # seconds that a subtitle is shown at least, if none follows
AFTER = 0.5  # seconds that it is shown after its last word, if none follows
# Seconds between two subtitles of which the second repeats the first: more than
# captions.TOUCHING, so that our own reader does not take them for rolling captions.
APART = 0.1
BRIEFEST = 0.01  # seconds of the first, if it must end before its last word for that

Recordings = Mapping[str, Sequence[Segment]]


def format_clock(seconds: float, mark: str = ".") -> str:
    """Write a time as subtitles have it; SRT's ``mark`` before milliseconds is a comma.

    >>> format_clock(3599.9996)
    '01:00:00.000'
    """
    # Rounded before it is divided: 59.9996 s are a minute, not 60.000 seconds.
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds, rest = divmod(rest, 1000)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{mark}{rest:03d}"


def show_line(line: Segment) -> str:
    """Return a line for a terminal: times, the speaker if known, and the words."""
    start = format_clock(line.start)
    end = format_clock(line.end)
    return f"[{start} --> {end}] {_format_line(line)}"


def _format_line(line: Segment) -> str:
    return f"{line.speaker}: {line.text}" if line.speaker else line.text


def _format_txt(recordings: Recordings) -> str:
    return "".join(
        f"{_format_line(line)}\n" for lines in recordings.values() for line in lines
    )


def _format_json(recordings: Recordings) -> str:
    (lines,) = recordings.values()
    content = {
        "text": " ".join(line.text for line in lines),
        "segments": [_make_json_segment(line) for line in lines],
    }
    return _dump_json(content)


def _make_json_segment(line: Segment) -> dict[str, Any]:
    """Return a line as Whisper's JSON has a segment."""
    segment: dict[str, Any] = {
        "start": round(line.start, 3),
        "end": round(line.end, 3),
        "text": line.text,
    }
    if line.speaker:
        segment["speaker"] = line.speaker
    segment["words"] = [
        {
            "text": word.text,
            "start": round(word.start, 3),
            "end": round(word.end, 3),
            "confidence": round(word.confidence, 3),
        }
        for word in line.timed_words
    ]
    return segment


def _dump_json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _make_seglst_entry(segment: Segment) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "session_id": segment.recording,
        "speaker": segment.speaker,
    }
    # JSON has no infinity, which the end of an unknown span is.
    if segment.has_span:
        entry["start_time"] = segment.start
        entry["end_time"] = segment.end
    entry["words"] = segment.text
    return entry


def write_segments(path: str | Path, segments: Iterable[Segment]) -> None:
    """Write segments as SegLST, sorted by recording and start."""
    write_json(
        path, [_make_seglst_entry(segment) for segment in sort_by_start(segments)]
    )


def write_hypotheses(path: str | Path, windows: Iterable[Segment]) -> None:
    """Write what was recognised in windows as JSON, one object per line.

    Lines are sorted by recording, window and speaker. Times are in seconds from the
    recording's start; ``times`` ([start, end] of each word) and ``confidences`` are
    there if the recogniser gives them. A window in which nobody speaks has one line
    with an empty speaker and no words.
    """
    names = (
        "recording",
        "window",
        "start",
        "end",
        "speaker",
        "words",
        "times",
        "confidences",
    )
    ordered = sorted(
        windows, key=lambda item: (item.recording, item.window, item.speaker)
    )
    with atomic_write(path) as file:
        for item in ordered:
            values = {name: getattr(item, name) for name in names}
            record = {
                name: value for name, value in values.items() if value is not None
            }
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _format_seglst(recordings: Recordings) -> str:
    entries = []
    for name, lines in recordings.items():
        for line in lines:
            # SegLST demands a speaker of each turn (formats.read_seglst).
            turn = Segment(
                name,
                line.speaker or SPEAKER,
                line.words,
                round(line.start, 3),
                round(line.end, 3),
            )
            entries.append(_make_seglst_entry(turn))
    return _dump_json(entries)


def _format_ctm(recordings: Recordings) -> str:
    speakers = {line.speaker for lines in recordings.values() for line in lines}
    names = _replace_blanks(speakers, "speakers")
    changed = [name for name in sorted(speakers) if names[name] != name]
    if changed:
        warn(
            f"a CTM's names have no blanks: speaker {changed[0]} is written "
            f"{names[changed[0]]}"
        )
    comments = [name for name in recordings if name.startswith(";;")]
    nobody = [name for name in names.values() if name in NOT_KNOWN]
    if comments or nobody:
        raise InputError(
            f"{(comments + nobody)[0]!r}: in a CTM ;; begins a comment, and NA is "
            "nobody: rename it"
        )
    rows = []
    for name, lines in recordings.items():
        for line in lines:
            # The speaker is the eighth field, after the type of the word, lexical.
            speaker = f" lex {names[line.speaker]}" if line.speaker else ""
            for word in line.timed_words:
                duration = word.end - word.start
                rows.append(
                    f"{name} 1 {word.start:.3f} {duration:.3f} {word.text} "
                    f"{word.confidence:.3f}{speaker}\n"
                )
    return "".join(rows)


def _replace_blanks(names: Iterable[str], what: str) -> dict[str, str]:
    """Return each name with its form in formats in which blanks separate fields."""
    written = {name: "_".join(name.split()) for name in names}
    if len(set(written.values())) < len(written):
        changed = [name for name, other in written.items() if name != other]
        raise InputError(
            f"{what} {', '.join(map(repr, changed))}: without blanks their names are "
            "those of others: rename them"
        )
    return written


def _time_cues(lines: Sequence[Segment]) -> Iterator[tuple[float, float]]:
    """Yield start and end of each subtitle in seconds, shown until the next."""
    for place, line in enumerate(lines):
        end = max(line.end + AFTER, line.start + SHOWN)
        if place + 1 < len(lines):
            following = lines[place + 1]
            # Cues that touch and grow would be read as one that is shown again.
            again = following.words[: len(line.words)] == line.words
            shortest = min(line.end, line.start + BRIEFEST) if again else line.end
            end = max(shortest, min(end, following.start - APART * again))
        yield line.start, end


def _wrap(text: str) -> str:
    """Break a text that is too long for a line near its middle."""
    spaces = [place for place, letter in enumerate(text) if letter == " "]
    if len(text) <= SCREEN or not spaces:
        return text
    middle = min(spaces, key=lambda place: abs(2 * place - len(text)))
    # The second line begins anew, and a reader would look for a name there, too.
    second = captions.escape_bracket(text[middle + 1 :])
    return f"{text[:middle]}\n{second}"


def _make_cues(
    recordings: Recordings,
    escape: Callable[[str], str],
    write_voice: Callable[[str], str],
) -> Iterator[tuple[float, float, str]]:
    """Yield start and end of each subtitle in seconds, and its text.

    A subtitle has two lines at most; ``write_voice`` writes the name of a speaker
    before it.
    """
    (lines,) = recordings.values()
    texts = [escape(line.text) for line in lines]
    if not any(line.speaker for line in lines):
        texts = captions.escape_names(texts)
    for line, (start, end), text in zip(lines, _time_cues(lines), texts, strict=True):
        name = write_voice(escape(line.speaker)) if line.speaker else ""
        own = text if name else captions.escape_bracket(text)
        yield start, end, name + _wrap(own)


def _format_srt(recordings: Recordings) -> str:
    def write_voice(name: str) -> str:
        escaped = name.replace("[", "&#91;").replace("]", "&#93;")
        return f"[{escaped}]: "

    blocks = []
    cues = _make_cues(recordings, captions.escape_srt, write_voice)
    for number, (start, end, text) in enumerate(cues, start=1):
        times = f"{format_clock(start, ',')} --> {format_clock(end, ',')}"
        blocks.append(f"{number}\n{times}\n{text}\n")
    return "\n".join(blocks)


def _format_vtt(recordings: Recordings) -> str:
    blocks = ["WEBVTT\n"]
    for start, end, text in _make_cues(
        recordings, captions.escape_vtt, write_voice="<v {}>".format
    ):
        times = f"{format_clock(start)} --> {format_clock(end)}"
        blocks.append(f"{times}\n{text}\n")
    return "\n".join(blocks)


FORMATS: Mapping[str, Callable[[Recordings], str]] = MappingProxyType(
    {
        "txt": _format_txt,
        "json": _format_json,
        "seglst": _format_seglst,
        "ctm": _format_ctm,
        "srt": _format_srt,
        "vtt": _format_vtt,
    }
)
OF_SEVERAL = ("txt", "seglst", "ctm")  # formats that may hold more than one recording


def _split_words(line: Segment) -> Segment:
    """Split words that hold white space, such as a no-break space, as all readers do.

    Their parts share the time by their lengths.
    """
    if all(word.split() == [word] for word in line.words):
        return line
    words: list[Word] = []
    for word in line.timed_words:
        parts = word.text.split()
        spans = divide_span(parts, (word.start, word.end))
        for part, (start, end) in zip(parts, spans, strict=True):
            words.append(Word(part, start, end, word.confidence))
    return replace(
        line,
        words=tuple(word.text for word in words),
        times=tuple((word.start, word.end) for word in words),
        confidences=tuple(word.confidence for word in words),
    )


def write_transcript(path: str | Path, recordings: Recordings, kind: str) -> None:
    """Write the lines of recordings, by their names, to a file of one of ``FORMATS``.

    ``json`` is like Whisper's; ``ctm`` has confidences and, in the eighth column, the
    speaker. Subtitles are shown a little longer than their words, to be read. In
    ``seglst`` and ``ctm`` names have no blanks. Raises InputError: an unknown format,
    or several recordings in one that holds a single one.
    """
    if kind not in FORMATS:
        raise InputError(
            f"there is no format {kind!r}: choose some of {', '.join(FORMATS)}"
        )
    if len(recordings) > 1 and kind not in OF_SEVERAL:
        raise InputError(
            f"{path}: {kind} holds one recording, not {len(recordings)}: choose "
            f"{', '.join(OF_SEVERAL)}"
        )
    names = _replace_blanks(recordings, "recordings")
    named = {
        names[name]: [_split_words(line) for line in lines]
        for name, lines in recordings.items()
    }
    with atomic_write(path) as file:
        file.write(FORMATS[kind](named))
