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

    def inside(self, start: float, end: float) -> bool:
        """Return whether the word's middle lies between two times, in seconds."""
        return start <= self.word.middle < end

    def distance(self, edges: Edges) -> float:
        """Return the distance from the nearest edge, rounded up to ``DISTANCES``."""
        middle = self.word.middle
        from_edges = [abs(middle - edge) for edge in edges if edge is not None]
        away = min(from_edges, default=math.inf)
        return next(distance for distance in DISTANCES if away <= distance)


def list_spoken_words(turns: Iterable[Segment]) -> list[SpokenWord]:
    """Give the words of a recording times."""
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
    """Probabilities of errors, fitted by
    :func:`espnet_ext.stitch.stitcher.error_statistics.fit_errors`.
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

    def at(self, word: SpokenWord, edges: Edges) -> float:
        """Return the probability that a word is wrong in a window with these edges."""
        rates = self.rates["overlapped" if word.overlapped else "alone"]
        distance = word.distance(edges)
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
    # One generator for all: the order of recordings is a part of the result.
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
    speakers = sorted({turn.speaker for turn in turns})
    words = list_spoken_words(turns)
    # What a word has in common in all windows: how hard it is, and what it is mistaken
    # for. A window takes it with a probability of which the square is that of two
    # windows taking it.
    hard = rng.random(len(words))
    mistaken: dict[int, str] = {}
    common = math.sqrt(errors.correlation)
    same = math.sqrt(errors.same)
    hypotheses = []
    for window in windowing.cut(recording, seconds):
        heard: dict[str, list[tuple[str, Span]]] = {}
        given: dict[int, str] = {}
        # the recording's own start and end cut no word
        edges = (
            window.start if window.start > 0 else None,
            window.end if window.end < seconds else None,
        )
        for number, word in enumerate(words):
            if not word.inside(window.start, window.end):
                continue
            if word.turn not in given:
                moved = rng.random() < errors.speaker
                given[word.turn] = str(rng.choice(speakers)) if moved else word.speaker
            draw = hard[number] if rng.random() < common else rng.random()
            texts: tuple[str, ...] = (word.text,)
            if draw < errors.at(word, edges):
                wrong = _draw_confusion(
                    errors.confusions.get(word.text), vocabulary, rng
                )
                if rng.random() < same:
                    wrong = mistaken.setdefault(number, wrong)
                texts = _draw_heard(word.text, wrong, errors, rng)
            span = (round(word.word.start, 3), round(word.word.end, 3))
            own = heard.setdefault(given[word.turn], [])
            own.extend((text, span) for text in texts)
        spoken = {speaker: found for speaker, found in heard.items() if found}
        # A window in which nobody is heard is written too: it says so.
        for speaker, found in (spoken or {NOBODY: []}).items():
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
    kind = rng.random()
    if kind < errors.deletion:
        return ()
    return (wrong, word) if kind >= 1 - errors.insertion else (wrong,)
