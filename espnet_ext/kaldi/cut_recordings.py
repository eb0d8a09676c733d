"""Data dirs with ``segments`` or commands made into data dirs with one audio file for each utterance."""

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from espnet_ext.audio.files import Inspected
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import OVERSHOOT, SLACK, DataDir, KaldiSegment, format_seconds, is_command, parse_segment
from espnet_ext.work.files import atomic_write


def run_commands(data: DataDir, folder: Path, where: str | Path, allow: bool, num_jobs: int = 1) -> DataDir:
    """Run the commands in ``wav.scp`` (``sph2pipe -f wav a.sph |``) and keep what they print as ``<recording>.wav`` in
    a folder.

    They may do anything, so the user must ``allow`` it (``--allow-pipes``). ``where`` is the data dir, for messages.
    """
    commands = {key: value for key, value in data.wav_scp.items() if is_command(value)}
    if commands and not allow:
        raise InputError(
            f"{where}/wav.scp: recording {min(commands)} is a command (ending in |): write its output to an audio "
            "file, or, if you trust who made this folder, let it run with --allow-pipes"
        )
    files = {key: _file(folder, key) for key in commands}
    with ThreadPoolExecutor(num_jobs) as pool:
        list(pool.map(lambda key: _run(key, commands[key], files[key], where), commands))
    return replace(data, wav_scp={**data.wav_scp, **{key: str(path) for key, path in files.items()}})


def _run(key: str, value: str, path: Path, where: str | Path) -> None:
    command = ["bash", "-o", "pipefail", "-c", value.rstrip().removesuffix("|")]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise InputError(f"{where}/wav.scp: recording {key}: its command failed with status {done.returncode}: {last}")
    with atomic_write(path, "wb") as file:
        file.write(done.stdout)


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
    files = {utterance: _file(folder, utterance, ".flac") for utterance in data.utt2spk}
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


def _file(folder: Path, key: str, ending: str = ".wav") -> Path:
    if "/" in key:
        raise InputError(f"the id {key} cannot name a file: use one without /")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{key}{ending}"


def _cut(source: str, segments: Mapping[str, KaldiSegment], files: Mapping[str, Path]) -> dict[str, str]:
    import soundfile

    samples, rate = soundfile.read(source, dtype="int16")
    durations = {}
    for utterance, (_, start, end) in segments.items():
        part = samples[round(start * rate) : len(samples) if end == -1 else round(end * rate)]
        soundfile.write(files[utterance], part, rate, subtype="PCM_16")
        durations[utterance] = format_seconds(len(part) / rate)
    return durations
