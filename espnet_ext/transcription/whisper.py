"""Whisper, whose weights come in a package: English, no network, no model of one's own."""

from collections.abc import Iterator
from pathlib import Path

from espnet_ext.audio.recordings import opened
from espnet_ext.errors import InputError
from espnet_ext.stitcher.by_time import merge_by_time
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment, spoken_lines
from espnet_ext.transcription.request import RATE, Engine, Request
from espnet_ext.transcription.voices import d_vectors_of_runs, enrolled, tell_voices
from espnet_ext.whisper.model import load_whisper
from espnet_ext.whisper.recordings import WINDOWS, transcribe, transcribe_windows


def whisper(model: str | Path | None, request: Request) -> Engine:
    """Return the engine: with ``speakers``, ``window`` or ``window_overlap`` in
    windows, otherwise in pieces.

    ``model`` is the folder of a Whisper that CTranslate2 has converted; None: tiny.en
    of the package. Raises InputError: the extra ``whisper`` is not installed, windows
    are too long, or it does not know the language.
    """
    windowing = Windowing(
        WINDOWS.length if request.window is None else request.window,
        WINDOWS.overlap if request.window_overlap is None else request.window_overlap,
    )
    if request.enrolment and request.num_speakers:
        raise InputError(
            "--num-speakers is for voices without names, and --enrolment names "
            "them: leave one out"
        )
    if windowing.length > WINDOWS.length:
        raise InputError(
            f"--window {windowing.length:g}: Whisper hears at most "
            f"{WINDOWS.length:g} s at once"
        )
    language, tells = (
        request.language or "en",
        request.speakers or request.enrolment or request.num_speakers,
    )
    network = load_whisper(model, request.device)
    if language != "en" and not network.model.is_multilingual:
        raise InputError(
            f"--language {language}: this Whisper knows English only: name "
            "another with --model"
        )
    if tells:
        from espnet_ext.multitalker.profiles import profile, resemblyzer

        runs_of = d_vectors_of_runs()
        files = enrolled(request, resemblyzer()) if request.enrolment else {}
        profiles = {who: profile(own) for who, own in files.items()}

    def in_windows(path: Path) -> Iterator[Segment]:
        with opened(path, RATE) as recording:
            words = merge_by_time(
                transcribe_windows(network, recording, windowing, language)
            )
            said = (
                tell_voices(words, recording, runs_of, profiles, request.num_speakers)
                if tells
                else {"": words}
            )
        return iter(spoken_lines(said))

    if tells or request.given() & {"window", "window_overlap"}:
        return in_windows
    return lambda path: transcribe(network, path, language)
