"""Whisper, whose weights come in a package: English, no network, no model of one's own.

By itself Whisper decides where its next 30 s begin. To tell speakers, or with windows of a given length, a recording is
cut into windows that overlap, which are merged by the times of their words. Whisper hears one voice at a time: where
people talk at once, the weaker one is lost.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.longform.recording_audio import RecordingAudio, opened
from espnet_ext.multitalker.heard.hypotheses import NOBODY, WindowHypothesis
from espnet_ext.multitalker.windows import RecordingWindow, Windowing
from espnet_ext.stitcher.by_time import merge_by_time
from espnet_ext.text.transcript import SPEAKER, Line, Word, lines_of, spoken_lines
from espnet_ext.transcription.request import RATE, Engine, Request
from espnet_ext.transcription.voices import enrolled_profiles, tell_voices
from espnet_ext.whisper.windows import inside, load

WINDOWS = Windowing(30.0, 1 / 6)  # Whisper's own length


def whisper(model: str | Path | None, request: Request) -> Engine:
    """The engine: with ``speakers``, ``window`` or ``window_overlap`` in windows, otherwise in Whisper's own manner.

    Args:
        model: folder of a Whisper that CTranslate2 has converted; None: tiny.en of the package.
        request: the language (``en``), windows of at most 30 s (30 s that overlap by 5), speakers, and those enrolled.

    Raises:
        InputError: the extra ``whisper`` is not installed, windows are too long, or it does not know the language.
    """
    windowing = Windowing(
        WINDOWS.length if request.window is None else request.window,
        WINDOWS.overlap if request.window_overlap is None else request.window_overlap,
    )
    if windowing.length > WINDOWS.length:
        raise InputError(f"--window {windowing.length:g}: Whisper hears at most {WINDOWS.length:g} s at once")
    language, tells = request.language or "en", request.speakers or request.enrolment
    network = load(model, request.device)
    if language != "en" and not network.model.is_multilingual:
        raise InputError(
            f"--language {language}: this Whisper knows English only: name a multilingual one with --model"
        )
    if tells:
        from espnet_ext.multitalker.profiles import resemblyzer

        embed = resemblyzer()
        profiles = enrolled_profiles(request.enrolment, embed, request.folder) if request.enrolment else None

    def whole(path: Path) -> Iterator[Line]:
        with opened(path, RATE) as recording:
            samples = recording.read(0, recording.length)
        segments, _ = network.transcribe(
            samples, language=language, word_timestamps=True, vad_filter=True, condition_on_previous_text=False
        )
        words = (word for segment in segments for word in segment.words or () if word.word.strip())
        return lines_of(Word(word.word.strip(), word.start, word.end, word.probability) for word in words)

    def in_windows(path: Path) -> Iterator[Line]:
        with opened(path, RATE) as recording:
            words = merge_by_time(hear(network, recording, windowing, language))
            said = tell_voices(words, recording, embed, profiles) if tells else {"": words}
        return iter(spoken_lines(said))

    return in_windows if tells or request.given() & {"window", "window_overlap"} else whole


def hear(
    network: Any, audio: RecordingAudio, windowing: Windowing = WINDOWS, language: str = "en"
) -> Iterator[WindowHypothesis]:
    """Recognise a recording at 16 kHz in windows, with the times of words."""
    for window in windowing.cut(audio.name, audio.length / RATE):
        first = round(window.start * RATE)
        samples = np.asarray(audio.read(first, min(round(window.end * RATE), audio.length) - first), dtype=np.float32)
        segments, _ = network.transcribe(
            samples, language=language, beam_size=5, word_timestamps=True, condition_on_previous_text=False
        )
        found = [word for segment in segments for word in segment.words or () if word.word.strip()]
        yield WindowHypothesis(
            audio.name,
            window.index,
            SPEAKER if found else NOBODY,
            tuple("-".join(word.word.split()) for word in found),
            window.start,
            window.end,
            times=tuple(_times(word, window) for word in found) or None,
            confidences=tuple(word.probability for word in found) or None,
        )


def _times(word: Any, window: RecordingWindow) -> tuple[float, float]:
    start, end = inside(Word(word.word, word.start, word.end), window.start, window.end)
    return round(start, 3), round(end, 3)
