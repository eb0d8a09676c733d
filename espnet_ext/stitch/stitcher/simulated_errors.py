"""What a recogniser might have heard in windows, with simulated errors.

The words of the recordings are known. More errors are near a window's edge, where
context is missing; now and then an utterance gets another speaker.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from espnet_ext.errors import say
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.window_hypotheses import NOBODY
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment, Word, group_by_recording, sort_by_start
from espnet_ext.text.writing import write_hypotheses
from espnet_ext.work.settings import StrictMapping, read_settings

Span = tuple[float, float]  # of a word, in seconds from the recording's start
# of a window, in seconds; None: an edge that cuts no word
Edges = tuple[float | None, float | None]
# seconds from a window's edge, up to which errors are counted together
DISTANCES = (0.25, 0.5, 1.0, 2.0, math.inf)


class SpokenWord(NamedTuple):
    """A word of a recording's reference, with its time, in seconds.

    The words of a turn are spread evenly over it. ``turn`` and ``place``: number of its
    turn, in the order of starts, and its number in it; ``overlapped``: another speaker
    talks at its middle.
    """

    turn: int
    place: int
    speaker: str
    word: Word
    overlapped: bool

    @property
    def text(self) -> str:
        return self.word.text

    def lies_between(self, start: float, end: float) -> bool:
        """Return whether the word's middle lies between two times, in seconds."""
        return start <= self.word.middle < end

    def measure_distance(self, edges: Edges) -> float:
        """Return the distance from the nearest edge, rounded up to ``DISTANCES``."""
        middle = self.word.middle
        from_edges = [abs(middle - edge) for edge in edges if edge is not None]
        away = min(from_edges, default=math.inf)
        return next(distance for distance in DISTANCES if away <= distance)


def list_spoken_words(turns: Iterable[Segment]) -> list[SpokenWord]:
    """Spread the words of a recording's turns over their time."""
    words = []
    ordered = sorted(turns, key=lambda turn: turn.span[0])
    for number, turn in enumerate(ordered):
        begin, end = turn.span
        seconds = end - begin
        step = seconds / max(len(turn.words), 1)
        others = [other for other in ordered if other.speaker != turn.speaker]
        for place, text in enumerate(turn.words):
            start = begin + place * step
            middle = start + step / 2
            words.append(
                SpokenWord(
                    number,
                    place,
                    turn.speaker,
                    Word(text, start, start + step),
                    overlapped=any(_is_talking(other, middle) for other in others),
                )
            )
    return words


def _is_talking(turn: Segment, time: float) -> bool:
    """Tell whether a turn goes on at a time, in seconds."""
    start, end = turn.span
    return start <= time < end


class SimulatedErrors(StrictMapping):
    """Hold probabilities of errors.

    :func:`espnet_ext.stitch.stitcher.error_statistics.fit_errors` fits them.
    """

    # of words ``alone`` and ``overlapped`` by others, at each of ``DISTANCES``
    rates: dict[str, tuple[float, ...]]
    speaker: float = 0.0  # that in a window an utterance is given to another speaker
    deletion: float = 0.0  # share among the wrong words
    insertion: float = 0.0  # the same; the rest are substitutions
    correlation: float = 0.0  # of errors in two windows that have heard the same word
    # share of the words substituted in two windows that are the same wrong word
    same: float = 0.0
    # word said -> word heard -> times; words that are not in it: all words alike
    confusions: dict[str, dict[str, int]] = {}

    def find_rate(self, word: SpokenWord, edges: Edges) -> float:
        """Return the probability that a word is wrong in a window with these edges."""
        rates = self.rates["overlapped" if word.overlapped else "alone"]
        distance = word.measure_distance(edges)
        return rates[DISTANCES.index(distance)]


def simulate_hypotheses(
    references: Path, output: Path, *, windowing: Windowing, errors: Path, seed: int = 0
) -> None:
    """Write hypotheses of windows with simulated errors.

    ``references`` is SegLST, ``errors`` JSON of :class:`SimulatedErrors`; ``output``
    becomes JSONL.
    """
    fitted = read_settings(
        SimulatedErrors, errors, "fit simulated errors to a recogniser first"
    )
    hypotheses = simulate_recordings(read_segments(references), windowing, fitted, seed)
    write_hypotheses(output, hypotheses)
    say(f"{len(hypotheses)} hypotheses with simulated errors, written to {output}")


def simulate_recordings(
    turns: Iterable[Segment], windowing: Windowing, errors: SimulatedErrors, seed: int
) -> list[Segment]:
    """Simulate what was heard in all windows of all recordings of a set.

    Wrong words are other words of the set.
    """
    ordered = sort_by_start(turns)
    vocabulary = sorted({word for turn in ordered for word in turn.words})
    # One generator for all recordings: their order is a part of the result.
    rng = np.random.default_rng(seed)
    hypotheses = []
    for own in group_by_recording(ordered).values():
        hypotheses += simulate_windows(own, windowing, vocabulary, errors, rng)
    return hypotheses


