"""Timed text: words and segments, which all formats are read into and all commands work
with.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

from espnet_ext.errors import InputError

SPEAKER = "speaker"  # where nobody is named
SPEAKER_CHANGE = "<sc>"
NO_WINDOW = -1
# seconds by which a word may lie outside its window, as recognisers' times are not
# exact
SLACK = 1.0
MOST_WINDOWS = 100_000  # of a recording: 9 days in windows of 16 s that overlap by half
PAUSE = 0.8  # seconds between two words, from which on a new line begins
LONGEST = 6.0  # seconds of a line
WIDEST = 84  # characters of a line: two lines of 42 on a screen

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Word:
    """A word, its start and end in seconds from the recording's start, and its
    confidence from 0 to 1.
    """

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
    """What one speaker says in a part of a recording: a turn, a line of a transcript,
    or the words of a window.

    Raises ValueError: another number of times or confidences than of words; of a
    window, a bad index, no time span, values that are not finite, or a word that ends
    before it starts or lies outside.
    """

    recording: str  # its name; "" where there is one recording only
    speaker: str  # "" where nobody is named, or nobody speaks
    words: tuple[str, ...]  # none where the speaker is silent
    start: float = 0.0  # seconds from the recording's start
    end: float = math.inf  # infinity, and start 0, where they are not known
    times: tuple[Span, ...] | None = (
        None  # start and end of each word, from the recording's start
    )
    confidences: tuple[float, ...] | None = None  # of each word
    window: int = NO_WINDOW  # index from 0 if the segment is a window of the recording
    channel: str = ""  # of the recording; "" where the format has none

    def __post_init__(self) -> None:
        for name, values in (("times", self.times), ("confidences", self.confidences)):
            if values is not None and len(values) != len(self.words):
                raise ValueError(f"{len(values)} {name} for {len(self.words)} words")
        if self.window == NO_WINDOW:
            return
        if not 0 <= self.window < MOST_WINDOWS:
            raise ValueError(
                f"the window's index is {self.window}, but they start at 0 and "
                f"stay below {MOST_WINDOWS}"
            )
        if not 0 <= self.start < self.end < math.inf:
            raise ValueError(
                f"a window from {self.start} to {self.end} s is not a time span"
            )
        if not all(
            map(
                math.isfinite,
                (*(self.confidences or ()), *chain.from_iterable(self.times or ())),
            )
        ):
            raise ValueError("a time or a confidence that is not a finite number")
        for word, (start, end) in zip(self.words, self.times or (), strict=False):
            if end < start:
                raise ValueError(
                    f"{word} ends at {round(end, 3)} s, before it starts at "
                    f"{round(start, 3)} s"
                )
            if not self.start - SLACK <= (start + end) / 2 <= self.end + SLACK:
                window = f"{round(self.start, 3)} to {round(self.end, 3)} s"
                raise ValueError(
                    f"{word} at {round(start, 3)} s lies outside its window, {window}"
                )

    @classmethod
    def of(
        cls, words: Sequence[Word], speaker: str = "", recording: str = ""
    ) -> "Segment":
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
        """Start and end in seconds; an InputError if they are not known."""
        if not self.has_span:
            raise InputError(
                f"{self.recording}: a turn of {self.speaker} has no times: give "
                "start_time and end_time"
            )
        return self.start, self.end

    @property
    def timed_words(self) -> tuple[Word, ...]:
        """The words with confidences, 1 where there are none, and times, by their
        number where there are none (P4).
        """
        scores = self.confidences or (1.0,) * len(self.words)
        spans = (
            divide_span(self.words, self.span, evenly=True)
            if self.times is None
            else self.times
        )
        each = zip(self.words, spans, scores, strict=True)
        return tuple(Word(text, *span, score) for text, span, score in each)

    @property
    def word_spans(self) -> tuple[Span, ...]:
        """Start and end of each word in seconds: those that are known, otherwise the
        segment :func:`divide_span`.
        """
        return (
            tuple(divide_span(self.words, self.span))
            if self.times is None
            else self.times
        )


def divide_span(
    words: Sequence[str], span: Span, *, evenly: bool = False
) -> list[Span]:
    """Divide a time span among words by their numbers of letters, one more for the
    blank after each, or evenly.

    >>> divide_span(["a", "the"], (1.0, 4.0)), divide_span(["a", "the"], (1.0, 4.0), evenly=True)
    ([(1.0, 2.0), (2.0, 4.0)], [(1.0, 2.5), (2.5, 4.0)])
    """
    sizes = [1 if evenly else len(word) + 1 for word in words]
    step = (span[1] - span[0]) / max(1, sum(sizes))
    return list(
        pairwise(span[0] + step * before for before in accumulate(sizes, initial=0))
    )


def group_by_recording(segments: Iterable[Segment]) -> dict[str, list[Segment]]:
    """Group segments by recording, in the order given."""
    recordings: dict[str, list[Segment]] = {}
    for segment in segments:
        recordings.setdefault(segment.recording, []).append(segment)
    return recordings


def sort_by_start(segments: Iterable[Segment]) -> list[Segment]:
    """Sort segments by recording, and in each by start; a recording in which words have
    no time keeps its order.
    """
    ordered: list[Segment] = []
    for _, own in sorted(group_by_recording(segments).items()):
        timed = all(segment.has_span for segment in own if segment.words)
        ordered += sorted(own, key=lambda segment: segment.start) if timed else own
    return ordered


def join_words_by_speaker(
    segments: Iterable[Segment],
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Join all that each speaker says in each recording, in the order of time:
    recording -> speaker -> words.

    Speakers without a word are left out, recordings are not.
    """
    said: dict[str, dict[str, tuple[str, ...]]] = {}
    for recording, own in group_by_recording(sort_by_start(segments)).items():
        said[recording] = {}
        for segment in own:
            if segment.words:
                said[recording][segment.speaker] = (
                    said[recording].get(segment.speaker, ()) + segment.words
                )
    return said


