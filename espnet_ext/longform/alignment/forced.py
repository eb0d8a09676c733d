"""Word times of long recordings whose transcripts have none, by a model with CTC.

The memory of one alignment grows with frames times tokens. So a recording is cut where
the model's best path agrees with the transcript over several tokens, and torchaudio
aligns each piece. A word lasts from its first token to its last one, without a space
before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.audio.recordings import RecordingAudio
from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.greedy import GreedyDecoder, Token
from espnet_ext.longform.decoding.settings import WindowSettings
from espnet_ext.longform.decoding.transcribe import (
    SPACE,
    Transcriber,
    find_bpemodel,
    load_transcriber,
)
from espnet_ext.text.edit_rows import allow_insertions
from espnet_ext.text.words import Word
from espnet_ext.work.yaml_files import read_yaml

# Tokens of the best path that agree with the transcript, one after the other, where it
# may be cut.
ANCHOR = 4
PIECE = 60.0  # seconds of one forced alignment
LONGEST = 600.0  # and of one that cannot be cut
# A piece is matched with at most this many times as many tokens of the transcript as
# its best path has. Even a model that leaves out every other token hears enough, and
# the alignment of a piece does not grow with the whole transcript.
_REACH = 3
# Share of a piece's best path that is in the transcript, at least; at the end, also the
# other way.
_AGREEMENT = 0.5
# Tokens that the rest of a recording must have, for their agreement with the transcript
# to say something.
_TAIL = 40
_FLOOR = 1e-6  # of posteriors, before the logarithm


@dataclass
class Aligner:
    """Find the words of one transcript in the posteriors of its recording.

    The posteriors come in parts. ``tokens`` has the ids of each word's tokens, of which
    a word may have none. ``piece`` is how many frames are aligned at once, if the
    recording can be cut there; one that cannot be cut is refused after ``longest``.
    ``blank`` is the id of the blank, and ``space`` that of the token, if any, between
    words that begins the tokens of a word.
    """

    texts: Sequence[str]
    tokens: Sequence[Sequence[int]]
    piece: int
    longest: int
    blank: int = 0
    space: int | None = None
    _held: list[np.ndarray] = field(default_factory=list)
    _first: int = 0  # frame that the held ones begin with
    _word: int = 0  # next word
    _wait: int = 0  # frames before the next attempt to cut

    def step(self, posteriors: np.ndarray) -> list[Word]:
        """Take the next frames, (frames, vocabulary), and return the aligned words.

        Their times are in frames. Raises InputError if the recording does not agree
        with the transcript over ``longest`` frames.
        """
        # Parts are joined only when a cut is looked for: joining each would copy all
        # that is held, again and again.
        self._held.append(posteriors.astype(np.float32))
        frames = sum(len(part) for part in self._held)
        if frames < max(self.piece, self._wait):
            return []
        held = np.concatenate(self._held)
        cut = self._cut(held)
        if cut is None:
            if frames >= self.longest:
                raise self._make_disagreement()
            # Another look at once would cost as much and find as little.
            self._wait = frames + self.piece // 2
            return []
        frame, word = cut
        words = self._align(held[:frame], word)
        # What comes after the cut is aligned with the next piece.
        self._held = [held[frame:]]
        self._wait = 0
        return words

    def finish(self) -> list[Word]:
        """Return the words that are left.

        Raises InputError if what is heard and the rest of the transcript have less than
        half in common, by either, unless the rest of a recording that was cut is too
        short to tell; or if the frames are too few for the tokens.
        """
        held = np.zeros((0, 1), np.float32)
        if self._held:
            held = np.concatenate(self._held)
        self._held = []
        heard = self._decode(held)
        expected = list(chain.from_iterable(self.tokens[self._word :]))
        longer = max(len(heard), len(expected))
        # Of a few tokens nobody can tell; of a recording that was cut before, the rest
        # may be short and still be the right one.
        enough = _TAIL if self._first else 2 * ANCHOR
        # Too few frames for the tokens are a fault of their own, which _align names.
        if longer >= enough and len(held) >= len(expected):
            pairs = match_tokens(expected, [token.id for token in heard])
            if len(pairs) < _AGREEMENT * longer:
                raise self._make_disagreement()
        return self._align(held, len(self.texts))

    def _decode(self, held: np.ndarray) -> list[Token]:
        """Return the tokens of the best path."""
        decoder = GreedyDecoder(self.blank)
        return decoder.step(held) + decoder.finish()

    def _make_disagreement(self) -> InputError:
        return InputError(
            f"what is heard from word {self._word + 1} of the transcript on does "
            "not agree with it: "
            "check that it is this recording's, whole, and in this model's language"
        )

    def _cut(self, held: np.ndarray) -> tuple[int, int] | None:
        """Find a frame and a word that begins there.

        Both are in the last stretch where best path and transcript agree.
        """
        heard = self._decode(held)
        expected: list[int] = []
        # place of a word's first token -> number of the word
        begins: dict[int, int] = {}
        for word in range(self._word, len(self.texts)):
            begins[len(expected)] = word
            expected += self.tokens[word]
            # What is heard cannot reach further than this into the transcript.
            if len(expected) > _REACH * len(heard) + ANCHOR:
                break
        pairs = match_tokens(expected, [token.id for token in heard])
        if len(pairs) < _AGREEMENT * len(heard):
            return None
        # The last place is taken, so that a piece is as long as it can be.
        cut = None
        run = 0  # tokens that agree without a gap on either side
        next_pair = None
        for place, other in pairs:
            if (place, other) != next_pair:
                run = 0
            run += 1
            next_pair = (place + 1, other + 1)
            frame = heard[other].start
            word = begins.get(place, -1)
            # At the next word, or at frame 0, nothing would be cut off.
            if run >= ANCHOR and word > self._word and frame:
                cut = frame, word
        return cut

    def _align(self, held: np.ndarray, end: int) -> list[Word]:
        """Align the words before word ``end`` to frames, and go on after both."""
        import torch
        from torchaudio.functional import forced_align, merge_tokens

        ids = list(chain.from_iterable(self.tokens[self._word : end]))
        # CTC needs a frame of blank between equal tokens.
        repeats = sum(one == other for one, other in pairwise(ids))
        if len(held) < len(ids) + repeats:
            raise InputError(
                f"{len(held)} frames are too few for the {len(ids)} tokens of "
                f"words {self._word + 1} to {end}: "
                "check that the transcript is this recording's"
            )
        spans: list = []
        if ids:
            # A probability of 0 has no logarithm, and the path would have none either.
            log_probs = torch.from_numpy(np.log(np.maximum(held, _FLOOR)))
            targets = torch.tensor([ids], dtype=torch.int32)
            path, best = forced_align(
                log_probs.contiguous().unsqueeze(0), targets, blank=self.blank
            )
            spans = merge_tokens(path[0], best[0].exp(), blank=self.blank)
        # Spans come token by token, in the order of the words.
        words = []
        left = iter(spans)
        before = self._first  # where the last word ended
        for word in range(self._word, end):
            mine = list(islice(left, len(self.tokens[word])))
            # The space before a word is no part of its time.
            if len(mine) > 1 and mine[0].token == self.space:
                mine = mine[1:]
            start = before  # a word without tokens has no length
            confidence = 0.0
            if mine:
                start = mine[0].start + self._first
                before = mine[-1].end + self._first
                confidence = sum(span.score for span in mine) / len(mine)
            words.append(Word(self.texts[word], start, before, confidence))
        self._first += len(held)
        self._word = end
        return words


@dataclass(frozen=True)
class RecordingAligner:
    """Hold a model with CTC that gives words times.

    ESPnet's tokenizer makes a word's tokens.
    """

    transcriber: Transcriber
    tokenizer: Any

    def align_words(self, path: str | Path, texts: Sequence[str]) -> list[Word]:
        """Return the words of an audio file with their times in seconds.

        ``texts`` stay as they are written. Raises InputError for audio that cannot be
        read, or does not agree with the words, or words without tokens.
        """
        own = self.transcriber
        model = own.model
        tokens = self.split_words(texts)
        known = sum(1 for ids in tokens if ids)
        # Names and numbers may have no tokens, but not most of a transcript.
        if known < len(texts) / 2:
            raise InputError(
                f"the model has tokens for only {known} of the {len(texts)} words "
                "of the transcript: check its language"
            )
        unit = model.frame_seconds
        space = model.tokens.index(SPACE) if SPACE in model.tokens else None
        aligner = Aligner(
            texts, tokens, round(PIECE / unit), round(LONGEST / unit), space=space
        )
        with RecordingAudio(Path(path).stem, path, model.rate) as audio:
            words: list[Word] = []
            source = model.open_source(audio)
            for part in model.compute_posteriors(source, own.window, own.stride):
                words += aligner.step(part)
            words += aligner.finish()
        return [
            Word(word.text, word.start * unit, word.end * unit, word.confidence)
            for word in words
        ]

    def split_words(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each word's tokens, in the case of the model's tokens.

        Letters that the model's tokens lack are left out.
        """
        names = self.transcriber.model.tokens
        ids = {name: id for id, name in enumerate(names)}
        # Special tokens, such as <blank>, are no letters.
        letters = "".join(name for name in names if not name.startswith("<"))
        words = [_match_case(text, letters) for text in texts]
        found = []
        for place, word in enumerate(words):
            pieces = self._split_word(word, set(letters))
            # Of characters, words are separated by a token of its own.
            separated = self.transcriber.token_type == "char" and SPACE in ids
            if separated and pieces and place:
                pieces = [SPACE, *pieces]
            found.append([ids[piece] for piece in pieces if piece in ids])
        return found

    def _split_word(self, word: str, letters: set[str]) -> list[str]:
        """Return a word's pieces by ESPnet's tokenizer, without unknown letters."""
        if self.transcriber.token_type == "word":
            return [word]
        spelled = "".join(letter for letter in word if letter in letters)
        return self.tokenizer.text2tokens(spelled) if spelled else []


