"""Folders of enrolled speakers: a folder of audio files for each."""

from pathlib import Path

from espnet_ext.audio.files import SUFFIXES
from espnet_ext.errors import InputError


def find_enrolment(folder: Path) -> dict[str, list[Path]]:
    """Speaker -> audio files, from a folder with a folder for each speaker.

    Raises:
        InputError: no such folder, no speaker in it, a speaker without audio files, or a name with a blank or ``=``.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder: give one with a folder of audio files for each speaker")
    found = {
        path.name: sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        for path in sorted(folder.iterdir())
        if path.is_dir()
    }
    if not found:
        raise InputError(
            f"{folder}: no folder in it: put each speaker's audio files into a folder of the speaker's name"
        )
    for speaker, files in found.items():
        if not files:
            raise InputError(
                f"{folder / speaker}: no audio file in it ({', '.join(SUFFIXES)}): enrol {speaker}, or remove it"
            )
        if len(speaker.split()) != 1 or "=" in speaker:
            raise InputError(f"{folder / speaker}: a speaker's name must have no blank and no equals sign: rename it")
    return found
