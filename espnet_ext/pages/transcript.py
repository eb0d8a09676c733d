"""A web page for a transcript: it plays the audio, and marks the word that is heard."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path

import soundfile

from espnet_ext.audio.recordings import RecordingAudio
from espnet_ext.pages.clips import MP3
from espnet_ext.pages.page import write_page
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import format_clock

RATE = 16000  # of the audio in the page, in Hz: an hour of speech as MP3 is about 20 MB
UNSURE = 0.5  # words with a lower confidence are marked
BLOCK = 60  # seconds that are encoded at a time


def write_transcript_page(
    path: Path, name: str, lines: Sequence[Segment], audio: RecordingAudio
) -> None:
    """Write the page ``path`` of a transcript, called ``name``.

    ``audio`` is the recording, at :data:`RATE`.
    """
    # within the page, which is sent and opened as one file
    encoded = base64.b64encode(encode_mp3(audio)).decode()
    write_page(
        path,
        "transcript.html.j2",
        title=name,
        lines=lines,
        audio=encoded,
        unsure=UNSURE,
        clock=format_clock,
    )


def encode_mp3(audio: RecordingAudio) -> bytes:
    """Encode the audio as MP3, mono."""
    target = io.BytesIO()
    with soundfile.SoundFile(target, "w", RATE, 1, **MP3) as file:
        # in blocks: samples of hours need not fit into memory, as MP3 they do
        size = BLOCK * RATE
        for start in range(0, audio.length, size):
            file.write(audio.read(start, min(size, audio.length - start)))
    return target.getvalue()
