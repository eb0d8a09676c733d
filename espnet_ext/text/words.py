"""Timed text: words and segments, which all formats are read into."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

from espnet_ext.errors import InputError

SPEAKER = "speaker"  # where nobody is named
SPEAKER_CHANGE = "<sc>"
NO_WINDOW = -1
# Seconds by which a word may lie outside its window: recognisers' times are not exact.
SLACK = 1.0
MOST_WINDOWS = 100_000  # of a recording: 9 days in windows of 16 s that overlap by half
PAUSE = 0.8  # seconds between two words, from which on a new line begins
LONGEST = 6.0  # seconds of a line
WIDEST = 84  # characters of a line: two lines of 42 on a screen

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Word:
    """A word, its start and end, and its confidence from 0 to 1.

    Times are in seconds from the recording's start.
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
    """What one speaker says in a part of a recording.

    A segment is a turn, a line of a transcript, or the words of a window. Raises
    ValueError: another number of times or confidences than of words; of a window, a bad
    index, no time span, values that are not finite, or a word that ends before it
    starts or lies outside.
    """

    recording: str  # its name; "" where there is one recording only
    speaker: str  # "" where nobody is named, or nobody speaks
    words: tuple[str, ...]  # none where the speaker is silent
    start: float = 0.0  # seconds from the recording's start
    end: float = math.inf  # infinity, and start 0, where they are not known
    # start and end of each word, in seconds from the recording's start
    times: tuple[Span, ...] | None = None
    confidences: tuple[float, ...] | None = None  # of each word
    window: int = NO_WINDOW  # index from 0 if the segment is a window of the recording
    channel: str = ""  # of the recording; "" where the format has none

    def __post_init__(self) -> None:
        for name, values in (("times", self.times), ("confidences", self.confidences)):
            if values is not None and len(values) != len(self.words):
                raise ValueError(f"{len(values)} {name} for {len(self.words)} words")
        # Of other segments, times may be unknown.
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
        numbers = [*(self.confidences or ()), *chain.from_iterable(self.times or ())]
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError("a time or a confidence that is not a finite number")
        for word, (start, end) in zip(self.words, self.times or (), strict=False):
            if end < start:
                raise ValueError(
                    f"{word} ends at {round(end, 3)} s, before it starts at "
                    f"{round(start, 3)} s"
                )
            # By its middle, as a word may reach across the window's edge.
            if not self.start - SLACK <= (start + end) / 2 <= self.end + SLACK:
                window = f"{round(self.start, 3)} to {round(self.end, 3)} s"
                raise ValueError(
                    f"{word} at {round(start, 3)} s lies outside its window, {window}"
                )

    @classmethod
    def from_words(
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
        """The words with confidences and times (P4).

        A confidence is 1 where there is none. Where there are no times, words share the
        segment evenly, by their number.
        """
        scores = self.confidences or (1.0,) * len(self.words)
        spans: Sequence[Span] | None = self.times
        if spans is None:
            spans = divide_span(self.words, self.span, evenly=True)
        each = zip(self.words, spans, scores, strict=True)
        return tuple(Word(text, *span, score) for text, span, score in each)

    @property
    def word_spans(self) -> tuple[Span, ...]:
        """Start and end of each word in seconds; :func:`divide_span` if not known."""
        if self.times is not None:
            return self.times
        return tuple(divide_span(self.words, self.span))


def divide_span(
    words: Sequence[str], span: Span, *, evenly: bool = False
) -> list[Span]:
    """Divide a time span in seconds among words, by their lengths or evenly.

    By length, a word has a share for each letter, and one for the blank after it.

    >>> divide_span(["a", "the"], (1.0, 4.0))
    [(1.0, 2.0), (2.0, 4.0)]
    >>> divide_span(["a", "the"], (1.0, 4.0), evenly=True)
    [(1.0, 2.5), (2.5, 4.0)]
    """
    start, end = span
    sizes = [1 if evenly else len(word) + 1 for word in words]
    share = (end - start) / max(1, sum(sizes))
    moments = [start + share * before for before in accumulate(sizes, initial=0)]
    return list(pairwise(moments))


def group_by_recording(segments: Iterable[Segment]) -> dict[str, list[Segment]]:
    """Group segments by recording, in the order given."""
    recordings: dict[str, list[Segment]] = {}
    for segment in segments:
        recordings.setdefault(segment.recording, []).append(segment)
    return recordings


def sort_by_start(segments: Iterable[Segment]) -> list[Segment]:
    """Sort segments by recording, and in each by start.

    A recording in which words have no time keeps its order.
    """
    ordered: list[Segment] = []
    for _, own in sorted(group_by_recording(segments).items()):
        # An unknown start is 0, and would move its words before all the others.
        timed = all(segment.has_span for segment in own if segment.words)
        if timed:
            own = sorted(own, key=lambda segment: segment.start)
        ordered += own
    return ordered


def join_words_by_speaker(
    segments: Iterable[Segment],
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Join all that each speaker says in each recording, in the order of time.

    Returns recording -> speaker -> words. Speakers without a word are left out,
    recordings are not.
    """
    said: dict[str, dict[str, tuple[str, ...]]] = {}
    for recording, own in group_by_recording(sort_by_start(segments)).items():
        speakers: dict[str, tuple[str, ...]] = {}
        for segment in own:
            if segment.words:
                before = speakers.get(segment.speaker, ())
                speakers[segment.speaker] = before + segment.words
        said[recording] = speakers
    return said


def serialise(segments: Iterable[Segment]) -> tuple[str, list[str]]:
    """Make the target of serialised output training (Kanda et al., 2020; P4).

    Segments are in the order of their starts, with ``<sc>`` where the speaker changes;
    the list has the speaker of each part between two ``<sc>``.

    >>> two = Segment("m", "b", ("TWO",), 2.0, 3.0)
    >>> six = Segment("m", "b", ("SIX",), 4.0, 5.0)
    >>> serialise([two, Segment("m", "a", ("ONE",), 0.0, 2.5), six])
    ('ONE <sc> TWO SIX', ['a', 'b'])
    """
    parts: list[list[str]] = []
    speakers: list[str] = []
    # First in, first out, as the paper has it: by starts, not by speakers or by words.
    for segment in sorted(segments, key=lambda segment: segment.start):
        if not speakers or speakers[-1] != segment.speaker:
            speakers.append(segment.speaker)
            parts.append([])
        parts[-1] += segment.words
    texts = [" ".join(words) for words in parts]
    return f" {SPEAKER_CHANGE} ".join(texts), speakers


def measure_overlap_ratio(spans: Iterable[Span]) -> float:
    """Measure the time that several spans cover, relative to that of any span.

    >>> measure_overlap_ratio([(0.0, 4.0), (3.0, 6.0), (10.0, 12.0)])
    0.125
    """
    events: list[tuple[float, int]] = []
    for start, end in spans:
        events.append((start, 1))
        events.append((end, -1))
    speech = 0.0
    overlapped = 0.0
    active = 0  # how many spans cover the time up to the next event
    last = 0.0
    # At equal times ends come first, as -1 is below 1: spans that touch do not overlap.
    for time, step in sorted(events):
        speech += (time - last) * (active > 0)
        overlapped += (time - last) * (active > 1)
        active += step
        last = time
    return overlapped / speech if speech else 0.0


def split_into_lines(words: Iterable[Word]) -> Iterator[Segment]:
    """Split words into lines, each yielded as soon as it is full.

    A line ends at a pause, or before it is too long or too wide.
    """
    own: list[Word] = []
    for word in words:
        if own and _begins_line(own, word):
            yield Segment.from_words(own)
            own = []
        own.append(word)
    if own:
        yield Segment.from_words(own)


def _begins_line(line: Sequence[Word], word: Word) -> bool:
    """Return whether a word does not belong to a line any more."""
    width = sum(len(other.text) + 1 for other in line) + len(word.text)
    paused = word.start - line[-1].end >= PAUSE
    return paused or word.end - line[0].start > LONGEST or width > WIDEST


def make_spoken_lines(speakers: Mapping[str, Sequence[Word]]) -> list[Segment]:
    """Make the lines of several talkers, in the order of their starts.

    >>> ann, bob = [Word("yes", 5.0, 5.4)], [Word("well", 0.0, 0.3)]
    >>> lines = make_spoken_lines({"ann": ann, "bob": bob})
    >>> [(line.speaker, line.text) for line in lines]
    [('bob', 'well'), ('ann', 'yes')]
    """
    lines = [
        replace(line, speaker=speaker)
        for speaker, words in speakers.items()
        for line in split_into_lines(words)
    ]
    return sorted(lines, key=lambda line: line.start)