def simulate_windows(
    turns: Sequence[Segment],
    windowing: Windowing,
    vocabulary: Sequence[str],
    errors: SimulatedErrors,
    rng: np.random.Generator,
) -> list[Segment]:
    """Simulate what was heard in all windows of one recording.

    It ends with its last turn. Wrong words are drawn from ``vocabulary`` where the
    errors have no confusion of a word.
    """
    (recording,) = {turn.recording for turn in turns}
    seconds = max(turn.span[1] for turn in turns)
    listener = _Listener(turns, vocabulary, errors, rng)
    hypotheses = []
    for window in windowing.cut(recording, seconds):
        # the recording's own start and end cut no word
        edges = (
            window.start if window.start > 0 else None,
            window.end if window.end < seconds else None,
        )
        heard = listener.hear(window.start, window.end, edges)
        # A window in which nobody is heard is written too: it says so.
        for speaker, found in (heard or {NOBODY: []}).items():
            hypotheses.append(
                Segment(
                    recording,
                    speaker,
                    tuple(text for text, _ in found),
                    window.start,
                    window.end,
                    times=tuple(span for _, span in found) or None,
                    window=window.window,
                )
            )
    return hypotheses


class _Listener:
    """Hears the windows of one recording one after the other, with errors.

    What a word has in common in all windows is how hard it is, ``hard``, and what it is
    mistaken for, ``mistaken``.
    """

    def __init__(
        self,
        turns: Sequence[Segment],
        vocabulary: Sequence[str],
        errors: SimulatedErrors,
        rng: np.random.Generator,
    ):
        self.vocabulary = vocabulary
        self.errors = errors
        self.rng = rng
        self.speakers = sorted({turn.speaker for turn in turns})
        self.words = list_spoken_words(turns)
        self.hard = rng.random(len(self.words))
        self.mistaken: dict[int, str] = {}
        # Two windows share what they have in common if both take it: with the root of
        # a probability each, they do so with that probability.
        self.take_hard = math.sqrt(errors.correlation)
        self.take_mistaken = math.sqrt(errors.same)

    def hear(
        self, start: float, end: float, edges: Edges
    ) -> dict[str, list[tuple[str, Span]]]:
        """Return the words of each speaker who is heard between two times, with times.

        All are in seconds.
        """
        heard: dict[str, list[tuple[str, Span]]] = {}
        # A recogniser gives a whole utterance to one speaker, in each window anew.
        given: dict[int, str] = {}
        for number, word in enumerate(self.words):
            if not word.lies_between(start, end):
                continue
            if word.turn not in given:
                given[word.turn] = self._draw_speaker(word.speaker)
            texts = self._draw_texts(number, word, edges)
            span = (round(word.word.start, 3), round(word.word.end, 3))
            own = heard.setdefault(given[word.turn], [])
            own.extend((text, span) for text in texts)
        return {speaker: found for speaker, found in heard.items() if found}

    def _draw_speaker(self, speaker: str) -> str:
        """Draw who is said to speak an utterance."""
        if self.rng.random() < self.errors.speaker:
            return str(self.rng.choice(self.speakers))
        return speaker

    def _draw_texts(
        self, number: int, word: SpokenWord, edges: Edges
    ) -> tuple[str, ...]:
        """Draw what is heard of a word, by its number in the recording."""
        errors = self.errors
        rng = self.rng
        draw = self.hard[number] if rng.random() < self.take_hard else rng.random()
        if draw >= errors.find_rate(word, edges):
            return (word.text,)
        known = errors.confusions.get(word.text)
        wrong = _draw_confusion(known, self.vocabulary, rng)
        if rng.random() < self.take_mistaken:
            # The first window to take it decides what the others mistake it for.
            wrong = self.mistaken.setdefault(number, wrong)
        return _draw_heard(word.text, wrong, errors, rng)


def _draw_confusion(
    known: Mapping[str, int] | None, vocabulary: Sequence[str], rng: np.random.Generator
) -> str:
    """Draw what a word is mistaken for."""
    if not known:
        return vocabulary[int(rng.integers(len(vocabulary)))]
    words = list(known)
    times = np.array(list(known.values()), dtype=float)
    shares = times / times.sum()
    return str(rng.choice(words, p=shares))


def _draw_heard(
    word: str, wrong: str, errors: SimulatedErrors, rng: np.random.Generator
) -> tuple[str, ...]:
    """Draw what is heard in place of a word: nothing, ``wrong``, or it and the word."""
    # One draw for the three kinds: deletions from 0 on, insertions up to 1, and what
    # lies between them are substitutions.
    kind = rng.random()
    if kind < errors.deletion:
        return ()
    return (wrong, word) if kind >= 1 - errors.insertion else (wrong,)
