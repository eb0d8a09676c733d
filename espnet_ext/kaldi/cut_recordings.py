"""Data dirs with ``segments`` made into data dirs with one audio file for each utterance."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from espnet_ext.audio.files import Inspected
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import OVERSHOOT, SLACK, DataDir, KaldiSegment, format_seconds, parse_segment


def segment_faults(data: DataDir, audio: Mapping[str, Inspected]) -> dict[str, str]:
    """Map utterances to faults, for segments that begin or end after their recording; warn of those that are cut."""
    faults, late = {}, []
    for utterance, value in (data.segments or {}).items():
        name, start, end = parse_segment(value)
        seconds = audio[name].seconds if name in audio else None
        if seconds is not None and (start >= seconds or end > seconds + OVERSHOOT):
            faults[utterance] = (
                f"segment {utterance} is from {start:g} to {end:g} s, but its recording {name} has {seconds:.2f} s"
            )
        elif seconds is not None and end > seconds + SLACK:
            late.append(utterance)
    if late:
        print(f"warning: {len(late)} segments are cut, at most {OVERSHOOT:g} s before their end: {late[0]}")
    return faults


def cut_segments(data: DataDir, folder: Path, num_jobs: int = 1) -> DataDir:
    """Write each utterance of a faultless data dir to ``<folder>/<utterance>.flac``; return the data dir of these."""
    files = {utterance: _file(folder, utterance) for utterance in data.utt2spk}
    wanted: dict[str, dict[str, KaldiSegment]] = {}
    for utterance, value in (data.segments or {}).items():
        segment = parse_segment(value)
        wanted.setdefault(segment.recording, {})[utterance] = segment
    durations: dict[str, str] = {}
    with ThreadPoolExecutor(num_jobs) as pool:
        for found in pool.map(lambda name: _cut(data.wav_scp[name], wanted[name], files), wanted):
            durations |= found
    paths = {key: str(path) for key, path in files.items()}
    return replace(data, wav_scp=paths, segments=None, utt2dur=durations)


def _file(folder: Path, key: str) -> Path:
    if "/" in key:
        raise InputError(f"the id {key} cannot name a file: use one without /")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{key}.flac"


def _cut(source: str, segments: Mapping[str, KaldiSegment], files: Mapping[str, Path]) -> dict[str, str]:
    import soundfile

    samples, rate = soundfile.read(source, dtype="int16")
    durations = {}
    for utterance, (_, start, end) in segments.items():
        part = samples[round(start * rate) : len(samples) if end == -1 else round(end * rate)]
        soundfile.write(files[utterance], part, rate, subtype="PCM_16")
        durations[utterance] = format_seconds(len(part) / rate)
    return durations
