"""Transcripts with word times: lines for reading, and the files they are written to (txt, JSON, CTM, SRT, VTT)."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write

PAUSE = 0.8  # seconds between two words, from which on a new line begins
LONGEST = 6.0  # seconds of a line
WIDEST = 84  # characters of a line: two lines of 42 on a screen


@dataclass(frozen=True)
class Word:
    """A word, its start and end in seconds from the recording's start, and its confidence from 0 to 1."""

    text: str
    start: float
    end: float
    confidence: float


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


def lines_of(
    words: Iterable[Word], *, pause: float = PAUSE, longest: float = LONGEST, widest: int = WIDEST
) -> Iterator[Line]:
    """Lines of words, each as soon as it is full. A line ends at a pause, or where it would be too long or too wide.

    >>> words = [Word("one", 0.0, 0.3, 1.0), Word("two", 0.4, 0.7, 1.0), Word("three", 2.0, 2.4, 1.0)]
    >>> [line.text for line in lines_of(words)]
    ['one two', 'three']
    """
    own: list[Word] = []
    for word in words:
        width = sum(len(other.text) + 1 for other in own) + len(word.text)
        if own and (word.start - own[-1].end >= pause or word.end - own[0].start > longest or width > widest):
            yield Line(tuple(own))
            own = []
        own.append(word)
    if own:
        yield Line(tuple(own))


def clock(seconds: float, mark: str = ".") -> str:
    """A time as subtitles have it.

    >>> clock(3723.0456), clock(0.9999, ",")
    ('01:02:03.046', '00:00:01,000')
    """
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}{mark}{rest % 1000:03d}"


def _said(line: Line) -> str:
    return f"{line.speaker}: {line.text}" if line.speaker else line.text


def _txt(name: str, lines: Sequence[Line]) -> str:
    return "".join(f"{_said(line)}\n" for line in lines)


def _json(name: str, lines: Sequence[Line]) -> str:
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
    content = {"text": " ".join(line.text for line in lines), "segments": segments}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _rounded(word: Word) -> dict[str, str | float]:
    return {key: value if isinstance(value, str) else round(value, 3) for key, value in asdict(word).items()}


def _ctm(name: str, lines: Sequence[Line]) -> str:
    recording = "_".join(name.split())
    return "".join(
        f"{recording} 1 {word.start:.3f} {word.end - word.start:.3f} {word.text} {word.confidence:.3f}"
        f"{' lex ' + line.speaker if line.speaker else ''}\n"
        for line in lines
        for word in line.words
    )


def _srt(name: str, lines: Sequence[Line]) -> str:
    return "\n".join(
        f"{number}\n{clock(line.start, ',')} --> {clock(line.end, ',')}\n{_said(line)}\n"
        for number, line in enumerate(lines, 1)
    )


def _vtt(name: str, lines: Sequence[Line]) -> str:
    cues = (f"{clock(line.start)} --> {clock(line.end)}\n{_escaped(_said(line))}\n" for line in lines)
    return "\n".join(["WEBVTT\n", *cues])


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


FORMATS: Mapping[str, Callable[[str, Sequence[Line]], str]] = MappingProxyType(
    {"txt": _txt, "json": _json, "ctm": _ctm, "srt": _srt, "vtt": _vtt}
)


def write_transcript(path: str | Path, lines: Sequence[Line], kind: str) -> None:
    """Write a transcript.

    ``txt``: a line per line. ``json``: the text, and segments with their words, like Whisper's. ``ctm``: NIST's, with
    confidences; the recording is named as the file. ``srt`` and ``vtt``: subtitles.

    Raises:
        InputError: an unknown format.
    """
    if kind not in FORMATS:
        raise InputError(f"there is no format {kind!r}: choose some of {', '.join(FORMATS)}")
    with atomic_write(path) as file:
        file.write(FORMATS[kind](Path(path).stem, lines))
