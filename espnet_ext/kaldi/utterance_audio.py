"""Read the samples of a data dir's utterances: ``wav.scp``, cut by ``segments``.

An audio file may be a recipe for one, ``.mix``: it names the files that are added up
when it is read.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import parse_segment, refuse_commands, require_folder
from espnet_ext.kaldi.tables import read_table
from espnet_ext.work.files import write_json

MIX = ".mix"
_PEAK = 0.99  # of a mixture that would overload
_SHORTER_SECONDS = 0.01  # by which a file may be shorter than its manifest says


class AudioSpan(NamedTuple):
    """Where an utterance's samples are: an audio file, start and end in seconds."""

    path: str
    start: float = 0.0
    end: float = -1.0  # the file's end, as in Kaldi's segments


def read_spans(folder: str | Path) -> dict[str, AudioSpan]:
    """Find the audio of every utterance of a data dir, sorted by id; nothing is opened.

    InputError also for commands, which are not run, and for segments that are malformed
    or of no recording.
    """
    folder = require_folder(folder)
    wav_scp = folder / "wav.scp"
    recordings = read_table(wav_scp)
    refuse_commands(wav_scp, recordings)
    for recording, value in recordings.items():
        if not value:
            raise InputError(
                f"{wav_scp}: {recording} has no path: write the audio to a file "
                "and give its path"
            )
    segments = folder / "segments"
    if not segments.exists():
        return {key: AudioSpan(recordings[key]) for key in sorted(recordings)}
    table = read_table(segments)
    return {
        key: _parse_span(key, table[key], recordings, segments) for key in sorted(table)
    }


def _parse_span(
    utterance: str, value: str, recordings: Mapping[str, str], segments: Path
) -> AudioSpan:
    try:
        recording, start, end = parse_segment(value)
    except ValueError:
        raise InputError(
            f"{segments}: {utterance}: expected `recording start end`, found "
            f"`{value}`: fix it"
        ) from None
    if recording not in recordings:
        raise InputError(
            f"{segments}: {utterance}: recording {recording} is not in wav.scp: "
            "add it, or drop the line"
        )
    if start < 0 or (end != -1 and end <= start):
        raise InputError(
            f"{segments}: {utterance}: from {start} to {end} s is not a time "
            "span: fix it"
        )
    return AudioSpan(recordings[recording], start, end)


def read_samples(utterance: str, span: AudioSpan, rate: int) -> np.ndarray:
    """Read an utterance's samples: float32 in -1 .. 1, (samples,), at least one.

    A segment is cut at the file's end. Raises InputError if the file is missing or
    cannot be decoded, has another rate than ``rate`` in Hz or several channels, or if
    the utterance has no samples, or some that are NaN or infinite.
    """
    if is_mix(span.path):
        samples, _ = read_mix(span.path, rate)
        end = len(samples) if span.end == -1 else round(span.end * rate)
        return samples[round(span.start * rate) : end]
    where = f"{span.path}: utterance {utterance}"
    try:
        with soundfile.SoundFile(span.path) as file:
            if file.samplerate != rate:
                raise InputError(
                    f"{where}: sampling rate {file.samplerate} Hz, not {rate} Hz: "
                    "resample the audio"
                )
            if file.channels != 1:
                raise InputError(
                    f"{where}: {file.channels} channels: extract one of them"
                )
            # Kaldi, too, cuts a segment at the recording's end.
            start = min(round(span.start * rate), file.frames)
            end = file.frames
            if span.end != -1:
                end = min(round(span.end * rate), file.frames)
            file.seek(start)
            samples = file.read(end - start, dtype="float32")
    except (soundfile.SoundFileError, OSError):
        # libsndfile says the same of all three.
        what = "corrupt audio"
        if not Path(span.path).exists():
            what = "no such audio file"
        elif not os.access(span.path, os.R_OK):
            what = "no permission to read"
        raise InputError(
            f"{where}: {what}: check the path in wav.scp, or replace the file"
        ) from None
    # A decoder gives fewer samples than the header promises, and no error.
    if len(samples) < end - start:
        raise InputError(
            f"{where}: the audio breaks off before its end: replace the file"
        )
    if not len(samples):
        raise InputError(f"{where}: no samples: drop the utterance")
    if not np.isfinite(samples).all():
        raise InputError(f"{where}: NaN or infinite samples: replace the file")
    return samples


@dataclass(frozen=True)
class MixedPart:
    """An audio file in a mixture, and where it starts."""

    utterance: str  # for messages
    path: str
    start: float  # in seconds
    seconds: float  # its length, by the corpus


def is_mix(path: str | Path) -> bool:
    """Return whether this is a recipe for audio."""
    return str(path).endswith(MIX)


def write_mix(
    path: str | Path, seconds: float, parts: Sequence[MixedPart], rate: int
) -> None:
    """Write a recipe for audio that :func:`read_samples` reads: some bytes of JSON."""
    named = [asdict(part) for part in parts]
    write_json(Path(path), {"rate": rate, "seconds": seconds, "parts": named})


def read_mix(path: str | Path, rate: int | None = None) -> tuple[np.ndarray, int]:
    """Return the samples of :func:`write_mix`'s recipe, and their rate in Hz.

    The samples are, bit by bit, those of a file of 16 bits.
    """
    try:
        recipe = json.loads(Path(path).read_text(encoding="utf-8"))
        found = int(recipe["rate"])
        seconds = float(recipe["seconds"])
        parts = [MixedPart(**part) for part in recipe["parts"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: not a mixture ({error!r}): prepare the mixtures again"
        ) from None
    if rate and found != rate:
        raise InputError(
            f"{path}: sampling rate {found} Hz, not {rate} Hz: prepare the "
            "mixtures again"
        )
    mixed = add_up_parts(Path(path).stem, seconds, parts, found)
    # What a FLAC file of the mixture would hold, so that results do not depend on
    # whether mixtures are stored.
    scale = np.float32(32768)
    quantised = np.clip(np.rint(mixed * scale), -32768, 32767)
    return quantised / scale, found


def add_up_parts(
    name: str, seconds: float, parts: Sequence[MixedPart], rate: int
) -> np.ndarray:
    """Add up audio files at their own levels: float32 in -1 .. 1, (samples,).

    No part ends after ``seconds``. A sum that would overload is turned down as a whole.
    """
    total = np.zeros(round(seconds * rate), dtype=np.float32)
    for part in parts:
        samples = read_samples(part.utterance, AudioSpan(part.path), rate)
        length = len(samples) / rate
        if part.seconds - length > _SHORTER_SECONDS:
            raise InputError(
                f"{part.path}: mixture {name} is longer than its parts: utterance "
                f"{part.utterance} has {length:.2f} s, "
                f"not {part.seconds:.2f} s: prepare the corpus again"
            )
        # A rounded start may leave one sample too many at the end.
        start = round(part.start * rate)
        samples = samples[: len(total) - start]
        total[start : start + len(samples)] += samples
    # As a whole: the levels of the speakers among each other stay.
    peak = float(np.abs(total).max())
    return total * (_PEAK / peak) if peak > _PEAK else total
