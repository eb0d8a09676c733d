"""Read the audio files of a data dir for work over shards, one for each utterance."""

import os
from collections.abc import Mapping
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import refuse_commands, require_folder
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import is_mix


def read_audio_table(data: str | Path) -> dict[str, str]:
    """Read ``wav.scp`` of a data dir without ``segments``: utterance -> audio file.

    The table is sorted, and no file is empty. Raises InputError otherwise.
    """
    folder = require_folder(data)
    if (folder / "segments").exists():
        raise InputError(
            f"{folder / 'segments'}: recordings cut by segments are not supported "
            "here: write each utterance to a file "
            "of its own, and make a data dir of these files"
        )
    wav_scp = folder / "wav.scp"
    table = read_table(wav_scp)
    refuse_commands(wav_scp, table)
    for utterance, path in table.items():
        try:
            empty = not os.stat(path).st_size
        except OSError:
            advice = "correct the path, or prepare the data again"
            raise InputError(
                f"{wav_scp}: {utterance}: no such file {path}: {advice}"
            ) from None
        if empty:
            raise InputError(
                f"{wav_scp}: {utterance}: {path} is empty: replace it, or drop "
                "the utterance"
            )
    return dict(sorted(table.items()))


def read_durations(data: Path, audio: Mapping[str, str]) -> dict[str, float]:
    """Return the seconds of each utterance by ``utt2dur``, or 1 without such a file."""
    path = data / "utt2dur"
    table = read_table(path) if path.exists() else dict.fromkeys(audio, "1")
    seconds = {}
    for utterance in audio:
        try:
            seconds[utterance] = float(table.get(utterance, ""))
        except ValueError:
            found = table.get(utterance)
            raise InputError(
                f"{path}: {utterance}: {found!r} is no duration in seconds: fix "
                "or remove it"
            ) from None
    return seconds


def check_audio(
    table: Mapping[str, str], rate: int | None = None, *, decode: bool = False
) -> None:
    """Look at the headers of audio files.

    After a failure, decode them to see whether one is the cause. Raises InputError
    names the first that cannot be opened, has no samples, breaks off, or has another
    sampling rate than ``rate`` in Hz; with ``decode`` also if it is corrupt, or holds
    NaN or infinite samples.
    """
    from espnet_ext.audio.files import inspect_audio

    for utterance, path in table.items():
        if decode and is_mix(path):  # reading a recipe blames its parts
            continue
        fault = inspect_audio(path, decode=decode, rate=rate, mono=False).fault
        if fault:
            raise InputError(
                f"{fault} {utterance}: {path}: resample or replace it, or drop "
                "the utterance"
            )
