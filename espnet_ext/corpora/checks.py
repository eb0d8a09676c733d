"""Checks that the corpora share: the corpus folder, and the audio files of its parts."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from espnet_ext.audio.files import FFMPEG_SUFFIXES, SUFFIXES, Inspected, decodes, inspect_files
from espnet_ext.corpora.faults import Faults
from espnet_ext.errors import InputError


def require_corpus(corpus_dir: str | Path, needs: str) -> Path:
    """The corpus folder as an absolute path.

    Raises:
        InputError: There is none; the message says what it ``needs`` to hold.
    """
    corpus = Path(corpus_dir).absolute()
    if not corpus.is_dir():
        raise InputError(f"{corpus}: no such corpus folder: give the folder that holds {needs}")
    return corpus


def audio_files(files: Iterable[Path], part: str, faults: Faults) -> dict[str, Path]:
    """The audio among files, by name without ending, sorted; a name that comes twice or holds a space is a fault."""
    found: dict[str, Path] = {}
    for path in sorted(files):
        if path.suffix.lower() not in SUFFIXES:
            continue
        if path.stem in found:
            faults.add(part, path.stem, f"{path.stem} comes twice ({found[path.stem]} and {path})")
        elif any(space in path.stem for space in " \t"):
            faults.add(part, path.stem, f"a name with a space in it ({path}): rename it")
        found.setdefault(path.stem, path)
    return found


def unread_files(files: Iterable[Path]) -> dict[str, str]:
    """The files of audio formats that corpora may not have, by name without ending: what is wrong with each.

    Transcription reads them by ffmpeg. A training reads each file many times, in parts.
    """
    return {
        path.stem: f"{path}: {path.suffix} files must be converted first: ffmpeg -i {path.name} {path.stem}.flac"
        for path in files
        if path.suffix.lower() in FFMPEG_SUFFIXES
    }


def check_audio_files(
    faults: Faults, parts: Mapping[str, Sequence[tuple[str, Path]]], rate: int | None, check_audio: str, num_jobs: int
) -> dict[str, dict[str, Inspected]]:
    """Open the audio files of a corpus, each once.

    Args:
        faults: Gets those of the audio.
        parts: Part -> id -> audio file, as pairs.
        rate: In Hz; every file must have it, and one channel. None: any rate and number of channels will do.
        check_audio: ``full`` decodes all audio, ``header`` reads headers only, ``auto`` chooses by the number of files.
        num_jobs: Threads.

    Returns:
        Part -> id -> what was found, of the files without a fault.
    """
    number = sum(map(len, parts.values()))
    decode = decodes(check_audio, number)
    how = "decoding each file" if decode else "headers only; --check-audio full decodes each file"
    print(f"{faults.where}: checking {number:,} audio files in {', '.join(parts)} ({how})", flush=True)
    files = [(part, key, path) for part, items in parts.items() for key, path in items]
    inspected = inspect_files(
        [(f"{part}/{key}", path) for part, key, path in files], rate, decode=decode, num_jobs=num_jobs
    )
    good: dict[str, dict[str, Inspected]] = {part: {} for part in parts}
    for part, key, path in files:
        found = inspected[f"{part}/{key}"]
        if found.fault:
            faults.add(part, key, f"{found.fault} {key} ({path})")
        else:
            good[part][key] = found
    return good
