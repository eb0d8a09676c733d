"""What Whisper hears in the windows of recordings whose speakers take turns.

Whisper hears one voice at a time and knows no speakers. So each word goes to the speaker who talks at that time by the
reference: the turns are known, as P4's oracle silences are in LibriCSS. Words near a change of speakers may go to the
wrong one, since Whisper's times are not exact.

Whisper pads what it hears to 30 s. Here a window is padded by two seconds only: windows of 8 s take a third of the
time. Windows of the same length are recognised together, greedily.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples, read_spans
from espnet_ext.multitalker.heard.hypotheses import NOBODY, WindowHypothesis, write_jsonl
from espnet_ext.multitalker.windows import parse_window_id
from espnet_ext.scoring.normalise import LIBRISPEECH, normaliser_called
from espnet_ext.text.transcript import Word
from espnet_ext.text.turns import Turn, by_recording, read_turns
from espnet_ext.whisper.nbest import MOST_TOKENS, RATE, TRAINED_WINDOW, bundled_folder
from espnet_ext.work.parallel import map_shards
from espnet_ext.work.settings import Count, Flag, StrictMapping

PADDING = 2  # seconds of silence after a window
TOGETHER = 16  # windows of the same length that are recognised as one batch
LONGEST_WORD = 0.8  # seconds; Whisper gives a pause to the word after it
FRAMES_PER_SECOND = 100
_WINDOWS_OF_A_SHARD = 200


def whole_words(parts: Iterable[Word]) -> tuple[Word, ...]:
    """Join what is written without a blank between: Whisper's aligner divides words at punctuation.

    A word ends with its last letter: Whisper gives the pause after a word to its full stop.

    >>> whole_words([Word(" o", 0, 1, 0.9), Word("'clock", 1, 2, 0.5), Word(".", 2, 4, 0.1)])
    (Word(text=" o'clock.", start=0, end=2, confidence=0.5),)
    """
    joined: list[Word] = []
    for part in parts:
        if joined and not part.text.startswith(" "):
            last = joined.pop()
            text, spoken = last.text + part.text, any(map(str.isalnum, part.text))
            end = replace(part, confidence=min(last.confidence, part.confidence)) if spoken else last
            part = replace(end, text=text, start=last.start)
        joined.append(part)
    return tuple(joined)


def inside(word: Word, start: float, end: float) -> tuple[float, float]:
    """A word's start and end in the recording, for a word of a window; Whisper's may lie past the window's end.

    >>> inside(Word("late", 1.5, 2.5), 10.0, 12.0)
    (11.5, 12.0)
    """
    first = min(max(start, start + word.start), end)
    return first, min(max(first, start + word.end), end)


def load(model: str | Path | None, device: str = "cpu", threads: int = 0) -> Any:
    """The network of faster-whisper.

    Args:
        model: a folder of CTranslate2, or None: tiny.en, whose weights are in a package.

    Raises:
        InputError: the extra ``whisper`` is not installed.
    """
    try:
        from ctranslate2 import set_random_seed
        from faster_whisper import WhisperModel

        folder = Path(model) if model else bundled_folder()
    except (ImportError, InputError) as error:
        raise InputError(
            f"Whisper is not installed ({error}): pip install 'espnet_ext[whisper]', or name another model with --model"
        ) from error
    set_random_seed(0)  # where its search fails, Whisper samples; threads of the model take the seed of this moment
    kind = "int8" if device == "cpu" else "float16"
    return WhisperModel(str(folder), device=device, compute_type=kind, cpu_threads=threads)


class WhisperSearch(StrictMapping):
    """What Whisper may write.

    Attributes:
        digits: whether it may write digits. Numbers that are said digit by digit come back as one number otherwise:
            "seven nine five" as 795, which a normaliser reads "seven hundred ninety five".
        tokens_per_second, spare_tokens: the most tokens of a window. A search that repeats itself would run on.
    """

    digits: Flag = True
    tokens_per_second: Count = 6  # nobody speaks faster
    spare_tokens: Count = 6


DEFAULT_SEARCH = WhisperSearch()


class WindowWhisper:
    """Whisper tiny.en on batches of windows.

    Raises:
        InputError: as :func:`load`.
    """

    def __init__(self, search: WhisperSearch) -> None:
        self._network, self._search = load(None, threads=1), search
        from faster_whisper.tokenizer import Tokenizer

        self._tokenizer = Tokenizer(self._network.hf_tokenizer, multilingual=False)
        self._suppressed = [-1]  # what the model's own config names
        if not search.digits:
            vocabulary = self._network.hf_tokenizer.get_vocab().items()
            with_digits = (id for piece, id in vocabulary if any(map(str.isdigit, piece)))
            self._suppressed += sorted(id for id in with_digits if id < self._tokenizer.eot)

    def hear(self, windows: Sequence[np.ndarray]) -> list[tuple[Word, ...]]:
        """Recognise windows, in batches of equal length.

        Args:
            windows: float32, (samples,) each, 16 kHz, of at most 30 s.
        """
        lengths: dict[int, list[int]] = {}
        for place, samples in enumerate(windows):
            lengths.setdefault(min(TRAINED_WINDOW, math.ceil(len(samples) / RATE) + PADDING), []).append(place)
        heard: dict[int, tuple[Word, ...]] = {}
        for seconds, places in lengths.items():
            for batch in batched(places, TOGETHER):
                heard |= zip(batch, self._batch([windows[place] for place in batch], seconds), strict=True)
        return [heard[place] for place in range(len(windows))]

    def _batch(self, windows: Sequence[np.ndarray], seconds: int) -> Iterator[tuple[Word, ...]]:
        from ctranslate2 import StorageView

        model, frames = self._network.model, seconds * FRAMES_PER_SECOND
        features = np.stack([self._features(samples, frames) for samples in windows])
        encoded = model.encode(StorageView.from_array(np.ascontiguousarray(features)), to_cpu=False)
        prompt = [*self._tokenizer.sot_sequence, self._tokenizer.no_timestamps]
        most = min(MOST_TOKENS, seconds * self._search.tokens_per_second + self._search.spare_tokens)
        found = model.generate(
            encoded,
            [prompt] * len(windows),
            beam_size=1,
            max_length=2 * most,  # it halves the length that it is given
            suppress_tokens=self._suppressed,
        )
        tokens = [
            [token for token in result.sequences_ids[0] if token < self._tokenizer.eot]  # the others are symbols
            for result in found
        ]
        spoken = [min(frames, max(2, len(samples) * FRAMES_PER_SECOND // RATE)) for samples in windows]
        for words in self._network.find_alignment(self._tokenizer, tokens, encoded, spoken):
            yield whole_words(
                Word(word["word"], float(word["start"]), float(word["end"]), float(word["probability"]))
                for word in words
                if word["word"].strip()
            )

    def _features(self, samples: np.ndarray, frames: int) -> np.ndarray:
        padded = np.zeros(frames * RATE // FRAMES_PER_SECOND, dtype=np.float32)
        padded[: len(samples)] = samples[: len(padded)]
        made: np.ndarray = self._network.feature_extractor(padded, padding=0)
        return made[:, :frames].astype(np.float32)


class WindowShard(NamedTuple):
    """Windows that one worker recognises: utterance -> audio, the turns of their recordings, and how."""

    name: str
    spans: dict[str, AudioSpan]
    turns: dict[str, list[Turn]]
    search: WhisperSearch


def hear_turns(data: Path, references: Path, output: Path, search: WhisperSearch = DEFAULT_SEARCH, nj: int = 1) -> None:
    """Recognise a data dir of windows, or of whole recordings, and write ``hypotheses.jsonl`` into ``output``.

    Args:
        data: its utterances are windows (see :mod:`espnet_ext.multitalker.windows`), or recordings of at most 30 s.
        references: SegLST, with times: who talks when.
        search: what Whisper may write.

    Raises:
        InputError: a missing or bad file, an utterance of more than 30 s, or a recording without turns.
    """
    spans, durations, turns = read_spans(data), read_table(data / "utt2dur"), by_recording(read_turns(references))
    for key, seconds in durations.items():
        if float(seconds) > TRAINED_WINDOW:
            raise InputError(f"{data}: {key} has {seconds} s, but Whisper hears at most {TRAINED_WINDOW} s at once")
        if _window(key)[0] not in turns:
            raise InputError(f"{references}: {_window(key)[0]} has no turns: give the references of these recordings")
    # windows of the same length come together
    keys = sorted(spans, key=lambda key: (-float(durations[key]), key))
    shards = []
    for number, part in enumerate(batched(keys, _WINDOWS_OF_A_SHARD), start=1):
        known = {_window(key)[0]: turns[_window(key)[0]] for key in part}
        shards.append(WindowShard(str(number), {key: spans[key] for key in part}, known, search))
    heard = [item for found in map_shards(hear_shard, shards, nj=nj, describe="windows") for item in found]
    write_jsonl(output / "hypotheses.jsonl", heard)
    print(f"{len(spans)} windows, {sum(len(item.words) for item in heard)} words")


def hear_shard(shard: WindowShard) -> list[WindowHypothesis]:
    """Recognise a shard's windows (in a worker process)."""
    whisper, normalise = WindowWhisper(shard.search), normaliser_called(LIBRISPEECH)[0]
    samples = {key: read_samples(key, span, RATE) for key, span in shard.spans.items()}
    heard: list[WindowHypothesis] = []
    for key, words in zip(samples, whisper.hear(list(samples.values())), strict=True):
        recording, index = _window(key)
        start = shard.spans[key].start
        end = start + len(samples[key]) / RATE
        window = WindowHypothesis(recording, index, NOBODY, (), round(start, 3), round(end, 3))
        heard += by_turns(words, window, shard.turns[recording], normalise)
    return heard


