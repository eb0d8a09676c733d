"""Which files are transcribed: those that are given, and those below folders; what their transcripts are called."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_ext.data.audio_files import FFMPEG_SUFFIXES, SUFFIXES
from espnet_ext.errors import InputError
from espnet_ext.work.files import is_utf8, printable

Failed = Callable[[Path, str], None]


class Recording(NamedTuple):
    """An audio file.

    Attributes:
        path: the file.
        name: that of its transcripts below the folder of the output, without ending: ``talk``, or ``monday/talk`` of a
            file in a folder that was given.
    """

    path: Path
    name: str


def find_recordings(files: Sequence[Path], failed: Failed) -> tuple[list[Recording], int]:
    """The audio files among ``files`` and below the folders among these, and how many of them cannot be transcribed.

    Args:
        files: files and folders.
        failed: called with each file that cannot be transcribed, and why: it does not exist, its name is not UTF-8, or
            another file's transcripts would have the same name.

    Raises:
        InputError: nothing is left. Then ``failed`` is not called.
    """
    faults: list[tuple[Path, str]] = []
    found = [recording for path in files for recording in _expanded(path, faults)]
    counts = Counter(recording.name for recording in found)
    kept = []
    for recording in found:
        path, name = recording
        if not is_utf8(path):
            faults.append((path, f"{printable(path)}: its name is not UTF-8: rename the file or its folder"))
        elif counts[name] > 1:
            faults.append((path, f"{path}: would be written to {name}.* like another file: rename one"))
        elif not path.exists():
            faults.append((path, f"{path}: no such file: check the path"))
        else:
            kept.append(recording)
    if faults and not kept:
        reason = faults[0][1]
        raise InputError(reason if len(faults) == 1 else f"{reason} (none of {len(faults)} can be transcribed)")
    for path, reason in faults:
        failed(path, reason)
    return kept, len(faults)


def _expanded(path: Path, faults: list[tuple[Path, str]]) -> Iterator[Recording]:
    if not path.is_dir():
        yield Recording(path, path.stem)
        return
    endings = (*SUFFIXES, *FFMPEG_SUFFIXES)
    inside = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in endings and file.is_file()]
    if not inside:
        faults.append((path, f"{path}: no audio file in this folder ({', '.join(endings)}): name another"))
    yield from (Recording(file, file.relative_to(path).with_suffix("").as_posix()) for file in inside)
