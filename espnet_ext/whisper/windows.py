"""Recognise windows of recordings whose speakers take turns, by Whisper.

Whisper hears one voice and knows no speakers. So each word goes to the speaker who
talks at that time by the reference: the turns are known, as P4's oracle silences are in
LibriCSS. Words near a change of speakers may go to the wrong one, since Whisper's times
are not exact.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import batched
from pathlib import Path
from typing import NamedTuple

import numpy as np

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples, read_spans
from espnet_ext.scoring.normalise import LIBRISPEECH, find_normaliser
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.window_hypotheses import NOBODY
from espnet_ext.text.windows import parse_window_id
from espnet_ext.text.words import Segment, Word, group_by_recording
from espnet_ext.text.writing import write_hypotheses
from espnet_ext.whisper.model import (
    FRAMES_PER_SECOND,
    LONGEST_WORD,
    RATE,
    TRAINED_WINDOW,
    find_token_limit,
    join_whole_words,
    load_once,
    place_in_recording,
)
from espnet_ext.work.parallel import map_shards
from espnet_ext.work.settings import Count, Flag, StrictMapping

# Seconds of silence after a window, in place of up to 30 s: windows of 8 s take a third
# of the time.
PADDING = 2
WINDOWS_PER_BATCH = 16  # windows of the same length that are recognised as one batch
_WINDOWS_OF_A_SHARD = 200


class WhisperSearch(StrictMapping):
    """What Whisper may write.

    Numbers that are said digit by digit come back as one number if it may write
    ``digits``: "seven nine five" as 795, which a normaliser reads "seven hundred ninety
    five".
    """

    digits: Flag = True
    # Nobody speaks faster, but a search that repeats itself would run on.
    tokens_per_second: Count = 6
    spare_tokens: Count = 6


DEFAULT_SEARCH = WhisperSearch()


class WindowWhisper:
    """Whisper tiny.en on batches of windows."""

    def __init__(self, search: WhisperSearch) -> None:
        self._network = load_once(threads=1)
        self._search = search
        from faster_whisper.tokenizer import Tokenizer

        self._tokenizer = Tokenizer(self._network.hf_tokenizer, multilingual=False)
        self._suppressed = [-1]  # what the model's own config names
        if not search.digits:
            vocabulary = self._network.hf_tokenizer.get_vocab()
            for piece, id in sorted(vocabulary.items(), key=lambda item: item[1]):
                # Symbols of times have digits, too. They have larger ids than pieces of
                # text; the end of the text is the first symbol.
                if id < self._tokenizer.eot and any(map(str.isdigit, piece)):
                    self._suppressed.append(id)

    def decode(self, windows: Sequence[np.ndarray]) -> list[tuple[Word, ...]]:
        """Recognise windows, float32, (samples,), 16 kHz, at most 30 s.

        Windows of equal length are in one batch.
        """
        # In whole seconds: more windows share a length, and what one is padded with
        # does not depend on the others.
        lengths: dict[int, list[int]] = {}
        for index, samples in enumerate(windows):
            padded = math.ceil(len(samples) / RATE) + PADDING
            lengths.setdefault(min(TRAINED_WINDOW, padded), []).append(index)
        found: dict[int, tuple[Word, ...]] = {}
        for seconds, indices in lengths.items():
            for batch in batched(indices, WINDOWS_PER_BATCH):
                of_batch = [windows[index] for index in batch]
                heard = self._recognise_batch(of_batch, seconds)
                found |= zip(batch, heard, strict=True)
        return [found[index] for index in range(len(windows))]

    def _recognise_batch(
        self, windows: Sequence[np.ndarray], seconds: int
    ) -> Iterator[tuple[Word, ...]]:
        """Yield the words of windows, each padded to ``seconds``."""
        from ctranslate2 import StorageView

        model = self._network.model
        frames = seconds * FRAMES_PER_SECOND
        padded = np.zeros((len(windows), seconds * RATE), dtype=np.float32)
        for row, samples in zip(padded, windows, strict=True):
            row[: len(samples)] = samples[: len(row)]
        features = []
        for row in padded:
            # Without the half minute of silence that Whisper pads with.
            features.append(self._network.feature_extractor(row, padding=0)[:, :frames])
        storage = StorageView.from_array(np.stack(features).astype(np.float32))
        # On the device, where the search and the alignment read the encodings.
        encoded = model.encode(storage, to_cpu=False)
        prompt = [*self._tokenizer.sot_sequence, self._tokenizer.no_timestamps]
        search = self._search
        limit = find_token_limit(seconds, search.tokens_per_second, search.spare_tokens)
        results = model.generate(
            encoded,
            [prompt] * len(windows),
            beam_size=1,
            max_length=2 * limit,  # CTranslate2 halves what it is given
            suppress_tokens=self._suppressed,
        )
        tokens = []
        spoken = []  # frames of each window without its padding
        for result, samples in zip(results, windows, strict=True):
            # Symbols are left out; their ids begin with that of the end.
            ids = result.sequences_ids[0]
            tokens.append([token for token in ids if token < self._tokenizer.eot])
            # The encoder halves the frames, and the aligner needs one at least.
            own_frames = max(2, len(samples) * FRAMES_PER_SECOND // RATE)
            spoken.append(min(frames, own_frames))
        aligned = self._network.find_alignment(self._tokenizer, tokens, encoded, spoken)
        for words in aligned:
            parts = []
            for word in words:
                if word["word"].strip():
                    start = float(word["start"])
                    end = float(word["end"])
                    confidence = float(word["probability"])
                    parts.append(Word(word["word"], start, end, confidence))
            yield join_whole_words(parts)


class WindowShard(NamedTuple):
    """Hold windows that one worker recognises.

    ``spans`` has the audio of each utterance, ``turns`` those of the recordings.
    """

    name: str
    spans: dict[str, AudioSpan]
    turns: dict[str, list[Segment]]
    search: WhisperSearch


def decode_turns(
    data: Path,
    references: Path,
    output: Path,
    search: WhisperSearch = DEFAULT_SEARCH,
    nj: int = 1,
) -> None:
    """Recognise a data dir of windows, or of recordings of at most 30 s.

    ``hypotheses.jsonl`` is written into ``output``. ``references`` is SegLST, with
    times: who talks when. ``nj`` is the number of processes.
    """
    spans = read_spans(data)
    durations = read_table(data / "utt2dur")
    turns = group_by_recording(read_segments(references))
    for key, seconds in durations.items():
        if float(seconds) > TRAINED_WINDOW:
            raise InputError(
                f"{data}: {key} has {seconds} s, but Whisper hears at most "
                f"{TRAINED_WINDOW} s at once"
            )
        recording, _ = parse_window_id(key)
        if recording not in turns:
            raise InputError(
                f"{references}: {recording} has no turns: give the references of "
                "these recordings"
            )
    # Windows of the same length come together.
    keys = sorted(spans, key=lambda key: (-float(durations[key]), key))
    shards = []
    for number, part in enumerate(batched(keys, _WINDOWS_OF_A_SHARD), start=1):
        own = {key: spans[key] for key in part}
        recordings = dict.fromkeys(parse_window_id(key)[0] for key in part)
        known = {recording: turns[recording] for recording in recordings}
        shards.append(WindowShard(str(number), own, known, search))
    found: list[Segment] = []
    for heard in map_shards(decode_shard, shards, nj=nj, describe="windows"):
        found += heard
    write_hypotheses(output / "hypotheses.jsonl", found)
    say(f"{len(spans)} windows, {sum(len(item.words) for item in found)} words")


def decode_shard(shard: WindowShard) -> list[Segment]:
    """Recognise a shard's windows (in a worker process)."""
    whisper = WindowWhisper(shard.search)
    normalise, _ = find_normaliser(LIBRISPEECH)
    samples = {key: read_samples(key, span, RATE) for key, span in shard.spans.items()}
    found: list[Segment] = []
    for key, words in zip(samples, whisper.decode(list(samples.values())), strict=True):
        recording, index = parse_window_id(key)
        start = shard.spans[key].start
        end = start + len(samples[key]) / RATE
        window = Segment(
            recording, NOBODY, (), round(start, 3), round(end, 3), window=index
        )
        found += split_by_turns(words, window, shard.turns[recording], normalise)
    return found