def _window(utterance: str) -> tuple[str, int]:
    """Recording and index of a window; a whole recording is its only window."""
    try:
        return parse_window_id(utterance)
    except InputError:
        return utterance, 0


def by_turns(
    words: Sequence[Word], window: WindowHypothesis, turns: Sequence[Turn], normalise: Callable[[str], str]
) -> list[WindowHypothesis]:
    """What was heard of each speaker in a window: a word belongs to the turn that is nearest to its middle.

    Args:
        words: with times from the window's start.
        window: without words.
        turns: of the recording, with times.
        normalise: writes words as the reference does; one may become several, which share its time, or none.
    """
    own: dict[str, list[tuple[str, tuple[float, float], float]]] = {}
    for word in words:
        start, end = inside(word, window.start, window.end)
        start = max(start, end - LONGEST_WORD)
        middle = (start + end) / 2
        turn = min(turns, key=lambda turn: max(turn.span[0] - middle, middle - turn.span[1]))
        for text in normalise(word.text).split():
            own.setdefault(turn.speaker, []).append((text, (round(start, 3), round(end, 3)), word.confidence))
    if not own:
        return [window]
    return [_with_words(window, speaker, found) for speaker, found in own.items()]


def _with_words(
    window: WindowHypothesis, speaker: str, found: Sequence[tuple[str, tuple[float, float], float]]
) -> WindowHypothesis:
    texts, times, confidences = zip(*found, strict=True)
    numbers = tuple(round(value, 3) for value in confidences)
    return WindowHypothesis(
        window.recording, window.window, speaker, texts, window.start, window.end, times=times, confidences=numbers
    )
