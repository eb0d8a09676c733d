"""Recordings of any length, with the times of words: in pieces of up to 30 s of speech, or in windows of given length.

Windows overlap, and are merged by the times of their words. Whisper hears one voice at a time: where people talk at
once, the weaker one is lost. Only what a detector of voices takes for speech is recognised: in silence Whisper makes up
words. Speech that is left without a word, or on which a search does not end, is recognised again in another way.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.audio.recordings import RecordingAudio, opened
from espnet_ext.errors import warn
from espnet_ext.text.window_hypotheses import NOBODY
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import SPEAKER, Segment, Word, lines_of
from espnet_ext.whisper.model import MOST_TOKENS, RATE, TRAINED_WINDOW, inside

WINDOWS = Windowing(float(TRAINED_WINDOW), 1 / 6)
PART = 480  # seconds that are recognised at once, about two batches, however long the recording is
PAUSE = 160  # milliseconds at least between two spans of speech, as in faster-whisper's batches
LEFT_OUT = 1.5  # seconds of speech without a word; from here on a search has failed
UNHEARD = 5.0  # seconds of speech without a word that no search has mended, and that are worth a warning
NO_SPEECH, DOUBT = 0.6, -0.5  # probability above which, and mean log-probability below which it was perhaps no speech
LONGEST_WORD = 1.0  # seconds; Whisper gives speech that it leaves out to the word beside it

Span = tuple[float, float]  # start and end in seconds
Way = Callable[[Any, np.ndarray, str], Iterable[Any]]  # from a network, samples and a language to pieces with words


def transcribe(network: Any, path: Path, language: str) -> Iterator[Segment]:
    """Recognise a recording in pieces that end in pauses."""
    with opened(path, RATE) as recording:
        yield from lines_of(_words_in_parts(network, recording, language))


def _words_in_parts(network: Any, audio: RecordingAudio, language: str) -> Iterator[Word]:
    """Yield the words of parts; each part but the last ends in its last pause."""
    start = 0
    while start < audio.length:
        samples = np.asarray(audio.read(start, min(PART * RATE, audio.length - start)), dtype=np.float32)
        spoken, first = _speech(samples), start / RATE
        if start + len(samples) < audio.length and len(spoken) > 1 and spoken[-1][1] >= len(samples) / RATE:
            (_, end), (begin, _) = spoken[-2:]
            samples, spoken = samples[: round((end + begin) / 2 * RATE)], spoken[:-1]
        words = _recognised(network, samples, language, spoken, WAYS)
        for begin, end in _gaps(words, len(samples) / RATE):
            if (seconds := _seconds(spoken, begin, end)) > UNHEARD:
                place = f"between {first + begin:.0f} and {first + end:.0f} s"
                warn(f"{audio.name}: no words are found in {seconds:.0f} s of what sounds like speech, {place}")
        for word in words:
            begin, end = inside(word, first, first + len(samples) / RATE)
            yield replace(word, text=word.text.strip(), start=begin, end=end)
        start += len(samples)


def transcribe_windows(network: Any, audio: RecordingAudio, windowing: Windowing, language: str) -> Iterator[Segment]:
    """Recognise a recording at 16 kHz in windows."""
    for window in windowing.cut(audio.name, audio.length / RATE):
        first = round(window.start * RATE)
        samples = np.asarray(audio.read(first, min(round(window.end * RATE), audio.length) - first), dtype=np.float32)
        found = _recognised(network, samples, language, _speech(samples), WAYS)
        spans = (inside(word, window.start, window.end) for word in found)
        yield replace(
            window,
            speaker=SPEAKER if found else NOBODY,
            words=tuple("-".join(word.text.split()) for word in found),
            times=tuple((round(start, 3), round(end, 3)) for start, end in spans) or None,
            confidences=tuple(word.confidence for word in found) or None,
        )


def _in_batches(network: Any, samples: np.ndarray, language: str, **options: Any) -> Iterable[Any]:
    from faster_whisper import BatchedInferencePipeline

    pipeline = BatchedInferencePipeline(network)
    return pipeline.transcribe(samples, language=language, word_timestamps=True, **options)[0]


def _with_symbols_of_time(network: Any, samples: np.ndarray, language: str) -> Iterable[Any]:
    return _in_batches(network, samples, language, without_timestamps=False)


def _one_by_one(network: Any, samples: np.ndarray, language: str) -> Iterable[Any]:
    options = {"word_timestamps": True, "vad_filter": True, "condition_on_previous_text": False}
    return network.transcribe(samples, language=language, **options)[0]


# The first is the fastest and errs least on average, but may skip what it takes for a repetition. Symbols of time keep
# a search beside what is said, or let it run in circles. The last, Whisper's own, samples again where it has failed.
WAYS: tuple[Way, ...] = (_in_batches, _with_symbols_of_time, _one_by_one)


def _recognised(
    network: Any, samples: np.ndarray, language: str, spoken: Sequence[Span], ways: Sequence[Way]
) -> list[Word]:
    """Return the words of samples, (samples,): what the first of the ``ways`` fails on is recognised by the others.

    ``spoken`` is where there is speech; it and the times of words count from the first sample.
    """
    if not spoken:
        return []
    way, *others = ways
    length = len(samples) / RATE
    pieces = [piece for piece in way(network, samples, language) if _words(piece)]
    failed = _failed(pieces, spoken, length) if others else [False] * len(pieces)
    if not pieces and others and _seconds(spoken, 0.0, length) > LEFT_OUT:
        return _recognised(network, samples, language, spoken, others)
    numbers = [list(group) for _, group in groupby(range(len(pieces)), key=failed.__getitem__)]
    words: list[Word] = []
    for first, last in ((group[0], group[-1]) for group in numbers):
        if not failed[first]:
            words += (word for piece in pieces[first : last + 1] for word in _words(piece))
            continue
        start = pieces[first - 1].end if first else 0.0
        end = pieces[last + 1].start if last + 1 < len(pieces) else length
        part = [(begin - start, stop - start) for begin, stop in _clipped(spoken, start, end)]
        again = _recognised(network, samples[round(start * RATE) : round(end * RATE)], language, part, others)
        words += (replace(word, start=start + word.start, end=start + word.end) for word in again)
    return words


def _words(piece: Any) -> list[Word]:
    """Return faster-whisper's words of a piece as ours."""
    words = (word for word in piece.words or () if word.word.strip())
    return [Word(word.word, float(word.start), float(word.end), float(word.probability)) for word in words]


