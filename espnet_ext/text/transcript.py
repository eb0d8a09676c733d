"""Transcripts with word times: lines for reading, and the files they are written to."""

import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.text.turns import Turn, segment
from espnet_ext.work.files import atomic_write

PAUSE = 0.8  # seconds between two words, from which on a new line begins
LONGEST = 6.0  # seconds of a line
WIDEST = 84  # characters of a line: two lines of 42 on a screen
SCREEN = 42
SHOWN, AFTER = 1.0, 0.5  # seconds that a subtitle is shown at least, and after its last word, if none follows
SPEAKER = "speaker"  # where nobody is named


@dataclass(frozen=True, slots=True)
class Word:
    """A word, its start and end in seconds from the recording's start, and its confidence from 0 to 1."""

    text: str
    start: float
    end: float
    confidence: float = 1.0

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


@dataclass(frozen=True)
class Line:
    """Words that are read together, at least one; and who speaks, if that is known."""

    words: tuple[Word, ...]
    speaker: str = ""

    @property
    def start(self) -> float:
        """Seconds."""
        return self.words[0].start

    @property
    def end(self) -> float:
        """Seconds."""
        return self.words[-1].end

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)


Recordings = Mapping[str, Sequence[Line]]


def lines_of(words: Iterable[Word]) -> Iterator[Line]:
    """Lines of words, each as soon as it is full. A line ends at a pause, or where it would be too long or too wide.

    >>> words = [Word("one", 0.0, 0.3), Word("two", 0.4, 0.7), Word("three", 2.0, 2.4)]
    >>> [line.text for line in lines_of(words)]
    ['one two', 'three']
    """
    own: list[Word] = []
    for word in words:
        width = sum(len(other.text) + 1 for other in own) + len(word.text)
        if own and (word.start - own[-1].end >= PAUSE or word.end - own[0].start > LONGEST or width > WIDEST):
            yield Line(tuple(own))
            own = []
        own.append(word)
    if own:
        yield Line(tuple(own))


def spoken_lines(speakers: Mapping[str, Sequence[Word]]) -> list[Line]:
    """The lines of several talkers, in the order of their starts.

    >>> lines = spoken_lines({"ann": [Word("yes", 5.0, 5.4)], "bob": [Word("well", 0.0, 0.3)]})
    >>> [(line.speaker, line.text) for line in lines]
    [('bob', 'well'), ('ann', 'yes')]
    """
    lines = [replace(line, speaker=speaker) for speaker, words in speakers.items() for line in lines_of(words)]
    return sorted(lines, key=lambda line: line.start)


def clock(seconds: float, mark: str = ".") -> str:
    """A time as subtitles have it.

    >>> clock(3723.0456), clock(0.9999, ",")
    ('01:02:03.046', '00:00:01,000')
    """
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}{mark}{rest % 1000:03d}"


def show_line(line: Line) -> str:
    """A line for a terminal: times, the speaker if known, and the words."""
    return f"[{clock(line.start)} --> {clock(line.end)}] {_said(line)}"


def _said(line: Line) -> str:
    return f"{line.speaker}: {line.text}" if line.speaker else line.text


def _txt(recordings: Recordings) -> str:
    return "".join(f"{_said(line)}\n" for lines in recordings.values() for line in lines)


def _json(recordings: Recordings) -> str:
    (lines,) = recordings.values()
    segments = [
        {
            "start": round(line.start, 3),
            "end": round(line.end, 3),
            "text": line.text,
            **({"speaker": line.speaker} if line.speaker else {}),
            "words": [_rounded(word) for word in line.words],
        }
        for line in lines
    ]
    return _dumped({"text": " ".join(line.text for line in lines), "segments": segments})


def _rounded(word: Word) -> dict[str, str | float]:
    return {key: value if isinstance(value, str) else round(value, 3) for key, value in asdict(word).items()}


def _dumped(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _seglst(recordings: Recordings) -> str:
    return _dumped(
        [
            segment(
                Turn(
                    name,
                    line.speaker or SPEAKER,
                    tuple(word.text for word in line.words),
                    round(line.start, 3),
                    round(line.end, 3),
                )
            )
            for name, lines in recordings.items()
            for line in lines
        ]
    )


def _ctm(recordings: Recordings) -> str:
    return "".join(
        f"{name} 1 {word.start:.3f} {word.end - word.start:.3f} {word.text} {word.confidence:.3f}"
        f"{' lex ' + line.speaker if line.speaker else ''}\n"
        for name, lines in recordings.items()
        for line in lines
        for word in line.words
    )


def _cues(recordings: Recordings) -> Iterator[tuple[float, float, str]]:
    """Start and end of each subtitle in seconds, and its text on at most two lines.

    The words of a model with CTC last as long as what it has heard last of them, too short for reading; so a subtitle
    stays until the next one.
    """
    (lines,) = recordings.values()
    for place, line in enumerate(lines):
        end = max(line.end + AFTER, line.start + SHOWN)
        if place + 1 < len(lines):
            end = max(line.end, min(end, lines[place + 1].start))
        yield line.start, end, _broken(_said(line))


def _broken(text: str) -> str:
    """A long text on two lines, broken at the space that is nearest to its middle."""
    spaces = [place for place, letter in enumerate(text) if letter == " "]
    if len(text) <= SCREEN or not spaces:
        return text
    middle = min(spaces, key=lambda place: abs(2 * place - len(text)))
    return f"{text[:middle]}\n{text[middle + 1 :]}"


def _srt(recordings: Recordings) -> str:
    return "\n".join(
        f"{number}\n{clock(start, ',')} --> {clock(end, ',')}\n{text}\n"
        for number, (start, end, text) in enumerate(_cues(recordings), 1)
    )


def _vtt(recordings: Recordings) -> str:
    cues = (
        f"{clock(start)} --> {clock(end)}\n{html.escape(text, quote=False)}\n" for start, end, text in _cues(recordings)
    )
    return "\n".join(["WEBVTT\n", *cues])


FORMATS: Mapping[str, Callable[[Recordings], str]] = MappingProxyType(
    {"txt": _txt, "json": _json, "seglst": _seglst, "ctm": _ctm, "srt": _srt, "vtt": _vtt}
)
OF_SEVERAL = ("txt", "seglst", "ctm")  # formats that may hold more than one recording


def write_transcript(path: str | Path, recordings: Recordings, kind: str) -> None:
    """Write transcripts of recordings.

    ``txt``: a line per line. ``json``: the text, and segments with their words, like Whisper's. ``seglst``: MeetEval's,
    for scoring. ``ctm``: NIST's, with confidences and, in the eighth column, the speaker. ``srt`` and ``vtt``:
    subtitles, shown a little longer than their words, so that they can be read.

    Args:
        path: of the file.
        recordings: the lines of each recording, by its name; in ``seglst`` and ``ctm`` names have no blanks.
        kind: one of ``FORMATS``.

    Raises:
        InputError: an unknown format, or one for a single recording, and there are several.
    """
    if kind not in FORMATS:
        raise InputError(f"there is no format {kind!r}: choose some of {', '.join(FORMATS)}")
    if len(recordings) > 1 and kind not in OF_SEVERAL:
        raise InputError(f"{path}: {kind} holds one recording, not {len(recordings)}: choose {', '.join(OF_SEVERAL)}")
    named = {"_".join(name.split()): lines for name, lines in recordings.items()}
    with atomic_write(path) as file:
        file.write(FORMATS[kind](named))