def _match_case(text: str, letters: str) -> str:
    """Write a text in the case of a model's letters, if they have only one."""
    if letters == letters.upper():
        return text.upper()
    return text.lower() if letters == letters.lower() else text


def load_aligner(config: Path, model: Path, device: str = "cpu") -> RecordingAligner:
    """Load a model with CTC as an aligner, or take the one that was loaded last."""
    # Two windows a frame, not eight: what is said is known, only the times are not.
    settings_of_windows = WindowSettings(stride=0.5)
    transcriber = load_transcriber(config, model, settings_of_windows, device=device)
    from espnet2.text.build_tokenizer import build_tokenizer

    settings = read_yaml(config)
    bpemodel = find_bpemodel(Path(config), settings)
    tokenizer = build_tokenizer(settings["token_type"], bpemodel=bpemodel)
    return RecordingAligner(transcriber, tokenizer)


def match_tokens(
    expected: Sequence[int], heard: Sequence[int]
) -> list[tuple[int, int]]:
    """Return where tokens are equal in the best alignment with what is expected.

    ``heard`` is aligned with a beginning of ``expected``; pairs are places in both.
    """
    import kaldialign

    # Only a beginning of the transcript can have been heard yet. Aligned with all of
    # it, the last tokens would be paired with whatever comes later.
    end = _find_nearest_beginning(np.array(expected), np.array(heard))
    prefix = list(expected[:end])
    nothing = -1
    pairs = []
    place = 0
    other = 0
    for one, two in kaldialign.align(prefix, list(heard), nothing):
        if one == two:
            pairs.append((place, other))
        if one != nothing:
            place += 1
        if two != nothing:
            other += 1
    return pairs


def _find_nearest_beginning(expected: np.ndarray, heard: np.ndarray) -> int:
    """Return the length of the beginning of ``expected`` that is nearest to ``heard``.

    The edit distance counts; of several the shortest.
    """
    # costs[j]: the distance of what is expected so far from the first j heard tokens
    costs = np.arange(len(heard) + 1)
    best = costs[-1]
    end = 0
    for number, token in enumerate(expected, 1):
        new = costs + 1  # the token is expected and not heard
        substituted = costs[:-1] + (heard != token)
        new[1:] = np.minimum(new[1:], substituted)
        costs = allow_insertions(new)  # tokens that are heard and not expected
        if costs[-1] < best:
            best = costs[-1]
            end = number
    return end