def _failed(pieces: Sequence[Any], spoken: Sequence[Span], length: float) -> list[bool]:
    """Tell of each piece whether its search has failed.

    It has if speech beside or between its words is left out, if it did not end, or if its words may be made up.
    """
    words = [(number, word) for number, piece in enumerate(pieces) for word in _words(piece)]
    beside = [-1, *(number for number, _ in words), -1]
    skipped = {
        number
        for gap, pair in zip(_gaps([word for _, word in words], length), pairwise(beside), strict=True)
        if _seconds(spoken, *gap) > LEFT_OUT
        for number in pair
    }
    tokens = Counter[int]()
    for piece in pieces:
        tokens[piece.seek] += len(piece.tokens)  # pieces of one search have the same seek
    return [
        number in skipped
        or tokens[piece.seek] >= MOST_TOKENS - 2
        or (piece.no_speech_prob > NO_SPEECH and piece.avg_logprob < DOUBT)
        for number, piece in enumerate(pieces)
    ]


def _speech(samples: np.ndarray) -> list[Span]:
    from faster_whisper.vad import VadOptions, get_speech_timestamps

    options = VadOptions(min_silence_duration_ms=PAUSE, max_speech_duration_s=TRAINED_WINDOW)
    return [(span["start"] / RATE, span["end"] / RATE) for span in get_speech_timestamps(samples, options)]


def _gaps(words: Sequence[Word], length: float) -> list[Span]:
    """Return where no word is: before the first, between each two, and after the last."""
    ends = [0.0, *(min(word.end, word.start + LONGEST_WORD) for word in words)]
    return list(zip(ends, [*(word.start for word in words), length], strict=True))


def _clipped(spoken: Sequence[Span], start: float, end: float) -> list[Span]:
    return [(max(start, begin), min(end, stop)) for begin, stop in spoken if begin < end and stop > start]


def _seconds(spoken: Sequence[Span], start: float, end: float) -> float:
    return sum(stop - begin for begin, stop in _clipped(spoken, start, end))
