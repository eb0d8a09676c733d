"""The slow checks of a data dir: open each audio file and each feature matrix, and look at every value."""

import dataclasses
import re
from collections.abc import Callable, Iterable

import numpy as np
import soundfile
from tqdm import tqdm

from espnet_ext.data.data_dir import DataDir, format_seconds
from espnet_ext.data.data_dir_checks import Problem, audio_path, is_command, validate

_BLOCK = 1 << 20  # frames read at a time


def check_audio(data: DataDir, rate: int | None = None) -> list[Problem]:
    """Decode the audio of every recording; commands and positions in archives are passed over.

    Faults: a file that cannot be decoded to its end, no samples, NaN or infinite samples, several channels, a sampling
    rate other than ``rate`` in Hz (``None``: any one rate, but all the same), a segment that goes beyond the end.
    """
    seconds: dict[str, str] = {}
    rates: dict[int, list[str]] = {}

    def fault(recording: str) -> str | None:
        value = data.wav_scp[recording]
        if is_command(value) or audio_path(value) != value:
            return None
        found, length, problem = inspect_audio(value)
        if found:
            rates.setdefault(found, []).append(recording)
            seconds[recording] = format_seconds(length)
        return problem

    problems = _grouped("wav.scp", sorted(data.wav_scp), fault, "replace the audio files, or drop what uses them")
    problems += _rate_problems(rates, rate)
    if data.segments is not None:
        # With the true lengths in the place of reco2dur, the check of the tables finds segments beyond the end.
        true = dataclasses.replace(data, reco2dur=seconds)
        problems += [problem for problem in validate(true, require_text=False) if problem.file == "segments"]
    return problems


def _rate_problems(rates: dict[int, list[str]], rate: int | None) -> list[Problem]:
    if rate is None and rates:
        rate = max(rates, key=lambda found: len(rates[found]))
    return [
        Problem("wav.scp", f"sampling rate {found} Hz, not {rate} Hz, of", tuple(names), f"resample to {rate} Hz")
        for found, names in sorted(rates.items())
        if found != rate
    ]


def inspect_audio(path: str) -> tuple[int, float, str | None]:
    """Decode a file: its sampling rate in Hz, its length in seconds, and what is wrong with it (None: nothing).

    Rate and length are 0 if it cannot be opened. Raises nothing for bad audio.
    """
    try:
        with soundfile.SoundFile(path) as file:
            header = file.samplerate, file.frames / file.samplerate
            if not file.frames:
                return *header, "no samples in the audio of"
            if file.channels != 1:
                return *header, f"{file.channels} channels instead of one in the audio of"
            frames = 0
            while len(block := file.read(_BLOCK, dtype="float32")):
                frames += len(block)
                if not np.isfinite(block).all():
                    return *header, "NaN or infinite samples in the audio of"
            if frames != file.frames or _is_cut(file.extra_info):
                return *header, "the audio breaks off before its end, of"
            return *header, None
    except (soundfile.SoundFileError, OSError):
        return 0, 0.0, "corrupt audio (it cannot be decoded) of"


def _is_cut(log: str) -> bool:
    # libsndfile quietly takes what is left of a WAV, and only its log tells the length that the header promised.
    # A header written to a pipe promises a length near 2 or 4 GiB, which says nothing.
    lengths = re.search(r"^data : (\d+) \(should be (\d+)\)", log, re.MULTILINE)
    return lengths is not None and int(lengths[2]) < int(lengths[1]) < 0x7FFF0000


def check_features(data: DataDir) -> list[Problem]:
    """Read every matrix of ``feats.scp``: it must be readable, have frames, one width, and be finite throughout."""
    from omniio import kaldi  # the library that ESPnet reads ark files with

    if data.feats_scp is None:
        return [Problem("feats.scp", "no such file", (), "compute features, or check without --check-feats")]
    widths: dict[int, list[str]] = {}

    def fault(utterance: str) -> str | None:
        position = data.feats_scp[utterance]
        if is_command(position):
            return "a command (not run) stands for the features of"
        try:
            matrix = np.asarray(kaldi.load_mat(position))
        except Exception:  # a broken ark fails in as many ways as it can be broken
            return "unreadable features of"
        if matrix.ndim != 2 or not matrix.size:
            return "no matrix of frames for"
        widths.setdefault(matrix.shape[1], []).append(utterance)
        return None if np.isfinite(matrix).all() else "NaN or infinite features of"

    problems = _grouped("feats.scp", sorted(data.feats_scp), fault, "compute the features again")
    usual = max(widths, key=lambda width: len(widths[width]), default=0)
    for width, utterances in sorted(widths.items()):
        if width != usual:
            what = f"{width} values a frame, not {usual}, in the features of"
            problems.append(Problem("feats.scp", what, tuple(utterances), "compute the features again"))
    return problems


def _grouped(file: str, keys: Iterable[str], fault: Callable[[str], str | None], advice: str) -> list[Problem]:
    kinds: dict[str, list[str]] = {}
    for key in tqdm(list(keys), desc=f"check {file}", mininterval=5, delay=5):
        if found := fault(key):
            kinds.setdefault(found, []).append(key)
    return [Problem(file, what, tuple(ids), advice) for what, ids in kinds.items()]
