"""A web page for a transcript, in one file: it plays the audio, marks the word that is heard, and needs no network."""

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from string import Template

import soundfile

from espnet_ext.audio.recordings import RecordingAudio
from espnet_ext.text.words import Segment, Word
from espnet_ext.text.writing import clock
from espnet_ext.work.files import atomic_write

TEMPLATE = Path(__file__).parent / "templates" / "transcript.html"
RATE = 16000  # of the audio in the page, in Hz: an hour of speech as MP3 is about 20 MB
UNSURE = 0.5  # words with a lower confidence are marked
BLOCK = 60  # seconds that are encoded at a time


def write_page(path: Path, name: str, lines: Sequence[Segment], audio: RecordingAudio) -> None:
    """Write the page.

    Args:
        path: the file, ``.html``.
        name: the title.
        lines: the transcript.
        audio: the recording, at :data:`RATE`.
    """
    page = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=html.escape(name),
        audio=base64.b64encode(as_mp3(audio)).decode(),
        lines="\n".join(map(_line, lines)) or "<p>No speech was found.</p>",
        unsure=f"{UNSURE:g}",
    )
    with atomic_write(path) as file:
        file.write(page)


def as_mp3(audio: RecordingAudio) -> bytes:
    """The audio as MP3, mono."""
    target = io.BytesIO()
    with soundfile.SoundFile(target, "w", RATE, 1, format="MP3", subtype="MPEG_LAYER_III") as file:
        for start in range(0, audio.length, BLOCK * RATE):
            file.write(audio.read(start, min(BLOCK * RATE, audio.length - start)))
    return target.getvalue()


def _line(line: Segment) -> str:
    speaker = f'<b class="speaker">{html.escape(line.speaker)}</b> ' if line.speaker else ""
    words = " ".join(map(_word, line.timed_words))
    return f"<p><time>{clock(line.start)[:-4]}</time> {speaker}{words}</p>"


def _word(word: Word) -> str:
    times = f'data-start="{word.start:.3f}" data-end="{word.end:.3f}"'
    unsure = " class=unsure" if word.confidence < UNSURE else ""
    return f'<span tabindex="0" {times}{unsure} title="{word.confidence:.2f}">{html.escape(word.text)}</span>'
