"""Audio clips of the worst utterances, as MP3 files that every browser plays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import soundfile

from espnet_ext.audio.files import save_audio
from espnet_ext.errors import InputError
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_spans

# MP3, which Safari plays too; its sampling rates in Hz.
SUFFIX = ".mp3"
RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
MOST_SECONDS = 1200.0  # a longer recording is not an utterance to listen to; 20 minutes are 5 MB


@dataclass(frozen=True)
class Clips:
    """Audio files written for a test set.

    Attributes:
        numbers: utterance -> number of its file, which is called ``<number>.mp3``.
        failed: utterance -> why it has no clip, in one line.
    """

    numbers: Mapping[str, int]
    failed: Mapping[str, str]


def choose(ranked: Sequence[Sequence[str]], most: int) -> list[str]:
    """Choose utterances for clips: the worst of each system, then the second worst of each, until there are ``most``.

    >>> choose([["u1", "u2", "u3"], ["u3", "u1"]], 3)
    ['u1', 'u3', 'u2']
    """
    turns = (key for turn in zip_longest(*ranked) for key in turn if key is not None)
    return list(dict.fromkeys(turns))[:most]


def spans_of(folder: Path, base: Path | None) -> dict[str, AudioSpan]:
    """Where the audio of a data dir is; empty if there is no such folder, or it has no audio.

    Relative paths in ``wav.scp`` are relative to ``base``, the recipe's folder, where its commands run.

    Raises:
        InputError: as :func:`espnet_ext.kaldi.utterance_audio.read_spans`.
    """
    if not (folder / "wav.scp").is_file():
        return {}
    spans = read_spans(folder)
    return spans if base is None else {key: span._replace(path=str(base / span.path)) for key, span in spans.items()}


def write_clips(keys: Sequence[str], spans: Mapping[str, AudioSpan], folder: Path, first: int) -> Clips:
    """Write the audio of ``keys`` as MP3, numbered from ``first``. Of several channels the first is kept.

    An utterance whose audio cannot be read gets no clip, and the result says why; the page is written all the same.
    """
    numbers: dict[str, int] = {}
    failed: dict[str, str] = {}
    for key in keys:
        try:
            if key not in spans:
                raise InputError("not in wav.scp or segments")
            number = first + len(numbers)
            _write_clip(spans[key], folder / f"{number}{SUFFIX}")
            numbers[key] = number
        except (InputError, soundfile.SoundFileError, OSError) as error:
            failed[key] = " ".join(str(error).split())
    return Clips(numbers, failed)


def _write_clip(span: AudioSpan, path: Path) -> None:
    with soundfile.SoundFile(span.path) as file:
        rate = file.samplerate
        if rate not in RATES:
            raise InputError(f"{span.path}: {rate} Hz is none of MP3's sampling rates")
        start = min(round(span.start * rate), file.frames)
        end = file.frames if span.end == -1 else min(round(span.end * rate), file.frames)
        if end <= start:
            raise InputError(f"{span.path}: no samples")
        if end - start > MOST_SECONDS * rate:
            raise InputError(f"{span.path}: longer than {MOST_SECONDS / 60:.0f} minutes")
        file.seek(start)
        samples = file.read(end - start, dtype="float32", always_2d=True)[:, 0]
    save_audio(path, samples, rate, format="MP3", subtype="MPEG_LAYER_III")
