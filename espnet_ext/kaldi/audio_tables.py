"""The audio files of a data dir for work over shards: one file for each utterance, its duration and its header."""

import os
from collections.abc import Mapping
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import is_command, require_folder
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import is_mix


def read_audio_table(data: str | Path) -> dict[str, str]:
    """Read ``wav.scp`` of a data dir, sorted: utterance -> audio file.

    Raises:
        InputError: no such folder; it has ``segments``; an entry is a command, or its file is missing or empty.
    """
    folder = require_folder(data)
    if (folder / "segments").exists():
        raise InputError(
            f"{folder / 'segments'}: recordings cut by segments are not supported here: write each utterance to a file "
            "of its own, and make a data dir of these files"
        )
    wav_scp = folder / "wav.scp"
    table = read_table(wav_scp)
    for utterance, path in table.items():
        if is_command(path):
            raise InputError(f"{wav_scp}: {utterance} is a command, and commands are not run: give the path of a file")
        try:
            size = os.stat(path).st_size
        except OSError:
            raise InputError(
                f"{wav_scp}: {utterance}: no such file {path}: correct the path, or prepare the data again"
            ) from None
        if not size:
            raise InputError(f"{wav_scp}: {utterance}: {path} is empty: replace it, or drop the utterance")
    return dict(sorted(table.items()))


def durations(data: Path, audio: Mapping[str, str]) -> dict[str, float]:
    """The seconds of each utterance by ``utt2dur`` of a data dir, or 1 for each if there is no such file.

    Raises:
        InputError: an utterance is missing there, or its value is no number.
    """
    path = data / "utt2dur"
    if not path.exists():
        return dict.fromkeys(audio, 1.0)
    table = read_table(path)
    weights = {}
    for utterance in audio:
        try:
            weights[utterance] = float(table[utterance])
        except KeyError:
            raise InputError(f"{path}: {utterance} of wav.scp is missing: fix the file, or remove it") from None
        except ValueError:
            raise InputError(f"{path}: {utterance}: {table[utterance]!r} is no duration in seconds: fix it") from None
    return weights


def check_headers(table: Mapping[str, str], rate: int | None) -> None:
    """Look at the headers of audio files.

    Raises:
        InputError: a file cannot be opened, has no samples, or has another sampling rate than ``rate`` in Hz.
    """
    import soundfile

    for utterance, path in table.items():
        try:
            info = soundfile.info(path)
        except (soundfile.SoundFileError, OSError) as error:
            raise InputError(f"{utterance}: {path} cannot be read as audio ({error}): replace or drop it") from None
        if not info.frames:
            raise InputError(f"{utterance}: {path} has no samples: replace it, or drop the utterance")
        if rate and info.samplerate != rate:
            raise InputError(
                f"{utterance}: {path} has {info.samplerate} Hz, but the model's frontend takes {rate} Hz: resample it"
            )


def blame_audio(table: Mapping[str, str]) -> None:
    """After a failure, decode the shard's audio to see whether one file is the cause.

    Raises:
        InputError: a file is corrupt, cut off, or holds NaN or infinite samples; the message names the utterance.
    """
    from espnet_ext.audio.files import inspect_audio

    for utterance, path in table.items():
        fault = None if is_mix(path) else inspect_audio(path, mono=False).fault  # reading a recipe blames its parts
        if fault:
            raise InputError(f"{fault} {utterance}: {path}: replace it, or drop the utterance")
