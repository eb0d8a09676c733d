"""What a recogniser might have heard in the windows of a recording whose words are known, errors included.

Stitchers are tried out on it without any audio: a window's edge cuts words and leaves the recogniser without context,
so that errors gather there, and now and then an utterance is given to somebody else.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.multitalker.turns import Turn, by_recording, in_order
from espnet_ext.stitcher.hypotheses import NOBODY, WindowHypothesis
from espnet_ext.stitcher.windows import Window, Windowing


@dataclass(frozen=True)
class SimulatedErrors:
    """Probabilities of errors.

    Attributes:
        anywhere: that a word is wrong.
        edge: that it is wrong at the very edge of a window. From there it falls to ``anywhere``, linearly ...
        reach: ... within so many seconds.
        speaker: that in one window an utterance is given to another speaker of the recording.
        deletion, insertion: the kinds' shares of wrong words; the rest are substitutions.
    """

    anywhere: float = 0.08
    edge: float = 0.6
    reach: float = 1.0
    speaker: float = 0.03
    deletion: float = 0.35
    insertion: float = 0.15

    def at(self, distance: float) -> float:
        """The probability of an error so many seconds from a window's edge."""
        return self.anywhere + max(0.0, self.edge - self.anywhere) * max(0.0, 1.0 - distance / self.reach)


def simulate_recordings(
    turns: Iterable[Turn], windowing: Windowing, errors: SimulatedErrors, seed: int
) -> list[WindowHypothesis]:
    """Simulate what was heard in all windows of all recordings of a set; wrong words are other words of the set.

    Args:
        turns: of all recordings, with their times. A recording ends with its last turn.

    Raises:
        InputError: a turn without times.
    """
    turns = in_order(turns)
    for turn in turns:
        if turn.end is None:
            raise InputError(f"{turn.recording}: a turn of {turn.speaker} has no times: give start_time and end_time")
    recordings = by_recording(turns)
    vocabulary = sorted({word for own in recordings.values() for turn in own for word in turn.words})
    rng = np.random.default_rng(seed)
    return [
        hypothesis
        for own in recordings.values()
        for hypothesis in simulate_windows(
            own, max(turn.end for turn in own if turn.end is not None), windowing, vocabulary, errors, rng
        )
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
        turns: the recording's utterances with their times; the words of each follow each other evenly.
        seconds: length of the recording.
        vocabulary: the words that wrong ones are drawn from.

    Returns:
        As a recogniser writes them: one hypothesis a window and speaker heard in it, or one of nobody.
    """
    (recording,) = {turn.recording for turn in turns}
    speakers = sorted({turn.speaker for turn in turns})
    hypotheses = []
    for window in windowing.cut(recording, seconds):
        heard: dict[str, list[str]] = {}
        for turn in sorted(turns, key=lambda turn: turn.start):
            words = _heard(turn, window, seconds, vocabulary, errors, rng)
            speaker = rng.choice(speakers) if rng.random() < errors.speaker else turn.speaker
            if words:
                heard.setdefault(str(speaker), []).extend(words)
        hypotheses += [
            WindowHypothesis(recording, window.index, speaker, tuple(words), window.start, window.end)
            for speaker, words in (heard or {NOBODY: []}).items()
        ]
    return hypotheses


def _heard(
    turn: Turn,
    window: Window,
    seconds: float,
    vocabulary: Sequence[str],
    errors: SimulatedErrors,
    rng: np.random.Generator,
) -> list[str]:
    """What is heard of an utterance in a window: its words whose middle lies there, right or wrong."""
    step = (turn.end - turn.start) / max(len(turn.words), 1)
    heard = []
    for number, word in enumerate(turn.words):
        middle = turn.start + (number + 0.5) * step
        if not window.start <= middle < window.end:
            continue
        # the recording's own start and end cut no word
        left = middle - window.start if window.start > 0 else math.inf
        right = window.end - middle if window.end < seconds else math.inf
        if rng.random() >= errors.at(min(left, right)):
            heard.append(word)
            continue
        kind = rng.random()
        if kind >= errors.deletion:
            heard.append(str(rng.choice(vocabulary)))
        if kind >= 1 - errors.insertion:
            heard.append(word)
    return heard
