"""CTC decoding of posteriors that come in parts: best path, or beam search with an n-gram language model."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from espnet_ext.errors import InputError

_FLOOR = 1e-10  # smaller posteriors are raised to this before the logarithm


class Token(NamedTuple):
    """A token of a path: its id, its frames from ``start`` to ``end``, and the highest posterior among them."""

    id: int
    start: int
    end: int
    confidence: float


class PathTokens:
    """Joins a path, a token for each frame, to tokens without blanks and repeats.

    Args:
        blank: id of the blank.
    """

    def __init__(self, blank: int = 0):
        self._blank, self._frame = blank, 0
        self._open: Token | None = None

    def add(self, path: Sequence[int], confidences: Sequence[float]) -> list[Token]:
        """The next frames of the path, and the posterior of each frame's token. Returns the tokens that have ended."""
        ended = []
        for token, confidence in zip(path, confidences, strict=True):
            if self._open and token == self._open.id:
                highest = max(self._open.confidence, confidence)
                self._open = self._open._replace(end=self._frame + 1, confidence=highest)
            else:
                ended += self.finish()
                if token != self._blank:
                    self._open = Token(token, self._frame, self._frame + 1, confidence)
            self._frame += 1
        return ended

    def finish(self) -> list[Token]:
        """The token that has not ended yet, if there is one."""
        last, self._open = self._open, None
        return [last] if last else []


class GreedyDecoder:
    """The best path: the most probable token of each frame."""

    def __init__(self, blank: int = 0):
        self._tokens = PathTokens(blank)

    def step(self, posteriors: np.ndarray) -> list[Token]:
        """Posteriors of the next frames, (frames, vocabulary). Returns the tokens that have ended."""
        return self._tokens.add(posteriors.argmax(axis=1).tolist(), posteriors.max(axis=1).tolist())

    def finish(self) -> list[Token]:
        """The last token, if it has not been returned."""
        return self._tokens.finish()


@dataclass(frozen=True)
class BeamSettings:
    """Settings of the beam search.

    Attributes:
        lm: n-gram model over the model's tokens, ARPA or KenLM's binary; None: no language model.
        lm_weight: Weight of its log10 probability.
        beam_size: Number of hypotheses that are kept.
        beam_tokens: Number of tokens that are tried in a frame.
        beam_threshold: Hypotheses whose score is below the best by more than this are dropped.
        look_back: Frames after which a decision is final, so that memory does not grow with the recording.
    """

    lm: Path | None = None
    lm_weight: float = 1.0
    beam_size: int = 50
    beam_tokens: int = 30
    beam_threshold: float = 25.0
    look_back: int = 500


class BeamDecoder:
    """flashlight-text's lexicon-free beam search, fed frame by frame.

    Args:
        tokens: The model's tokens, in the order of their ids.
        settings: Settings of the search.
        blank: Id of the blank.

    Raises:
        InputError: flashlight-text is not installed, or the language model cannot be read.
    """

    def __init__(self, tokens: list[str], settings: BeamSettings, blank: int = 0):
        library = _flashlight()
        self._settings, self._blank = settings, blank
        options = library.LexiconFreeDecoderOptions(
            beam_size=settings.beam_size,
            beam_size_token=min(settings.beam_tokens, len(tokens)),
            beam_threshold=settings.beam_threshold,
            lm_weight=settings.lm_weight,
            sil_score=0.0,
            log_add=False,
            criterion_type=library.CriterionType.CTC,
        )
        self._lm = _language_model(library, tokens, settings.lm)
        self._decoder = library.LexiconFreeDecoder(options, self._lm, blank, blank, [])
        self._decoder.decode_begin()
        self._frames = 0  # decoded since the last final decision
        self._open: list[np.ndarray] = []  # log-posteriors of frames that are not final
        self._tokens = PathTokens(blank)

    def step(self, posteriors: np.ndarray) -> list[Token]:
        """Posteriors of the next frames, (frames, vocabulary). Returns the tokens that have become final."""
        look_back, final = self._settings.look_back, []
        for start in range(0, len(posteriors), look_back):
            scores = np.log(np.maximum(posteriors[start : start + look_back], _FLOOR), dtype=np.float32)
            self._decoder.decode_step(scores.ctypes.data, *scores.shape)
            self._frames += len(scores)
            self._open.append(scores)
            if self._frames > look_back:
                # Its first token belongs to the last decision.
                final += self._take(self._decoder.get_best_hypothesis(look_back).tokens[1:])
                self._decoder.prune(look_back)
                self._frames = look_back
        return final

    def finish(self) -> list[Token]:
        """The last tokens."""
        if self._frames:
            self._decoder.decode_end()
            # The end has a step of its own, which is no frame.
            final = self._take(self._decoder.get_best_hypothesis(0).tokens[1:])
            return final + self._tokens.finish()
        return self._tokens.finish()

    def _take(self, path: Sequence[int]) -> list[Token]:
        """The tokens of frames that have become final; the path may go on beyond the last frame."""
        scores = np.concatenate(self._open)
        count = min(len(path), len(scores))
        confidences = np.exp(scores[np.arange(count), list(path[:count])]).tolist()
        self._open = [scores[count:]]
        return self._tokens.add(path[:count], confidences)


def _flashlight() -> Any:
    try:
        from flashlight.lib.text import decoder
    except ImportError as error:
        raise InputError("beam search needs flashlight-text: pip install flashlight-text") from error
    return decoder


def _language_model(library: Any, tokens: list[str], path: Path | None) -> Any:
    if path is None:
        return library.ZeroLM()
    if not Path(path).is_file():
        raise InputError(f"{path}: no such language model: give an ARPA file over the model's tokens")
    stamp = Path(path).stat()
    return _kenlm(str(path), tuple(tokens), stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=1)  # recordings share a model: reading a large one takes minutes
def _kenlm(path: str, tokens: tuple[str, ...], *stamp: int) -> Any:
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    try:
        with _silent_stderr():
            return KenLM(path, Dictionary(list(tokens)))
    except (RuntimeError, ValueError) as error:  # ValueError: its own message is not UTF-8
        from espnet_ext.longform.decoding.ngram import arpa_fault

        known = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise InputError(
            f"{path}: KenLM cannot read this language model: {arpa_fault(path) or known}: give an ARPA file over the "
            "model's tokens, as `espnet-ext data ngram` writes it"
        ) from None


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Without KenLM's bars of progress, which would hide the line that says what is wrong."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
