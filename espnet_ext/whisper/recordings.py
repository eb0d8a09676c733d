"""Recordings of any length, with the times of words: in Whisper's own manner, or in windows of a given length.

Windows overlap, and are merged by the times of their words. Whisper hears one voice at a time: where people talk at
once, the weaker one is lost. Only what a detector of voices takes for speech is recognised: in silence Whisper makes up
words.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.audio.recordings import RecordingAudio, opened
from espnet_ext.text.window_hypotheses import NOBODY
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import SPEAKER, Segment, Word, lines_of
from espnet_ext.whisper.model import RATE, TRAINED_WINDOW, inside

WINDOWS = Windowing(float(TRAINED_WINDOW), 1 / 6)
PART = 300  # seconds that are recognised at once: their features take 240 MB, however long the recording is


def transcribe(network: Any, path: Path, language: str) -> Iterator[Segment]:
    """Recognise a recording in Whisper's own manner."""
    with opened(path, RATE) as recording:
        yield from lines_of(_words_in_parts(network, recording, language))


def _words_in_parts(network: Any, audio: RecordingAudio, language: str) -> Iterator[Word]:
    """Yield the words of parts; each part but the last ends in its last pause."""
    from faster_whisper.vad import VadOptions, get_speech_timestamps

    start = 0
    while start < audio.length:
        samples = audio.read(start, min(PART * RATE, audio.length - start))
        if start + len(samples) < audio.length:
            spoken = get_speech_timestamps(samples, VadOptions())
            if len(spoken) > 1 and spoken[-1]["end"] == len(samples):
                samples = samples[: (spoken[-2]["end"] + spoken[-1]["start"]) // 2]
        first = start / RATE
        for word in _recognised(network, samples, language):
            yield Word(word.word.strip(), first + word.start, first + word.end, word.probability)
        start += len(samples)


def transcribe_windows(network: Any, audio: RecordingAudio, windowing: Windowing, language: str) -> Iterator[Segment]:
    """Recognise a recording at 16 kHz in windows."""
    for window in windowing.cut(audio.name, audio.length / RATE):
        first = round(window.start * RATE)
        samples = np.asarray(audio.read(first, min(round(window.end * RATE), audio.length) - first), dtype=np.float32)
        found = list(_recognised(network, samples, language, beam_size=5))
        spans = (inside(Word(word.word, word.start, word.end), window.start, window.end) for word in found)
        yield replace(
            window,
            speaker=SPEAKER if found else NOBODY,
            words=tuple("-".join(word.word.split()) for word in found),
            times=tuple((round(start, 3), round(end, 3)) for start, end in spans) or None,
            confidences=tuple(word.probability for word in found) or None,
        )


def _recognised(network: Any, samples: np.ndarray, language: str, **options: Any) -> Iterator[Any]:
    """Yield faster-whisper's words."""
    options |= {"word_timestamps": True, "vad_filter": True, "condition_on_previous_text": False}
    segments, _ = network.transcribe(samples, language=language, **options)
    return (word for segment in segments for word in segment.words or () if word.word.strip())
