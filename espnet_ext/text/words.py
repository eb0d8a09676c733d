"""Timed text: words and segments, which all formats are read into and all commands work with."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from espnet_ext.errors import InputError

SPEAKER = "speaker"  # where nobody is named
SPEAKER_CHANGE = "<sc>"
NO_WINDOW = -1
SLACK = 1.0  # seconds by which a word may lie outside its window, as recognisers' times are not exact
MOST_WINDOWS = 100_000  # of a recording: 9 days in windows of 16 s that overlap by half
PAUSE = 0.8  # seconds between two words, from which on a new line begins
LONGEST = 6.0  # seconds of a line
WIDEST = 84  # characters of a line: two lines of 42 on a screen

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Word:
    """A word, its start and end in seconds from the recording's start, and its confidence from 0 to 1."""

    text: str
    start: float
    end: float
    confidence: float = 1.0

    @property
    def middle(self) -> float:
        """Seconds."""
        return (self.start + self.end) / 2


@dataclass(frozen=True)
class Segment:
    """What one speaker says in a part of a recording: a turn, a line of a transcript, or the words of a window.

    Attributes:
        recording: its name; "" where there is one recording only.
        speaker: "" where nobody is named, or nobody speaks.
        words: empty where the speaker is silent.
        start, end: seconds from the recording's start; 0 and infinity where they are not known.
        times: start and end of each word in seconds from the recording's start, or None.
        confidences: of each word, or None.
        window: index from 0 if the segment is a window of the recording, else -1.
        channel: of the recording; "" where the format has none.

    Raises:
        ValueError: another number of times or confidences than of words; of a window, an index below 0 or far too
            large, no time span, a time or confidence that is not finite, a word that ends before it starts or lies
            outside the window.
    """

    recording: str
    speaker: str
    words: tuple[str, ...]
    start: float = 0.0
    end: float = math.inf
    times: tuple[Span, ...] | None = None
    confidences: tuple[float, ...] | None = None
    window: int = NO_WINDOW
    channel: str = ""

    def __post_init__(self) -> None:
        for name, values in (("times", self.times), ("confidences", self.confidences)):
            if values is not None and len(values) != len(self.words):
                raise ValueError(f"{len(values)} {name} for {len(self.words)} words")
        if self.window == NO_WINDOW:
            return
        if not 0 <= self.window < MOST_WINDOWS:
            raise ValueError(f"the window's index is {self.window}, but they start at 0 and stay below {MOST_WINDOWS}")
        if not 0 <= self.start < self.end < math.inf:
            raise ValueError(f"a window from {self.start} to {self.end} s is not a time span")
        if not all(map(math.isfinite, (*(self.confidences or ()), *chain.from_iterable(self.times or ())))):
            raise ValueError("a time or a confidence that is not a finite number")
        for word, (start, end) in zip(self.words, self.times or (), strict=False):
            if end < start:
                raise ValueError(f"{word} ends at {round(end, 3)} s, before it starts at {round(start, 3)} s")
            if not self.start - SLACK <= (start + end) / 2 <= self.end + SLACK:
                window = f"{round(self.start, 3)} to {round(self.end, 3)} s"
                raise ValueError(f"{word} at {round(start, 3)} s lies outside its window, {window}")

    @classmethod
    def of(cls, words: Sequence[Word], speaker: str = "", recording: str = "") -> "Segment":
        """Make a segment of words with times, at least one."""
        return cls(
            recording,
            speaker,
            tuple(word.text for word in words),
            words[0].start,
            words[-1].end,
            tuple((word.start, word.end) for word in words),
            tuple(word.confidence for word in words),
        )

    @property
    def text(self) -> str:
        """The words, joined by spaces."""
        return " ".join(self.words)

    @property
    def has_span(self) -> bool:
        """Whether start and end are known."""
        return self.end < math.inf

    @property
    def span(self) -> Span:
        """Start and end in seconds.

        Raises:
            InputError: they are not known.
        """
        if not self.has_span:
            raise InputError(f"{self.recording}: a turn of {self.speaker} has no times: give start_time and end_time")
        return self.start, self.end

    @property
    def timed_words(self) -> tuple[Word, ...]:
        """The words with their times, see :func:`word_times`, and confidences, 1 where there are none."""
        scores = self.confidences or (1.0,) * len(self.words)
        return tuple(
            Word(text, *span, score) for text, span, score in zip(self.words, word_times(self), scores, strict=True)
        )


def word_times(segment: Segment) -> tuple[Span, ...]:
    """Return start and end of each word in seconds: those that are known, otherwise the segment divided evenly."""
    if segment.times is not None:
        return segment.times
    begin, end = segment.span
    step = (end - begin) / max(len(segment.words), 1)
    return tuple((begin + step * place, begin + step * (place + 1)) for place in range(len(segment.words)))