def serialise(segments: Iterable[Segment]) -> tuple[str, list[str]]:
    """Make the target of serialised output training: segments by their starts, ``<sc>``
    where the speaker changes.

    The list has the speaker of each part between two ``<sc>``.

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


def measure_overlap_ratio(spans: Iterable[Span]) -> float:
    """Return the time that two or more spans cover, divided by the time that any span
    covers.

    >>> measure_overlap_ratio([(0.0, 4.0), (3.0, 6.0), (10.0, 12.0)])
    0.125
    """
    events = sorted(
        (time, step) for start, end in spans for time, step in ((start, 1), (end, -1))
    )
    speech = overlapped = last = 0.0
    active = 0
    for time, step in events:
        speech += (time - last) * (active > 0)
        overlapped += (time - last) * (active > 1)
        active, last = active + step, time
    return overlapped / speech if speech else 0.0


def split_into_lines(words: Iterable[Word]) -> Iterator[Segment]:
    """Make lines of words, each as soon as it is full: it ends at a pause, or before it
    is too long or too wide.
    """
    own: list[Word] = []
    for word in words:
        width = sum(len(other.text) + 1 for other in own) + len(word.text)
        if own and (
            word.start - own[-1].end >= PAUSE
            or word.end - own[0].start > LONGEST
            or width > WIDEST
        ):
            yield Segment.of(own)
            own = []
        own.append(word)
    if own:
        yield Segment.of(own)


def make_spoken_lines(speakers: Mapping[str, Sequence[Word]]) -> list[Segment]:
    """Make the lines of several talkers, in the order of their starts.

    >>> lines = make_spoken_lines({"ann": [Word("yes", 5.0, 5.4)], "bob": [Word("well", 0.0, 0.3)]})
    >>> [(line.speaker, line.text) for line in lines]
    [('bob', 'well'), ('ann', 'yes')]
    """
    lines = [
        replace(line, speaker=speaker)
        for speaker, words in speakers.items()
        for line in split_into_lines(words)
    ]
    return sorted(lines, key=lambda line: line.start)
