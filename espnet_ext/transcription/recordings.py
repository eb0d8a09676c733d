"""Find the files to transcribe, and name their transcripts."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_ext.audio.files import ALL_SUFFIXES, is_audio
from espnet_ext.audio.recordings import find_path_fault
from espnet_ext.errors import InputError, escape_controls
from espnet_ext.text.writing import FORMATS
from espnet_ext.work.files import is_utf8, list_files_below

PAGE = "html"
KINDS = (*FORMATS, PAGE)
ENDINGS = {"seglst": "seglst.json"}  # where it is not the name of the format
# bytes of a name: 255 for that of a file, without endings and what a temporary file
# adds
_LONGEST = 200

Failed = Callable[[Path, str], None]


class Recording(NamedTuple):
    """An audio file."""

    path: Path
    name: str  # of its transcripts, without ending: monday/talk of a file in a folder


def list_targets(output: Path, name: str, kinds: Sequence[str]) -> list[Path]:
    """Return the files of a recording's transcripts, one of each format."""
    return [output / f"{name}.{ENDINGS.get(kind, kind)}" for kind in kinds]


def find_recordings(
    files: Sequence[Path],
    failed: Failed,
    kinds: Sequence[str] = KINDS,
) -> tuple[list[Recording], int]:
    """Return the audio files among ``files`` and below folders, each once.

    Also returned is how many are refused. ``failed`` is called with each that cannot be
    transcribed into these ``kinds``, and why: it does not exist, its name cannot be
    written, or another file's transcripts would have the same. Raises InputError,
    without calling it: nothing is left.
    """
    faults: list[tuple[Path, str]] = []
    every: list[Recording] = []
    for path in files:
        every += _expand_path(path, faults)
    found = list(dict.fromkeys(every))
    counts: Counter[Path] = Counter()
    for recording in found:
        counts.update(list_targets(Path(), recording.name, kinds))
    kept = []
    for recording in found:
        targets = list_targets(Path(), recording.name, kinds)
        is_shared = any(counts[target] > 1 for target in targets)
        fault = _find_fault(recording, is_shared)
        if fault is None:
            kept.append(recording)
        else:
            faults.append((recording.path, fault))
    # A run of nothing but faults ends with one of them, and lists none before.
    if faults and not kept:
        reason = faults[0][1]
        if len(faults) > 1:
            reason += f" (none of {len(faults)} can be transcribed)"
        raise InputError(reason)
    for path, reason in faults:
        failed(path, reason)
    return kept, len(faults)


def _find_fault(recording: Recording, is_shared: bool) -> str | None:
    """Return why a file cannot be transcribed; None if it can be.

    ``is_shared``: another file's transcripts would have the same names.
    """
    path, name = recording
    if not is_utf8(path):
        shown = escape_controls(str(path))
        return f"{shown}: its name is not UTF-8: rename the file or its folder"
    if is_shared:
        return (
            f"{path}: would be written to {name}.* like another file: rename one, "
            "or give the folder above them"
        )
    if len(os.fsencode(Path(name).name)) > _LONGEST:
        return (
            f"{path}: its name is too long for its transcripts, over "
            f"{_LONGEST} bytes: rename it"
        )
    reason = find_path_fault(path)
    return f"{path}: {reason}" if reason else None


def _expand_path(path: Path, faults: list[tuple[Path, str]]) -> Iterator[Recording]:
    """Yield a file, or the audio files below a folder; add what is wrong to faults."""
    # Absolute, so that a file that is named in two ways is one; links stay.
    path = Path(os.path.abspath(path))
    try:
        if not path.is_dir():
            yield Recording(path, path.stem)
            return
    except OSError as error:
        faults.append((path, f"{path}: {error.strerror}: check the path"))
        return
    before = len(faults)

    def note_closed(error: OSError) -> None:
        fault = f"{error.filename}: cannot be read ({error.strerror}): give yourself "
        faults.append((path, f"{fault}permission"))

    inside = [file for file in list_files_below(path, note_closed) if is_audio(file)]
    # A folder that cannot be read is not also empty.
    if not inside and len(faults) == before:
        known = ", ".join(ALL_SUFFIXES)
        faults.append(
            (path, f"{path}: no audio file in this folder ({known}): name another")
        )
    for file in _leave_out_links(inside):
        name = file.relative_to(path).with_suffix("").as_posix()
        yield Recording(file, name)


def _leave_out_links(files: Sequence[Path]) -> list[Path]:
    """Leave out what a link leads to a second time, in the order given."""
    # For each file that is meant, the first path that leads to it; but the file's own
    # path, where that is given too.
    real = {file for file in files if os.path.realpath(file) == str(file)}
    kept = {os.path.realpath(file): file for file in reversed(files)}
    kept |= {str(file): file for file in real}
    return [file for file in files if kept[os.path.realpath(file)] == file]
