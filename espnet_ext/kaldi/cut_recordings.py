"""Data dirs with ``segments`` made into data dirs with one audio file for each
utterance.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import (
    DataDir,
    KaldiSegment,
    format_seconds,
    parse_segment,
)


def cut_segments(data: DataDir, folder: Path, num_jobs: int = 1) -> DataDir:
    """Write each utterance of a faultless data dir to ``<folder>/<utterance>.flac``.

    Return the data dir of these.
    """
    files = {utterance: _file(folder, utterance) for utterance in data.utt2spk}
    wanted: dict[str, dict[str, KaldiSegment]] = {}
    for utterance, value in (data.segments or {}).items():
        segment = parse_segment(value)
        wanted.setdefault(segment.recording, {})[utterance] = segment
    durations: dict[str, str] = {}
    with ThreadPoolExecutor(num_jobs) as pool:
        for found in pool.map(
            lambda name: _cut(data.wav_scp[name], wanted[name], files), wanted
        ):
            durations |= found
    paths = {key: str(path) for key, path in files.items()}
    return replace(data, wav_scp=paths, segments=None, utt2dur=durations)


def _file(folder: Path, key: str) -> Path:
    if "/" in key:
        raise InputError(f"the id {key} cannot name a file: use one without /")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{key}.flac"


def _cut(
    source: str, segments: Mapping[str, KaldiSegment], files: Mapping[str, Path]
) -> dict[str, str]:
    import soundfile

    samples, rate = soundfile.read(source, dtype="int16")
    durations = {}
    for utterance, (_, start, end) in segments.items():
        part = samples[
            round(start * rate) : len(samples) if end == -1 else round(end * rate)
        ]
        soundfile.write(files[utterance], part, rate, subtype="PCM_16")
        durations[utterance] = format_seconds(len(part) / rate)
    return durations
