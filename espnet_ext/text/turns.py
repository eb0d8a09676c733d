"""Who said what, and when: turns of a recording, in the SegLST format of MeetEval and CHiME (JSON).

A turn says ``session_id``, ``speaker``, ``start_time`` and ``end_time`` in seconds, and ``words`` (text); the times may
be left out. A recording in which nobody speaks has one turn without words.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.work.files import write_json
from espnet_ext.work.json_text import parse_json

SPEAKER_CHANGE = "<sc>"


@dataclass(frozen=True)
class Turn:
    """What one speaker says without a break.

    Attributes:
        words: empty for somebody who is known to be silent.
        start, end: seconds from the recording's start, or None where they are not known.
    """

    recording: str
    speaker: str
    words: tuple[str, ...]
    start: float | None = None
    end: float | None = None

    @property
    def span(self) -> tuple[float, float]:
        """Start and end in seconds.

        Raises:
            InputError: they are not known.
        """
        if self.start is None or self.end is None:
            raise InputError(f"{self.recording}: a turn of {self.speaker} has no times: give start_time and end_time")
        return self.start, self.end


def write_turns(path: str | Path, turns: Iterable[Turn]) -> None:
    """Write turns as SegLST, sorted by recording and start."""
    write_json(path, [segment(turn) for turn in in_order(turns)])


def segment(turn: Turn) -> dict[str, Any]:
    """The turn as SegLST has it."""
    times = {} if turn.start is None else {"start_time": turn.start, "end_time": turn.end}
    return {"session_id": turn.recording, "speaker": turn.speaker, **times, "words": " ".join(turn.words)}


def in_order(turns: Iterable[Turn]) -> list[Turn]:
    """Turns by recording, and in each by start; if a turn with words has no time, its recording keeps its order.

    >>> [turn.words for turn in in_order([Turn("r", "a", ("B",)), Turn("r", "a", ("A",), 0.0, 1.0)])]
    [('B',), ('A',)]
    """
    ordered: list[Turn] = []
    for _, own in sorted(by_recording(turns).items()):
        timed = all(turn.start is not None for turn in own if turn.words)
        ordered += sorted(own, key=lambda turn: turn.start or 0.0) if timed else own
    return ordered


def by_recording(turns: Iterable[Turn]) -> dict[str, list[Turn]]:
    """The turns of each recording, in the order given.

    >>> recordings = by_recording([Turn("r", "b", ()), Turn("s", "a", ()), Turn("r", "a", ())])
    >>> {name: [turn.speaker for turn in own] for name, own in recordings.items()}
    {'r': ['b', 'a'], 's': ['a']}
    """
    recordings: dict[str, list[Turn]] = {}
    for turn in turns:
        recordings.setdefault(turn.recording, []).append(turn)
    return recordings


def read_turns(path: str | Path, *, may_be_empty: bool = False) -> list[Turn]:
    """Read turns from SegLST; ``may_be_empty``: a list without turns is one in which nobody speaks.

    Raises:
        InputError: no such file, not SegLST, or no turn in it; the message says which entry.
    """
    try:
        records = parse_json(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file: check the path, or run the stage that writes it") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}): write SegLST") from None
    if not isinstance(records, list) or not (records or may_be_empty):
        raise InputError(f"{path}: not a list of turns: write SegLST, one object per turn")
    return [_turn(record, f"{path}: turn {number}") for number, record in enumerate(records, start=1)]


def _turn(record: Any, where: str) -> Turn:
    if not isinstance(record, dict):
        raise InputError(f"{where}: not an object: write SegLST")
    for name in ("session_id", "speaker", "words"):
        if not isinstance(record.get(name), str):
            raise InputError(f"{where}: no {name}, or no text in it: write SegLST")
    if not record["session_id"]:
        raise InputError(f"{where}: the session_id is empty: name the recording")
    if not record["speaker"] and record["words"].strip():
        raise InputError(f"{where}: words of {record['session_id']} without a speaker: name the speaker")
    start, end = (_seconds(record, name, where) for name in ("start_time", "end_time"))
    if start is not None or end is not None:
        check_span(start, end, where)
    return Turn(record["session_id"], record["speaker"], tuple(record["words"].split()), start, end)


def check_span(start: float | None, end: float | None, where: str) -> None:
    """Refuse times that are no time span.

    Raises:
        InputError: one is missing, they are reversed or not finite.
    """
    if start is None or end is None or not 0 <= start <= end < math.inf:
        raise InputError(f"{where}: from {start} to {end} s is not a time span: fix it, or leave both out")


def _seconds(record: Mapping[str, Any], name: str, where: str) -> float | None:
    value = record.get(name)
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: {name} is {value!r}, not a number of seconds: fix it") from None


def word_spans(turn: Turn) -> list[tuple[float, float]]:
    """Start and end of each word of a turn: the turn's time is divided among its words by their numbers of letters.

    Raises:
        InputError: the turn has no times.
    """
    begin, end = turn.span
    letters = [len(word) + 1 for word in turn.words]
    step = (end - begin) / max(1, sum(letters))
    starts = [begin + step * sum(letters[:place]) for place in range(len(letters))]
    return [(start, start + step * count) for start, count in zip(starts, letters, strict=True)]


def words_by_speaker(turns: Iterable[Turn]) -> dict[str, dict[str, tuple[str, ...]]]:
    """All that each speaker says in each recording, in the order of time: recording -> speaker -> words.

    Speakers without a word are left out, recordings are not.

    >>> words_by_speaker([Turn("r", "a", ("TWO",), 3.0, 4.0), Turn("r", "a", ("ONE",), 1.0, 2.0), Turn("s", "a", ())])
    {'r': {'a': ('ONE', 'TWO')}, 's': {}}
    """
    said: dict[str, dict[str, tuple[str, ...]]] = {}
    for recording, own in by_recording(in_order(turns)).items():
        said[recording] = {}
        for turn in own:
            if turn.words:
                said[recording][turn.speaker] = said[recording].get(turn.speaker, ()) + turn.words
    return said


def serialise(turns: Iterable[Turn]) -> tuple[str, list[str]]:
    """The target of serialised output training: turns in the order of their starts, ``<sc>`` where the speaker changes.

    Returns:
        The text, and the speaker of each part between two ``<sc>``.

    >>> two, six = Turn("m", "b", ("TWO",), 2.0, 3.0), Turn("m", "b", ("SIX",), 4.0, 5.0)
    >>> serialise([two, Turn("m", "a", ("ONE",), 0.0, 2.5), six])
    ('ONE <sc> TWO SIX', ['a', 'b'])
    """
    parts: list[list[str]] = []
    speakers: list[str] = []
    for turn in sorted(turns, key=lambda turn: turn.start or 0.0):
        if not speakers or speakers[-1] != turn.speaker:
            speakers.append(turn.speaker)
            parts.append([])
        parts[-1] += turn.words
    return f" {SPEAKER_CHANGE} ".join(" ".join(words) for words in parts), speakers
