"""Corpora in LibriSpeech's layout, of recordings of another one.

Their test parts may be of speakers whom the other parts lack.
"""

import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
import soundfile
import soxr

from espnet_ext.corpora.librispeech import SAMPLING_RATE


def copy_other_speakers(part: Path, output: Path, left_out: Collection[str]) -> None:
    """Copy a part of a corpus but for some speakers."""
    for folder in part.iterdir():
        if folder.name not in left_out:
            shutil.copytree(folder, output / folder.name)


def write_recordings(parts: Iterable[Path], speaker: str, output: Path) -> None:
    """Write what a speaker has recorded in several parts of a corpus into one part."""
    # Parts number their utterances alike, so that each needs a chapter of its own.
    for number, part in enumerate(parts):
        for path in sorted((part / speaker).rglob("*.flac")):
            write_utterance(path, output, prefix=str(number))


def write_utterance(
    path: Path, part: Path, recorded: np.ndarray | None = None, prefix: str = ""
) -> None:
    """Write an utterance into a part, at 16 kHz, with its transcript.

    If it was recorded again (samples at 16 kHz), or with ``prefix``, it is in another
    chapter.
    """
    speaker, chapter, utterance = path.stem.split("-")
    transcripts = path.parent / f"{speaker}-{chapter}.trans.txt"
    text = dict(line.split(" ", 1) for line in transcripts.open())[path.stem]
    # No other chapter's number, since ids are unique in a corpus.
    chapter = (prefix or ("" if recorded is None else "9")) + chapter
    folder = part / speaker / chapter
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{speaker}-{chapter}-{utterance}.flac"
    if recorded is None and soundfile.info(path).samplerate == SAMPLING_RATE:
        target.write_bytes(path.read_bytes())
    else:
        samples = read_speech(path, SAMPLING_RATE) if recorded is None else recorded
        soundfile.write(target, samples, SAMPLING_RATE, subtype="PCM_16")
    with (folder / f"{speaker}-{chapter}.trans.txt").open("a") as file:
        file.write(f"{target.stem} {text}")


def read_speech(path: Path, rate: int) -> np.ndarray:
    """Read a file at a sampling rate: float32, (samples,)."""
    samples, given = soundfile.read(path, dtype="float32")
    return soxr.resample(samples, given, rate)
