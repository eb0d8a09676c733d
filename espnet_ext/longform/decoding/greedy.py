"""Greedy CTC decoding of posteriors that come in parts."""

from typing import NamedTuple

import numpy as np


class Token(NamedTuple):
    """A token of a path, with its id.

    It has the frames from ``start`` to ``end``, and the highest posterior among them.
    """

    id: int
    start: int
    end: int
    confidence: float


class GreedyDecoder:
    """The best path: each frame's most probable token, without blanks and repeats."""

    def __init__(self, blank: int = 0):
        self._blank = blank
        self._frame = 0
        self._open: Token | None = None

    def step(self, posteriors: np.ndarray) -> list[Token]:
        """Take the posteriors of the next frames, (frames, vocabulary).

        Return the tokens that have ended.
        """
        ended = []
        best = posteriors.argmax(axis=1).tolist()
        highest_of_frames = posteriors.max(axis=1).tolist()
        for token, confidence in zip(best, highest_of_frames, strict=True):
            # A token goes on into the next part: it stays open until another one, or a
            # blank, is best.
            if self._open and token == self._open.id:
                highest = max(self._open.confidence, confidence)
                self._open = self._open._replace(
                    end=self._frame + 1, confidence=highest
                )
            else:
                ended += self.finish()
                if token != self._blank:
                    self._open = Token(token, self._frame, self._frame + 1, confidence)
            self._frame += 1
        return ended

    def finish(self) -> list[Token]:
        """Return the last token, if it has not been returned."""
        last = self._open
        self._open = None
        return [last] if last else []
