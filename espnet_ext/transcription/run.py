"""Transcribe files one by one, and write each in several formats. A file that fails is named, and the others go on."""

import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from espnet_ext.data.transcript import FORMATS, Line, show_line, write_transcript
from espnet_ext.errors import InputError
from espnet_ext.longform.recording_audio import opened, readable
from espnet_ext.transcription.engines import seconds_of
from espnet_ext.transcription.page import RATE, write_page
from espnet_ext.transcription.request import Engine, UnusableModel
from espnet_ext.work.files import is_utf8, printable

PAGE = "html"
KINDS = (*FORMATS, PAGE)
# What ends one file alone, libraries' own errors too: audio that cannot be decoded, too little memory, no space left.
FAULTS_OF_A_FILE = (InputError, OSError, RuntimeError, ValueError, MemoryError)
SUFFIXES = {"seglst": "seglst.json"}  # where it is not the name of the format


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse formats that do not exist.

    Raises:
        InputError: an unknown format, or none.
    """
    wrong = next((kind for kind in kinds if kind not in KINDS), None if kinds else "")
    if wrong is not None:
        raise InputError(f"--formats: there is no {wrong!r}: choose some of {', '.join(KINDS)}")


def check_output(output: Path) -> None:
    """Make the folder of the results, and see whether files can be written there.

    Raises:
        InputError: they cannot.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        reason = "it is a file" if output.is_file() else error.strerror
        raise InputError(f"--output {output}: cannot write into this folder ({reason}): name another") from None


def check_names(files: Sequence[Path]) -> None:
    """Refuse two files whose results would have the same name.

    Raises:
        InputError: names the first of them.
    """
    names: dict[str, Path] = {}
    for path in files:
        if path.stem in names:
            raise InputError(f"{names[path.stem]} and {path} would both be written to {path.stem}.*: rename one")
        names[path.stem] = path


def utf8_files(files: Sequence[Path], failed: Callable[[Path, str], None]) -> list[Path]:
    """The files without those whose names are not UTF-8; ``failed`` is called with each of these, and why.

    Such a name cannot be written into a transcript or a page.

    Raises:
        InputError: there is no other.
    """
    bad = [path for path in files if not is_utf8(path)]
    if bad and len(bad) == len(files):
        raise InputError(_not_utf8(bad[0]))
    for path in bad:
        failed(path, _not_utf8(path))
    return [path for path in files if is_utf8(path)]


def _not_utf8(path: Path) -> str:
    return f"{printable(path)}: its name is not UTF-8: rename the file or its folder"


def distinct_files(files: Sequence[Path], failed: Callable[[Path, str], None]) -> list[Path]:
    """The files without those whose results would have the same name; ``failed`` is called with each of these, and why.

    Raises:
        InputError: there is no other.
    """
    counts = Counter(path.stem for path in files)
    distinct = [path for path in files if counts[path.stem] == 1]
    if not distinct:
        check_names(files)
    for path in files:
        if counts[path.stem] > 1:
            failed(path, f"{path}: would be written to {path.stem}.* like another file: rename one")
    return distinct


def existing_files(files: Sequence[Path], failed: Callable[[Path, str], None]) -> list[Path]:
    """The files without those that do not exist; ``failed`` is called with each of these, and why.

    Raises:
        InputError: there is none of them.
    """
    missing = [path for path in files if not path.exists()]
    if missing and len(missing) == len(files):
        which = f", and none of the {len(files)} files exists" if len(files) > 1 else ""
        raise InputError(f"{missing[0]}: no such file{which}: check the path")
    for path in missing:
        failed(path, f"{path}: no such file: check the path")
    return [path for path in files if path.exists()]


def transcribe_files(
    engine: Engine,
    files: Sequence[Path],
    output: Path,
    kinds: Sequence[str],
    *,
    show: Callable[[Path, Line, float], None] = lambda path, line, share: None,
    failed: Callable[[Path, str], None] = lambda path, reason: None,
    silent: Callable[[Path], None] = lambda path: None,
) -> int:
    """Transcribe audio files into ``<output>/<name>.<kind>``; return how many failed.

    Lines go to ``<output>/<name>.txt.part`` as they are done. It remains if the file fails or the process is killed.

    Args:
        engine: what recognises.
        files: audio files of any format that libsndfile or ffmpeg reads.
        output: a folder.
        kinds: some of :data:`KINDS`.
        show: called with each line as it is done, and the share of its file that is done, 0 to 1.
        failed: called with each file that fails, and why.
        silent: called with each file in which no word is heard; its transcripts are empty.

    Raises:
        InputError: what :func:`check_names`, :func:`check_kinds` and :func:`check_output` refuse, before any work; or
            the model cannot be loaded.
    """
    check_kinds(kinds)
    check_names(files)
    check_output(output)
    failures = 0
    for path in files:
        partial = output / f"{path.stem}.txt.part"
        try:
            partial.unlink(missing_ok=True)
            heard = _transcribe(engine, path, output, kinds, partial, show)
        except UnusableModel:
            raise
        except FAULTS_OF_A_FILE as error:
            logging.debug("%s", path, exc_info=error)
            failures += 1
            reason = str(error) if isinstance(error, InputError) else f"{path}: {_first_line(error)}"
            failed(path, f"{reason} (the lines until then: {partial})" if partial.is_file() else reason)
            continue
        if not heard:
            silent(path)
    return failures


def _transcribe(
    engine: Engine,
    path: Path,
    output: Path,
    kinds: Sequence[str],
    partial: Path,
    show: Callable[[Path, Line, float], None],
) -> int:
    """Transcribe a file; return the number of lines."""
    lines = []
    with readable(path) as audio:  # converted once, if ffmpeg must
        seconds = seconds_of(audio)
        for line in engine(audio):
            lines.append(line)
            with partial.open("a", encoding="utf-8") as file:
                file.write(f"{show_line(line)}\n")
            show(path, line, min(1.0, line.end / seconds))
        for kind in kinds:
            _write(output / f"{path.stem}.{SUFFIXES.get(kind, kind)}", path, audio, lines, kind)
    partial.unlink(missing_ok=True)
    return len(lines)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _write(target: Path, path: Path, audio: Path, lines: Sequence[Line], kind: str) -> None:
    """Write a transcript of ``path`` in one format; ``audio`` is what soundfile reads of it."""
    if kind != PAGE:
        write_transcript(target, {path.stem: list(lines)}, kind)
        return
    with opened(audio, RATE) as recording:
        write_page(target, path.name, lines, recording)
