"""Cut the recordings of a data dir with ``segments`` into a file for each utterance."""

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
    # All names before any cutting: an id that names no file is refused at once.
    files = {utterance: _name_file(folder, utterance) for utterance in data.utt2spk}
    wanted: dict[str, dict[str, KaldiSegment]] = {}
    for utterance, value in (data.segments or {}).items():
        segment = parse_segment(value)
        wanted.setdefault(segment.recording, {})[utterance] = segment

    def cut(recording: str) -> dict[str, str]:
        return _cut_recording(data.wav_scp[recording], wanted[recording], files)

    durations: dict[str, str] = {}
    # Threads: libsndfile works without Python's lock.
    with ThreadPoolExecutor(num_jobs) as pool:
        for found in pool.map(cut, wanted):
            durations |= found
    paths = {key: str(path) for key, path in files.items()}
    return replace(data, wav_scp=paths, segments=None, utt2dur=durations)


def _name_file(folder: Path, key: str) -> Path:
    if "/" in key:
        raise InputError(f"the id {key} cannot name a file: use one without /")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{key}.flac"


def _cut_recording(
    source: str, segments: Mapping[str, KaldiSegment], files: Mapping[str, Path]
) -> dict[str, str]:
    """Write the segments of a recording, and return their seconds."""
    import soundfile

    # A recording is read once for all its segments. 16 bits, as FLAC of speech has
    # them: its samples come out as they went in.
    samples, rate = soundfile.read(source, dtype="int16")
    durations = {}
    for utterance, (_, start, end) in segments.items():
        first = round(start * rate)
        last = len(samples) if end == -1 else round(end * rate)
        part = samples[first:last]
        soundfile.write(files[utterance], part, rate, subtype="PCM_16")
        durations[utterance] = format_seconds(len(part) / rate)
    return durations
