"""Recordings of any length, with the times of words: in pieces of up to 30 s of speech, or in windows of given length.

Windows overlap, and are merged by the times of their words. Whisper hears one voice at a time: where people talk at
once, the weaker one is lost. Only what a detector of voices takes for speech is recognised: in silence Whisper makes up
words. Speech that is left without a word, on which a search does not end, or whose words may be made up, is recognised
again in another way.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.audio.recordings import RecordingAudio, opened
from espnet_ext.errors import warn
from espnet_ext.text.window_hypotheses import NOBODY
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import SPEAKER, Segment, Span, Word, lines_of
from espnet_ext.whisper.model import LONGEST_WORD, MOST_TOKENS, RATE, TRAINED_WINDOW, inside

WINDOWS = Windowing(float(TRAINED_WINDOW), 1 / 6)
PART = 480  # seconds that are recognised at once, about two batches, however long the recording is
PAUSE = 160  # milliseconds at least between two spans of speech, as in faster-whisper's batches
LEFT_OUT = 1.5  # seconds of speech without a word; from here on a search has failed
WARN_FROM = 5.0  # seconds of speech for which no search has found a word
NO_SPEECH, DOUBT = 0.6, -0.5  # probability above which, and mean log-probability below which it was perhaps no speech

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
        _name_speech_without_words(audio.name, words, spoken, first, len(samples) / RATE)
        for word in words:
            yield replace(_placed(word, first, first + len(samples) / RATE), text=word.text.strip())
        start += len(samples)


def transcribe_windows(network: Any, audio: RecordingAudio, windowing: Windowing, language: str) -> Iterator[Segment]:
    """Recognise a recording at 16 kHz in windows."""
    named = 0.0
    for window in windowing.cut(audio.name, audio.length / RATE):
        first = round(window.start * RATE)
        samples = np.asarray(audio.read(first, min(round(window.end * RATE), audio.length) - first), dtype=np.float32)
        spoken = _speech(samples)
        found = _recognised(network, samples, language, spoken, WAYS)
        named = _name_speech_without_words(audio.name, found, spoken, window.start, len(samples) / RATE, named)
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
    pieces = [piece for piece in way(network, samples, language) if _words(piece)]
    if not others:
        return [word for piece in pieces for word in _words(piece)]
    if not pieces:
        return _recognised(network, samples, language, spoken, others)
    length, wrong = len(samples) / RATE, _wrong(pieces)
    failed = wrong | _beside_gaps(pieces, spoken, length)
    words: list[Word] = []
    for has_failed, group in groupby(range(len(pieces)), key=lambda number: number in failed):
        own = list(group)
        found = [word for number in own for word in _words(pieces[number])]
        if has_failed:
            start = pieces[own[0] - 1].end if own[0] else 0.0
            end = pieces[own[-1] + 1].start if own[-1] + 1 < len(pieces) else length
            part = [(begin - start, stop - start) for begin, stop in _clipped(spoken, start, end)]
            again = _recognised(network, samples[round(start * RATE) : round(end * RATE)], language, part, others)
            again = [_placed(word, start, end) for word in again]
            found = again if wrong & set(own) else max(found, again, key=_right_words)
        words += found
    return words


def _placed(word: Word, start: float, end: float) -> Word:
    """Return a word of a part, which is from ``start`` to ``end``, at its time in the whole."""
    first, last = inside(word, start, end)
    return replace(word, start=first, end=last)


def _right_words(words: Iterable[Word]) -> float:
    """Return how many words are expected to be right, less those that are expected to be wrong."""
    return sum(2 * word.confidence - 1 for word in words)


def _words(piece: Any) -> list[Word]:
    """Return faster-whisper's words of a piece as ours."""
    words = (word for word in piece.words or () if word.word.strip())
    return [Word(word.word, float(word.start), float(word.end), float(word.probability)) for word in words]


def _wrong(pieces: Sequence[Any]) -> Set[int]:
    """Return the numbers of pieces whose search did not end, or whose words may be made up."""
    tokens = Counter[int]()
    for piece in pieces:
        tokens[piece.seek] += len(piece.tokens)  # pieces of one search have the same seek
    return {
        number
        for number, piece in enumerate(pieces)
        if tokens[piece.seek] >= MOST_TOKENS - 2 or (piece.no_speech_prob > NO_SPEECH and piece.avg_logprob < DOUBT)
    }


def _beside_gaps(pieces: Sequence[Any], spoken: Sequence[Span], length: float) -> Set[int]:
    """Return the numbers of pieces beside whose words, or between them, speech is left out."""
    words = [(number, word) for number, piece in enumerate(pieces) for word in _words(piece)]
    beside = pairwise([-1, *(number for number, _ in words), -1])
    gaps = zip(_gaps([word for _, word in words], length), beside, strict=True)
    return {number for gap, pair in gaps if _seconds(spoken, *gap) > LEFT_OUT for number in pair}


def _name_speech_without_words(
    name: str, words: Sequence[Word], spoken: Sequence[Span], first: float, length: float, after: float = 0.0
) -> float:
    """Warn of long gaps that begin ``after`` what an earlier window has named; return the end of the last one.

    ``words`` and ``spoken`` are of ``length`` seconds that begin at ``first`` in the recording, as ``after``.
    """
    for begin, end in _gaps(words, length):
        seconds = _seconds(spoken, begin, end)
        if seconds > WARN_FROM and first + end > after:
            place = f"between {first + begin:.0f} and {first + end:.0f} s"
            warn(f"{name}: no words are found in {seconds:.0f} s of what sounds like speech, {place}")
            after = first + end
    return after


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
