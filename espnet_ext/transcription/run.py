"""Transcribe files one by one, and write each in several formats. A file that fails is named, and the others go on."""

import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from espnet_ext.data.transcript import FORMATS, Line, show_line, write_transcript
from espnet_ext.errors import InputError
from espnet_ext.longform.recording_audio import opened, readable
from espnet_ext.transcription.engines import seconds_of
from espnet_ext.transcription.page import RATE, write_page
from espnet_ext.transcription.recordings import Recording
from espnet_ext.transcription.request import Engine, UnusableModel
from espnet_ext.transcription.written import Written

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


def transcribe_files(
    engine: Engine,
    recordings: Sequence[Recording],
    output: Path,
    kinds: Sequence[str],
    *,
    key: Callable[[Recording], str] = lambda recording: "",
    overwrite: bool = False,
    show: Callable[[Path, Line, float], None] = lambda path, line, share: None,
    failed: Callable[[Path, str], None] = lambda path, reason: None,
    silent: Callable[[Path], None] = lambda path: None,
    done: Callable[[Path], None] = lambda path: None,
) -> int:
    """Transcribe audio files into ``<output>/<name>.<kind>``; return how many failed.

    Lines go to ``<output>/<name>.txt.part`` as they are done. It remains if the file fails or the process is killed;
    the next try replaces it with its first line.

    Args:
        engine: what recognises.
        recordings: audio files of any format that libsndfile or ffmpeg reads.
        output: a folder.
        kinds: some of :data:`KINDS`.
        key: what transcripts depend on. A file whose transcripts were written with the same key is left out.
        overwrite: make these again, and replace files of the same names. Otherwise only transcripts from here are
            replaced, and a file fails where another one is in the way, by hand or changed since.
        show: called with each line as it is done, and the share of its file that is done, 0 to 1.
        failed: called with each file that fails, and why.
        silent: called with each file in which no word is heard; its transcripts are empty.
        done: called with each file that has its transcripts already.

    Raises:
        InputError: what :func:`check_kinds` and :func:`check_output` refuse, before any work; or the model cannot be
            loaded.
    """
    check_kinds(kinds)
    check_output(output)
    written, failures = Written(output), 0
    for recording in recordings:
        targets = {kind: output / f"{recording.name}.{SUFFIXES.get(kind, kind)}" for kind in kinds}
        partial = output / f"{recording.name}.txt.part"
        try:
            made = key(recording)
            if not overwrite and written.are_done(targets.values(), made):
                done(recording.path)
                continue
            if not overwrite and (other := written.in_the_way(targets.values())):
                reason = f"{other} is there already, and not as it was written here"
                raise InputError(f"{recording.path}: {reason}: give another --output, or --overwrite to replace it")
            heard = _transcribe(engine, recording, targets, partial, show)
            for target in targets.values():
                written.add(target, made)
        except UnusableModel:
            raise
        except FAULTS_OF_A_FILE as error:
            logging.debug("%s", recording.path, exc_info=error)
            failures += 1
            reason = str(error) if isinstance(error, InputError) else f"{recording.path}: {_first_line(error)}"
            failed(recording.path, f"{reason} (the lines until then: {partial})" if partial.is_file() else reason)
            continue
        if not heard:
            silent(recording.path)
    return failures


def _transcribe(
    engine: Engine,
    recording: Recording,
    targets: Mapping[str, Path],
    partial: Path,
    show: Callable[[Path, Line, float], None],
) -> int:
    """Transcribe a file; return the number of lines."""
    lines: list[Line] = []
    with readable(recording.path) as audio:  # converted once, if ffmpeg must
        seconds = seconds_of(audio)
        for line in engine(audio):
            partial.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("a" if lines else "w", encoding="utf-8") as file:
                file.write(f"{show_line(line)}\n")
            lines.append(line)
            show(recording.path, line, min(1.0, line.end / seconds))
        for kind, target in targets.items():
            _write(target, recording, audio, lines, kind)
    partial.unlink(missing_ok=True)
    return len(lines)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _write(target: Path, recording: Recording, audio: Path, lines: Sequence[Line], kind: str) -> None:
    """Write a transcript in one format; ``audio`` is what soundfile reads of the recording."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if kind != PAGE:
        write_transcript(target, {recording.name.replace("/", "_"): list(lines)}, kind)
        return
    with opened(audio, RATE) as samples:
        write_page(target, recording.path.name, lines, samples)
