"""What a recogniser might have heard in the windows of a recording whose words are known, with simulated errors.

A stitcher can learn from it without any audio. A window's edge cuts words and leaves the recogniser without context, so
there are more errors near edges; and now and then an utterance is given to another speaker.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from espnet_ext.data.turns import Turn, by_recording, in_order, read_turns
from espnet_ext.multitalker.hypotheses import NOBODY, WindowHypothesis, write_jsonl
from espnet_ext.multitalker.windows import RecordingWindow, Windowing

Span = tuple[float, float]  # of a word, in seconds from the recording's start


@dataclass(frozen=True)
class SimulatedErrors:
    """Probabilities of errors.

    Attributes:
        anywhere: a word is wrong.
        edge: a word is wrong directly at the edge of a window. From there the probability falls linearly to
            ``anywhere``.
        reach: the seconds over which it falls.
        speaker: in a window, an utterance is given to another speaker of the recording.
        deletion, insertion: shares of these kinds among the wrong words; the rest are substitutions.
    """

    anywhere: float = 0.08
    edge: float = 0.6
    reach: float = 1.0
    speaker: float = 0.03
    deletion: float = 0.35
    insertion: float = 0.15

    def at(self, distance: float) -> float:
        """The probability of an error at a distance in seconds from a window's edge."""
        return self.anywhere + max(0.0, self.edge - self.anywhere) * max(0.0, 1.0 - distance / self.reach)


def simulate_hypotheses(references: Path, output: Path, *, windowing: Windowing, seed: int = 0) -> None:
    """Write hypotheses with simulated errors of the recordings of a reference.

    Args:
        references: SegLST, with times.
        output: the hypotheses, JSONL.
        windowing: how recordings are cut.
        seed: of the errors.

    Raises:
        InputError: a missing or bad file, or a turn without times.
    """
    hypotheses = simulate_recordings(read_turns(references), windowing, SimulatedErrors(), seed)
    write_jsonl(output, hypotheses)
    print(f"{len(hypotheses)} hypotheses with simulated errors, written to {output}")


def simulate_recordings(
    turns: Iterable[Turn], windowing: Windowing, errors: SimulatedErrors, seed: int
) -> list[WindowHypothesis]:
    """Simulate what was heard in all windows of all recordings of a set; wrong words are other words of the set.

    Args:
        turns: of all recordings, with times. A recording ends with its last turn.

    Raises:
        InputError: a turn without times.
    """
    recordings = by_recording(in_order(turns))
    vocabulary = sorted({word for own in recordings.values() for turn in own for word in turn.words})
    rng = np.random.default_rng(seed)
    return [
        hypothesis
        for own in recordings.values()
        for hypothesis in simulate_windows(own, max(turn.span[1] for turn in own), windowing, vocabulary, errors, rng)
    ]


def simulate_windows(
    turns: Sequence[Turn],
    seconds: float,
    windowing: Windowing,
    vocabulary: Sequence[str],
    errors: SimulatedErrors,
    rng: np.random.Generator,
) -> list[WindowHypothesis]:
    """Simulate what was heard in all windows of one recording.

    Args:
        turns: the recording's utterances, with times; the words of each are spread evenly over it.
        seconds: length of the recording.
        vocabulary: the words that wrong ones are drawn from.

    Returns:
        In the form that a recogniser writes: one hypothesis per window and speaker in it, or one without a speaker.
    """
    (recording,) = {turn.recording for turn in turns}
    speakers = sorted({turn.speaker for turn in turns})
    hypotheses = []
    for window in windowing.cut(recording, seconds):
        heard: dict[str, list[tuple[str, Span]]] = {}
        for turn in sorted(turns, key=lambda turn: turn.span[0]):
            words = _heard(turn, window, seconds, vocabulary, errors, rng)
            speaker = rng.choice(speakers) if rng.random() < errors.speaker else turn.speaker
            if words:
                heard.setdefault(str(speaker), []).extend(words)
        hypotheses += [
            WindowHypothesis(
                recording,
                window.index,
                speaker,
                tuple(word for word, _ in words),
                window.start,
                window.end,
                times=tuple(span for _, span in words) or None,
            )
            for speaker, words in (heard or {NOBODY: []}).items()
        ]
    return hypotheses


def _heard(
    turn: Turn,
    window: RecordingWindow,
    seconds: float,
    vocabulary: Sequence[str],
    errors: SimulatedErrors,
    rng: np.random.Generator,
) -> list[tuple[str, Span]]:
    """What is heard of an utterance in a window, and when: its words whose middle is there, correct or not."""
    begin, end = turn.span
    step = (end - begin) / max(len(turn.words), 1)
    heard = []
    for number, word in enumerate(turn.words):
        middle = begin + (number + 0.5) * step
        span = (round(middle - step / 2, 3), round(middle + step / 2, 3))
        if not window.start <= middle < window.end:
            continue
        # the recording's own start and end cut no word
        left = middle - window.start if window.start > 0 else math.inf
        right = window.end - middle if window.end < seconds else math.inf
        if rng.random() >= errors.at(min(left, right)):
            heard.append((word, span))
            continue
        kind = rng.random()
        if kind >= errors.deletion:
            heard.append((str(rng.choice(vocabulary)), span))
        if kind >= 1 - errors.insertion:
            heard.append((word, span))
    return heard
