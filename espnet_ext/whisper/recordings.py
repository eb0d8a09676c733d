"""Recordings of any length, with the times of words: in pieces of up to 30 s of speech,
or in windows of given length.

Windows overlap, and are merged by the times of their words. Whisper hears one voice at
a time: where people talk at once, the weaker one is lost. Only what a detector of
voices takes for speech is recognised: in silence Whisper makes up words. Speech that is
left without a word, on which a search does not end, or whose words may be made up, is
recognised again a few seconds at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.audio.recordings import RecordingAudio, opened
from espnet_ext.errors import warn
from espnet_ext.text.window_hypotheses import NOBODY
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import SPEAKER, Segment, Span, Word, lines_of
from espnet_ext.whisper.model import (
    LONGEST_WORD,
    MOST_TOKENS,
    RATE,
    TRAINED_WINDOW,
    inside,
)
from espnet_ext.whisper.windows import DEFAULT_SEARCH, WindowWhisper

WINDOWS = Windowing(float(TRAINED_WINDOW), 1 / 6)
# seconds that are recognised at once, about two batches, however long the recording is
PART = 480
# milliseconds at least between two spans of speech, as in faster-whisper's batches
PAUSE = 160
PADDED = 0.4  # seconds of silence at the ends of a span
LEFT_OUT = 1.5  # seconds of speech without a word; from here on a search has failed
AGAIN, BEAM = 8.0, 5  # seconds of it that are searched at once, and hypotheses
# compression ratio above which a search has repeated itself, as in faster-whisper
LOOP = 2.4
WARN_FROM = 3.0  # seconds of speech for which no search has found a word
NO_SPEECH, DOUBT = (
    0.6,
    -0.5,
    # probability above which, and mean log-probability below which it was perhaps no
    # speech
)


def transcribe(network: Any, path: Path, language: str) -> Iterator[Segment]:
    """Recognise a recording in pieces that end in pauses."""
    with opened(path, RATE) as recording:
        yield from lines_of(_words_in_parts(network, recording, language))


def _words_in_parts(
    network: Any, audio: RecordingAudio, language: str
) -> Iterator[Word]:
    """Yield the words of parts; each part but the last ends in its last pause."""
    start = 0
    while start < audio.length:
        samples = np.asarray(
            audio.read(start, min(PART * RATE, audio.length - start)), dtype=np.float32
        )
        spoken, first = _speech(samples), start / RATE
        if (
            start + len(samples) < audio.length
            and len(spoken) > 1
            and spoken[-1][1] >= len(samples) / RATE
        ):
            (_, end), (begin, _) = spoken[-2:]
            samples, spoken = samples[: round((end + begin) / 2 * RATE)], spoken[:-1]
        words = _recognised(network, samples, language, spoken)
        _name_speech_without_words(
            audio.name, words, spoken, first, len(samples) / RATE
        )
        for word in words:
            yield replace(
                _placed(word, first, first + len(samples) / RATE),
                text=word.text.strip(),
            )
        start += len(samples)


def transcribe_windows(
    network: Any, audio: RecordingAudio, windowing: Windowing, language: str
) -> Iterator[Segment]:
    """Recognise a recording at 16 kHz in windows."""
    named = 0.0
    for window in windowing.cut(audio.name, audio.length / RATE):
        first = round(window.start * RATE)
        samples = np.asarray(
            audio.read(first, min(round(window.end * RATE), audio.length) - first),
            dtype=np.float32,
        )
        spoken = _speech(samples)
        found = _recognised(network, samples, language, spoken)
        named = _name_speech_without_words(
            audio.name, found, spoken, window.start, len(samples) / RATE, named
        )
        spans = (inside(word, window.start, window.end) for word in found)
        yield replace(
            window,
            speaker=SPEAKER if found else NOBODY,
            words=tuple("-".join(word.text.split()) for word in found),
            times=tuple((round(start, 3), round(end, 3)) for start, end in spans)
            or None,
            confidences=tuple(word.confidence for word in found) or None,
        )


def _recognised(
    network: Any, samples: np.ndarray, language: str, spoken: Sequence[Span]
) -> list[Word]:
    """Return the words of samples, (samples,); ``spoken`` is where there is speech.

    Spans of speech of which much is left without a word are recognised again, a few
    seconds at once, and so are what a search does not end on and words that may be made
    up. Of both, the words that are more probably right are taken.
    """
    from faster_whisper.transcribe import get_compression_ratio

    words = [
        word
        for piece in _in_batches(network, samples, language, spoken)
        for word in _words(piece)
    ]
    parts = list(_left_out(words, spoken, len(samples) / RATE))
    if not parts:
        return words
    again = WindowWhisper(DEFAULT_SEARCH, network, language, BEAM)
    cut = [samples[round(start * RATE) : round(end * RATE)] for start, end in parts]
    for (start, end), found in zip(parts, again.decode(cut), strict=True):
        # no time is left for what is written a second time but said once
        new = [_placed(word, start, end) for word in found if word.end > word.start]
        own = [word for word in words if start <= word.middle < end]
        loops = get_compression_ratio("".join(word.text for word in new)) > LOOP
        if not loops and _right_words(new) > _right_words(own):
            words = sorted(
                [*(word for word in words if word not in own), *new],
                key=lambda word: word.start,
            )
    return words


def _in_batches(
    network: Any, samples: np.ndarray, language: str, spoken: Sequence[Span]
) -> Iterable[Any]:
    """Return the pieces that faster-whisper's pipeline of batches finds, which would
    detect speech once more itself.
    """
    from faster_whisper import BatchedInferencePipeline
    from faster_whisper.transcribe import restore_speech_timestamps
    from faster_whisper.vad import collect_chunks

    if not spoken:
        return ()
    spans = [
        {"start": round(start * RATE), "end": round(end * RATE)}
        for start, end in spoken
    ]
    chunks, places = collect_chunks(samples, spans, max_duration=TRAINED_WINDOW)
    clips = [
        {"start": place["offset"], "end": place["offset"] + place["duration"]}
        for place in places
    ]
    options = {"language": language, "word_timestamps": True, "clip_timestamps": clips}
    pieces, _ = BatchedInferencePipeline(network).transcribe(
        np.concatenate(chunks), **options
    )
    return restore_speech_timestamps(pieces, spans, RATE)


def _placed(word: Word, start: float, end: float) -> Word:
    """Return a word of a part, which is from ``start`` to ``end``, at its time in the
    whole.
    """
    first, last = inside(word, start, end)
    return replace(word, start=first, end=last)


def _right_words(words: Iterable[Word]) -> float:
    """Return how many words are expected to be right, less those that are expected to
    be wrong.
    """
    return sum(2 * word.confidence - 1 for word in words)


def _words(piece: Any) -> list[Word]:
    """Return faster-whisper's words of a piece as ours: none if its search did not end,
    or they may be made up.
    """
    if len(piece.tokens) >= MOST_TOKENS - 2 or (
        piece.no_speech_prob > NO_SPEECH and piece.avg_logprob < DOUBT
    ):
        return []
    words = (word for word in piece.words or () if word.word.strip())
    return [
        Word(word.word, float(word.start), float(word.end), float(word.probability))
        for word in words
    ]


def _left_out(
    words: Sequence[Word], spoken: Sequence[Span], length: float
) -> Iterator[Span]:
    """Yield spans of at most ``AGAIN`` seconds, as far as pauses allow, in which speech
    is left without a word.
    """
    gaps = [gap for gap in _gaps(words, length) if _seconds(spoken, *gap) > LEFT_OUT]

    def is_left_out(span: Span) -> bool:
        return any(
            _seconds([span], *gap) > min(PADDED, (span[1] - span[0]) / 2)
            for gap in gaps
        )

    for left_out, run in groupby(spoken, is_left_out):
        if left_out:
            start, end = next(run)
            for begin, stop in run:
                if stop - start > AGAIN:
                    yield start, end
                    start = begin
                end = stop
            yield start, end


def _name_speech_without_words(
    name: str,
    words: Sequence[Word],
    spoken: Sequence[Span],
    first: float,
    length: float,
    after: float = 0.0,
) -> float:
    """Warn of long gaps that begin ``after`` what an earlier window has named; return
    the end of the last one.

    ``words`` and ``spoken`` are of ``length`` seconds that begin at ``first`` in the
    recording, as ``after``.
    """
    for begin, end in _gaps(words, length):
        seconds = _seconds(spoken, begin, end)
        if seconds > WARN_FROM and first + end > after:
            place = f"between {first + begin:.0f} and {first + end:.0f} s"
            warn(
                f"{name}: no words are found in {seconds:.0f} s of what sounds "
                f"like speech, {place}"
            )
            after = first + end
    return after


def _speech(samples: np.ndarray) -> list[Span]:
    from faster_whisper.vad import VadOptions, get_speech_timestamps

    options = VadOptions(
        min_silence_duration_ms=PAUSE, max_speech_duration_s=TRAINED_WINDOW
    )
    return [
        (span["start"] / RATE, span["end"] / RATE)
        for span in get_speech_timestamps(samples, options)
    ]


def _gaps(words: Sequence[Word], length: float) -> list[Span]:
    """Return where no word is: before the first, between each two, and after the last."""
    ends = [0.0, *(min(word.end, word.start + LONGEST_WORD) for word in words)]
    return list(zip(ends, [*(word.start for word in words), length], strict=True))


def _seconds(spoken: Sequence[Span], start: float, end: float) -> float:
    return sum(max(0.0, min(end, stop) - max(start, begin)) for begin, stop in spoken)
