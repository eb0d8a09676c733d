"""The audio files of a data dir for work over shards: one file for each utterance, its duration and its header."""

import os
from collections.abc import Mapping
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import refuse_commands, require_folder
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
    refuse_commands(wav_scp, table)
    for utterance, path in table.items():
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
    """Return the seconds of each utterance by ``utt2dur`` of a data dir, or 1 for each if there is no such file.

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


def check_audio(table: Mapping[str, str], rate: int | None = None, *, decode: bool = False) -> None:
    """Look at the headers of audio files; or after a failure, decode them to see whether one is the cause.

    Raises:
        InputError: a file cannot be opened, has no samples, breaks off, or has another sampling rate than ``rate`` in
            Hz; with ``decode`` also if it is corrupt, or holds NaN or infinite samples.
    """
    from espnet_ext.audio.files import inspect_audio

    for utterance, path in table.items():
        if decode and is_mix(path):  # reading a recipe blames its parts
            continue
        if fault := inspect_audio(path, decode=decode, rate=rate, mono=False).fault:
            raise InputError(f"{fault} {utterance}: {path}: resample or replace it, or drop the utterance")
