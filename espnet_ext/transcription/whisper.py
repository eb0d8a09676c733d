"""Whisper as faster-whisper brings it: window after window, no voice detection."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from espnet_ext.audio.recordings import open_recording
from espnet_ext.errors import InputError
from espnet_ext.text.words import Segment, Word, split_into_lines
from espnet_ext.transcription.request import RATE, Engine, Request
from espnet_ext.whisper.model import join_whole_words, load_whisper

LONGEST = 2.0  # seconds of a word, where what is written without a blank is longer


def load_whisper_engine(model: str | Path | None, request: Request) -> Engine:
    """Load a Whisper that hears a file at once, of any length.

    ``model`` is the folder of a Whisper that CTranslate2 has converted; None: tiny.en
    of the package. Raises InputError: the extra ``whisper`` is not installed, or the
    model does not know the language.
    """
    network = load_whisper(model, request.device)
    language = request.language
    if language is not None and language not in network.supported_languages:
        raise InputError(
            f"--language {language}: this Whisper knows "
            f"{', '.join(network.supported_languages)}: choose one, or name another "
            "model with --model"
        )

    def recognise(path: Path) -> Iterator[Segment]:
        with open_recording(path, RATE) as recording:
            samples = recording.read(0, recording.length)
        pieces, _ = network.transcribe(samples, language=language, word_timestamps=True)
        yield from split_into_lines(list_words(pieces))

    return recognise


def list_words(pieces: Iterable[Any]) -> Iterator[Word]:
    """Yield the words of faster-whisper's segments as ours, each once it is heard."""
    for piece in pieces:
        parts = []
        for word in piece.words or ():
            if word.word.strip():
                start = float(word.start)
                end = float(word.end)
                parts.append(Word(word.word, start, end, float(word.probability)))
        for word in join_whole_words(parts, LONGEST):
            yield replace(word, text=word.text.strip())