def split_by_turns(
    words: Sequence[Word],
    window: Segment,
    turns: Sequence[Segment],
    normalise: Callable[[str], str],
) -> list[Segment]:
    """Return each speaker's words in a window.

    A word belongs to the turn that is nearest to its middle.

    The times of ``words`` are from the window's start, those of the recording's
    ``turns`` from its own. ``normalise`` writes words as the reference does; one may
    become several, which share its time, or none.
    """
    own: dict[str, list[tuple[str, tuple[float, float], float]]] = {}
    for word in words:
        start, end = place_in_recording(word, window.start, window.end)
        # A pause before a word is a part of it; the word itself is at the end.
        start = max(start, end - LONGEST_WORD)
        turn = find_nearest_turn(turns, (start + end) / 2)
        for text in normalise(word.text).split():
            timed = text, (round(start, 3), round(end, 3)), round(word.confidence, 3)
            own.setdefault(turn.speaker, []).append(timed)
    if not own:
        return [window]
    found = []
    for speaker, timed_words in own.items():
        texts, times, confidences = zip(*timed_words, strict=True)
        found.append(
            replace(
                window,
                speaker=speaker,
                words=texts,
                times=times,
                confidences=confidences,
            )
        )
    return found


def find_nearest_turn(turns: Sequence[Segment], time: float) -> Segment:
    """Return the turn that is nearest to a time, in seconds; of several the first.

    Inside a turn the distance is negative: where turns overlap, it is the one of which
    the time lies deeper inside.
    """

    def measure_distance(turn: Segment) -> float:
        start, end = turn.span
        return max(start - time, time - end)

    return min(turns, key=measure_distance)