def word_spans(segment: Segment) -> list[Span]:
    """Return start and end of each word: the segment's time is divided among its words by their numbers of letters.

    Raises:
        InputError: the segment has no times.
    """
    return divided(segment.words, segment.span, 1)


def divided(words: Sequence[str], span: Span, gap: int = 0) -> list[Span]:
    """Divide a time span among words by their numbers of letters, to each of which ``gap`` is added.

    >>> divided(["a", "the"], (1.0, 3.0))
    [(1.0, 1.5), (1.5, 3.0)]
    """
    begin, end = span
    letters = [len(word) + gap for word in words]
    step = (end - begin) / max(1, sum(letters))
    starts = [begin + step * sum(letters[:place]) for place in range(len(letters))]
    return [(start, start + step * count) for start, count in zip(starts, letters, strict=True)]


def by_recording(segments: Iterable[Segment]) -> dict[str, list[Segment]]:
    """Group segments by recording, in the order given.

    >>> recordings = by_recording([Segment("r", "b", ()), Segment("s", "a", ()), Segment("r", "a", ())])
    >>> {name: [segment.speaker for segment in own] for name, own in recordings.items()}
    {'r': ['b', 'a'], 's': ['a']}
    """
    recordings: dict[str, list[Segment]] = {}
    for segment in segments:
        recordings.setdefault(segment.recording, []).append(segment)
    return recordings


def in_order(segments: Iterable[Segment]) -> list[Segment]:
    """Sort segments by recording, and in each by start; if one with words has no time, its recording keeps its order.

    >>> [turn.text for turn in in_order([Segment("r", "a", ("B",)), Segment("r", "a", ("A",), 0.0, 1.0)])]
    ['B', 'A']
    """
    ordered: list[Segment] = []
    for _, own in sorted(by_recording(segments).items()):
        timed = all(segment.has_span for segment in own if segment.words)
        ordered += sorted(own, key=lambda segment: segment.start) if timed else own
    return ordered


def words_by_speaker(segments: Iterable[Segment]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Join all that each speaker says in each recording, in the order of time: recording -> speaker -> words.

    Speakers without a word are left out, recordings are not.

    >>> two, one = Segment("r", "a", ("TWO",), 3.0, 4.0), Segment("r", "a", ("ONE",), 1.0, 2.0)
    >>> words_by_speaker([two, one, Segment("s", "a", ())])
    {'r': {'a': ('ONE', 'TWO')}, 's': {}}
    """
    said: dict[str, dict[str, tuple[str, ...]]] = {}
    for recording, own in by_recording(in_order(segments)).items():
        said[recording] = {}
        for segment in own:
            if segment.words:
                said[recording][segment.speaker] = said[recording].get(segment.speaker, ()) + segment.words
    return said


def serialise(segments: Iterable[Segment]) -> tuple[str, list[str]]:
    """Make the target of serialised output training: segments by their starts, ``<sc>`` where the speaker changes.

    Returns:
        The text, and the speaker of each part between two ``<sc>``.

    >>> two, six = Segment("m", "b", ("TWO",), 2.0, 3.0), Segment("m", "b", ("SIX",), 4.0, 5.0)
    >>> serialise([two, Segment("m", "a", ("ONE",), 0.0, 2.5), six])
    ('ONE <sc> TWO SIX', ['a', 'b'])
    """
    parts: list[list[str]] = []
    speakers: list[str] = []
    for segment in sorted(segments, key=lambda segment: segment.start):
        if not speakers or speakers[-1] != segment.speaker:
            speakers.append(segment.speaker)
            parts.append([])
        parts[-1] += segment.words
    return f" {SPEAKER_CHANGE} ".join(" ".join(words) for words in parts), speakers


def lines_of(words: Iterable[Word]) -> Iterator[Segment]:
    """Make lines of words, each as soon as it is full.

    A line ends at a pause, or where it would be too long or too wide.

    >>> words = [Word("one", 0.0, 0.3), Word("two", 0.4, 0.7), Word("three", 2.0, 2.4)]
    >>> [line.text for line in lines_of(words)]
    ['one two', 'three']
    """
    own: list[Word] = []
    for word in words:
        width = sum(len(other.text) + 1 for other in own) + len(word.text)
        if own and (word.start - own[-1].end >= PAUSE or word.end - own[0].start > LONGEST or width > WIDEST):
            yield Segment.of(own)
            own = []
        own.append(word)
    if own:
        yield Segment.of(own)


def spoken_lines(speakers: Mapping[str, Sequence[Word]]) -> list[Segment]:
    """Make the lines of several talkers, in the order of their starts.

    >>> lines = spoken_lines({"ann": [Word("yes", 5.0, 5.4)], "bob": [Word("well", 0.0, 0.3)]})
    >>> [(line.speaker, line.text) for line in lines]
    [('bob', 'well'), ('ann', 'yes')]
    """
    lines = [replace(line, speaker=speaker) for speaker, words in speakers.items() for line in lines_of(words)]
    return sorted(lines, key=lambda line: line.start)
