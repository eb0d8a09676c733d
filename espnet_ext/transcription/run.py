"""Transcribe files one by one, and write each in several formats.

A file that fails is named, and the others go on.
"""

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from espnet_ext.audio.recordings import (
    make_readable,
    name_original,
    open_recording,
    split_channels,
)
from espnet_ext.errors import InputError
from espnet_ext.pages.transcript import RATE, write_transcript_page
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import show_line, write_transcript
from espnet_ext.transcription.engines import measure_seconds
from espnet_ext.transcription.notes import NOTES, Note
from espnet_ext.transcription.recordings import (
    KINDS,
    PAGE,
    Failed,
    Recording,
    list_targets,
)
from espnet_ext.transcription.request import Engine, UnusableModel

LONGEST_WORD = 3.0  # seconds
# What ends one file alone, libraries' own errors too: audio that cannot be decoded, too
# little memory, no space left.
FAULTS_OF_A_FILE = (InputError, OSError, RuntimeError, ValueError, MemoryError)


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse formats that do not exist, or none."""
    wrong = [kind for kind in kinds or [""] if kind not in KINDS]
    if wrong:
        raise InputError(
            f"--formats: there is no {wrong[0]!r}: choose some of {', '.join(KINDS)}"
        )


def check_output(output: Path) -> None:
    """Make the folder of the results; refuse one where files cannot be written."""
    try:
        (output / NOTES).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        reason = "it is a file" if output.is_file() else error.strerror
        raise InputError(
            f"--output {output}: cannot write into this folder ({reason}): name another"
        ) from None


def transcribe_files(
    engine: Engine,
    recordings: Sequence[Recording],
    output: Path,
    kinds: Sequence[str],
    *,
    key: str = "",
    separate: bool = False,
    track: int | None = None,
    show: Callable[[Path, Segment, float], None] = lambda path, line, share: None,
    failed: Failed = lambda path, reason: None,
    silent: Callable[[Path], None] = lambda path: None,
) -> int:
    """Transcribe audio files into ``<output>/<name>.<kind>``; return how many failed.

    What is there is replaced. Lines go to ``<output>/<name>.txt.part`` as they are
    done, which remains if the file fails or the process is killed. ``key`` is what
    transcripts depend on besides the audio, see :mod:`espnet_ext.transcription.notes`;
    ``separate`` recognises each channel by itself, as a speaker of its own; ``track``
    is the number of the audio track, from 1. ``show`` is called with each line as it is
    done, and the share of its file, 0 to 1; ``failed`` with each file that fails, and
    why; ``silent`` with each without a word.
    """
    failures = 0
    for recording in recordings:
        paths = list_targets(output, recording.name, kinds)
        targets = dict(zip(kinds, paths, strict=True))
        partial = output / f"{recording.name}.txt.part"
        note = Note(output, recording)
        lines: list[Segment] = []
        try:
            # Converted once, if at all, for all that follows.
            with make_readable(recording.path, track) as audio:
                _recognise(
                    engine, recording.path, audio, lines, partial, show, separate
                )
                note.begin(targets.values())
                for kind, target in targets.items():
                    _write(target, recording, audio, lines, kind)
                    note.add(target, key)
            partial.unlink(missing_ok=True)
        # No file will do better.
        except UnusableModel:
            raise
        except FAULTS_OF_A_FILE as error:
            logging.debug("%s", recording.path, exc_info=error)
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            reason = first
            if not isinstance(error, InputError):
                reason = f"{recording.path}: {first}"
            if lines:
                reason = f"{reason} (the lines until then: {partial})"
            failures += 1
            failed(recording.path, reason)
            continue
        if not lines:
            silent(recording.path)
    return failures


def _recognise(
    engine: Engine,
    path: Path,
    audio: Path,
    lines: list[Segment],
    partial: Path,
    show: Callable[[Path, Segment, float], None],
    separate: bool,
) -> None:
    """Add the lines of a recording to ``lines`` and ``partial``, each as it is done."""
    seconds = measure_seconds(audio)
    ends: dict[str, float] = {}
    found = _recognise_channels(engine, audio) if separate else engine(audio)
    for line in found:
        line = fit_times(line, ends.get(line.speaker, 0.0), seconds)
        ends[line.speaker] = line.end
        partial.parent.mkdir(parents=True, exist_ok=True)
        # The first line replaces what a run before this one has left.
        with partial.open("a" if lines else "w", encoding="utf-8") as file:
            file.write(f"{show_line(line)}\n")
        lines.append(line)
        show(path, line, line.end / seconds)
    # One channel after the other is recognised, and their speakers take turns.
    lines.sort(key=lambda line: line.start)


def fit_times(line: Segment, earliest: float, seconds: float) -> Segment:
    """Return a line whose words follow each other within a recording.

    The recording lasts ``seconds``, and no word begins before ``earliest``, where the
    speaker's line before it ends. Recognisers give pauses to the words beside them, and
    end beyond the audio. The first word of a line keeps its end, another one its start.
    """
    times = []
    after = min(earliest, seconds)
    for number, (start, end) in enumerate(line.word_spans):
        start = min(max(start, after), seconds)
        end = min(max(end, start), seconds)
        if end - start > LONGEST_WORD and number == 0:
            start = end - LONGEST_WORD
        after = min(end, start + LONGEST_WORD)
        times.append((start, after))
    return replace(line, start=times[0][0], end=times[-1][1], times=tuple(times))


def _recognise_channels(engine: Engine, audio: Path) -> Iterator[Segment]:
    """Yield the lines of one channel after the other, with the channel as speaker."""
    with tempfile.TemporaryDirectory() as folder:
        for speaker, channel in split_channels(audio, Path(folder)).items():
            with name_original(audio, channel):
                yield from (replace(line, speaker=speaker) for line in engine(channel))


def _write(
    target: Path,
    recording: Recording,
    audio: Path,
    lines: Sequence[Segment],
    kind: str,
) -> None:
    """Write a transcript in one format.

    ``audio`` is what soundfile reads of the recording.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if kind != PAGE:
        write_transcript(target, {recording.name.replace("/", "_"): list(lines)}, kind)
        return
    with open_recording(audio, RATE) as samples:
        write_transcript_page(target, recording.path.name, lines, samples)
