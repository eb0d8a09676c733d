"""Check a data dir, naming file and utterance of each fault, and repair it."""

import dataclasses
import math
import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi import data_dir
from espnet_ext.kaldi.parts import keep_utterances
from espnet_ext.kaldi.tables import TableScan, scan_table

_SHOWN = 3  # ids in a message
_NEEDED = ("wav.scp", "utt2spk")
NOT_PRINTED = "characters that cannot be printed (such as NUL) in"
# Unicode's categories of control characters, of places without one, and of halves of
# one, which validate_text.pl refuses unless it is told otherwise.
_NOT_PRINTED = ("Cc", "Cn", "Cs")
_OTHER_SPACE = re.compile(r"[^\S ]")
# Kaldi's symbols for the ends of a sentence and for back-off, which validate_text.pl
# refuses as words.
_NO_WORD = re.compile(r"(?<!\w)(?:</?s>|#0)(?!\w)")
# If they exist, they have a line for each utterance.
_COVERING = ("utt2spk", "text", "utt2lang", "feats.scp")
_FIX = "fix the file, or drop the utterances with `espnet-ext data fix`"
# Of faults that only the audio shows, which `data fix` does not read.
_CORRECT = "correct these lines, or delete them and run `espnet-ext data fix`"


@dataclass(frozen=True)
class Problem:
    """One kind of fault in one file, with the ids that it affects.

    The ids are of utterances, recordings or speakers, or they are numbers of lines.

    >>> print(Problem("text", "no transcript for", tuple("abcde"), "add them"))
    text: no transcript for a, b, c ... and 2 more: add them
    """

    file: str
    what: str
    ids: tuple[str, ...]
    advice: str

    def __str__(self) -> str:
        shown = ", ".join(self.ids[:_SHOWN])
        others = len(self.ids) - _SHOWN
        if others > 0:
            shown += f" ... and {others:,} more"
        fault = f"{self.what} {shown}".rstrip()  # of a whole file, without ids
        return f"{self.file}: {fault}: {self.advice}"


def scan_data_dir(path: str | Path) -> tuple[data_dir.DataDir, dict[str, TableScan]]:
    """Read a data dir that may be faulty: what is readable, and a scan of each file."""
    path = data_dir.require_folder(path)
    names = [
        name
        for name in (*data_dir.FILES.values(), "spk2utt")
        if name in _NEEDED or (path / name).exists()
    ]
    scans = {}
    for name in names:
        scan = scan_table(path / name)  # first, since it says what cannot be read
        odd = tuple(_find_odd_lines(path / name))
        scans[name] = dataclasses.replace(scan, odd_lines=odd)
    tables: dict[str, Any] = {
        field: scans[name].table
        for field, name in data_dir.FILES.items()
        if name in scans
    }
    return data_dir.DataDir(**tables), scans


def _find_odd_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what Kaldi's scripts refuse in lines, and the id of each.

    The scripts are ``validate_data_dir.sh`` and ``validate_text.pl``.
    """
    # Bytes: our reader of tables takes away the ends of lines, and what it refuses
    # would end the search.
    with open(path, "rb") as file:
        for data in file:
            line = data.decode("utf-8", errors="replace")
            key = line.split(maxsplit=1)[0] if line.strip() else ""
            if "\r" in line:
                yield "carriage returns in the line of", key
            if path.name == "text" and not line.endswith("\n"):
                yield "no line feed at the end of the line of", key
            if path.name == "text":
                for what in _find_odd_in_text(line):
                    yield what, key


def _find_text_faults(data: data_dir.DataDir) -> Iterator[tuple[str, str, str]]:
    """Yield (file, what, utterance) for transcripts that Kaldi refuses."""
    for key, value in (data.text or {}).items():
        for what in _find_odd_in_text(value):
            yield "text", what, key


def _find_odd_in_text(line: str) -> Iterator[str]:
    inside = line.rstrip("\r\n").replace("\t", " ")
    if _OTHER_SPACE.search(inside):
        yield "white space other than blanks and tabs (such as U+00A0) in"
    if any(unicodedata.category(letter) in _NOT_PRINTED for letter in inside):
        yield NOT_PRINTED
    if found := _NO_WORD.search(inside):
        yield f"{found[0]}, which is no word for Kaldi, in"


def validate_data_dir(
    path: str | Path,
    *,
    require_text: bool = True,
    files: bool = True,
    audio: bool = False,
    rate: int | None = None,
    speaker_order: bool = True,
    non_print: bool = False,
) -> bool:
    """Print what is wrong with a data dir on disk; True if nothing is.

    What is allowed but rarely intended is printed as a warning. ``audio`` also opens
    each audio file (:func:`check_audio`, with ``rate`` in Hz), unless the tables are
    faulty. ``speaker_order`` warns where a speaker is not a prefix of its utterances;
    ``non_print`` allows characters that cannot be printed.
    """
    data, scans = scan_data_dir(path)
    if non_print:
        scans = {name: _allow_all_characters(scan) for name, scan in scans.items()}
    problems = validate_scan(data, scans, require_text=require_text, files=files)
    warnings = find_warnings(data)
    if audio and not problems:  # the tables first: opening 280,000 files takes long
        problems = check_audio(data, rate=rate, warnings=warnings)
    for warning in warnings:
        if speaker_order or "prefix" not in warning.what:
            say(f"warning: {path}/{warning}", error=True)
    for problem in problems:
        say(f"error: {path}/{problem}", error=True)
    if not problems:
        say(
            f"{path}: {len(data.utt2spk):,} utterances, {len(data.spk2utt):,} "
            "speakers: no faults found"
        )
    return not problems


def validate_scan(
    data: data_dir.DataDir,
    scans: dict[str, TableScan],
    *,
    require_text: bool = True,
    files: bool = True,
) -> list[Problem]:
    """Check what :func:`scan_data_dir` has read.

    The form of the files is checked, and what :func:`validate` checks. ``files`` also
    checks that the audio files exist and are not empty, without opening them.
    """
    problems: list[Problem] = []
    for name, scan in scans.items():
        problems += _check_form(name, scan)
    problems += _check_spk2utt(data, scans.get("spk2utt"))
    problems += validate(data, require_text=require_text)
    if files:
        problems += check_files(data)
    return problems


def _check_spk2utt(data: data_dir.DataDir, scan: TableScan | None) -> list[Problem]:
    """Check that ``spk2utt`` says what ``utt2spk`` does."""
    advice = "`espnet-ext data fix` writes it"
    if scan is None:
        return [Problem("spk2utt", "no such file", (), advice)]
    # Sorted: the order of a speaker's utterances does not matter.
    found = {key: sorted(value.split()) for key, value in scan.table.items()}
    expected = {key: sorted(value.split()) for key, value in data.spk2utt.items()}
    wrong = []
    for speaker in sorted(found | expected):
        if found.get(speaker, []) != expected.get(speaker):
            wrong.append(speaker)
    if not wrong:
        return []
    return [Problem("spk2utt", "does not match utt2spk for", tuple(wrong), advice)]


def _allow_all_characters(scan: TableScan) -> TableScan:
    kept = tuple(each for each in scan.odd_lines if each[0] != NOT_PRINTED)
    return dataclasses.replace(scan, odd_lines=kept)


def _check_form(name: str, scan: TableScan) -> Iterator[Problem]:
    """Check ids, their order and the characters of a file."""
    fix_it = "fix the file, by hand or with `espnet-ext data fix`"
    sort_it = "sort it with `espnet-ext data fix`"
    for what, ids, advice in (
        ("no id in line", map(str, scan.lines_without_id), fix_it),
        ("more than one line for", scan.duplicates, fix_it),
        ("not sorted; out of order:", scan.unsorted, sort_it),
    ):
        if found := tuple(ids):
            yield Problem(name, what, found, advice)
    odd = ((name, what, key) for what, key in scan.odd_lines)
    yield from _group_by_kind(odd, "fix these lines")


def validate(data: data_dir.DataDir, *, require_text: bool = True) -> list[Problem]:
    """Check that the tables match.

    Return the faults, one :class:`Problem` for each kind. Checked: every utterance has
    audio, speaker, transcript (and language, features if there are such files), and
    there are no others; no empty entry; each segment lies inside a recording of
    ``wav.scp``; durations are positive numbers.
    """
    problems = []
    if data.text is None and require_text:
        problems.append(
            Problem("text", "no such file", (), "add it, or check with --no-text")
        )
    problems += _group_by_kind(find_utterance_faults(data), _FIX)
    what = "missing, extra or not a positive number:"
    for file, ids in find_derived_faults(data).items():
        problems.append(Problem(file, what, ids, "delete the file or fix it"))
    return problems


def _group_by_kind(
    faults: Iterable[tuple[str, str, str]], advice: str
) -> list[Problem]:
    kinds: dict[tuple[str, str], list[str]] = {}
    for file, what, key in faults:
        kinds.setdefault((file, what), []).append(key)
    return [
        Problem(file, what, tuple(ids), advice) for (file, what), ids in kinds.items()
    ]


def find_utterance_faults(data: data_dir.DataDir) -> Iterator[tuple[str, str, str]]:
    """Yield (file, what, utterance) for each fault of a single utterance.

    Dropping these utterances is the fix.
    """
    audio_file = "wav.scp"
    audio = data.wav_scp
    if data.segments is not None:
        audio_file = "segments"
        audio = data.segments
    covering = {name: data.tables[name] for name in _COVERING if name in data.tables}
    for utterance in sorted(set(audio).union(*covering.values())):
        if utterance not in audio:
            yield audio_file, "no audio for", utterance
        for name, table in covering.items():
            if fault := _find_line_fault(name, table.get(utterance)):
                yield name, fault, utterance
        if utterance not in audio:
            continue
        if not audio[utterance]:
            yield audio_file, "empty entry for", utterance
        elif data.segments is not None and (
            fault := _find_segment_fault(data, audio[utterance])
        ):
            yield audio_file, fault, utterance


def _find_line_fault(name: str, value: str | None) -> str:
    """Say what is wrong with a line of a table, "" if nothing; None: no such line."""
    if value is None:
        return "no transcript for" if name == "text" else "no line for"
    if not value.strip():
        return "empty transcript of" if name == "text" else "empty entry for"
    if name in ("utt2spk", "utt2lang") and len(value.split()) > 1:
        return "more than one word for"
    return ""


def _find_segment_fault(data: data_dir.DataDir, value: str) -> str:
    """Say what is wrong with a line of ``segments``; "" if nothing."""
    try:
        recording, start, end = data_dir.parse_segment(value)
    except ValueError:
        return "not `recording start end` with times in seconds:"
    if recording not in data.wav_scp:
        return "the recording is not in wav.scp, of"
    if not data.wav_scp[recording]:
        return "the recording has no path in wav.scp, of"
    if start < 0 or (end <= start and end != -1):
        return "the end is not after the start, or the start is negative, of"
    # Without reco2dur nobody knows the length: the audio is read by check_audio alone.
    length = _parse_positive((data.reco2dur or {}).get(recording, ""))
    if length is not None and (start >= length or end > length + data_dir.OVERSHOOT):
        return "the segment goes beyond the end of its recording, of"
    return ""


def _parse_positive(value: str) -> float | None:
    try:
        number = data_dir.parse_number(value)
    except ValueError:
        return None
    return number if number > 0 else None


def find_derived_faults(data: data_dir.DataDir) -> dict[str, tuple[str, ...]]:
    """Map files of durations or lengths to the ids that are wrong there.

    Such an id is missing, extra, or has no positive number.
    """
    faults = {}
    for name in data_dir.DERIVED:
        table = data.tables.get(name)
        if table is None:
            continue
        ids = data.wav_scp if name == "reco2dur" else data.utt2spk
        wrong = set(table.keys() ^ ids.keys())
        for key, value in table.items():
            if _parse_positive(value) is None:
                wrong.add(key)
        if wrong:
            faults[name] = tuple(sorted(wrong))
    return faults


def find_warnings(data: data_dir.DataDir) -> list[Problem]:
    """List what is allowed but rarely intended.

    Speakers that are not a prefix, unused recordings, unchecked audio.
    """
    # Kaldi sorts utt2spk by utterance and spk2utt by speaker, and reads both at once.
    order = (
        "Kaldi's tools expect one order by utterance and by speaker; name utterances "
        "SPEAKER-..."
    )
    unprefixed = {
        key for key, speaker in data.utt2spk.items() if not key.startswith(speaker)
    }
    used = set(data.wav_scp)
    if data.segments is not None:
        used = set(map(data_dir.parse_segment_recording, data.segments.values()))
    unchecked = {
        key
        for key, value in data.wav_scp.items()
        if data_dir.is_command(value) or data_dir.parse_audio_path(value) != value
    }
    found = (
        ("utt2spk", "the speaker is not a prefix of", unprefixed, order),
        (
            "wav.scp",
            "no segment uses",
            data.wav_scp.keys() - used,
            "`espnet-ext data fix` drops them",
        ),
        (
            "wav.scp",
            "commands (ending in |) or archives stand for",
            unchecked,
            "their audio is not checked",
        ),
    )
    problems = [
        Problem(file, what, tuple(sorted(ids)), advice)
        for file, what, ids, advice in found
        if ids
    ]
    return problems + find_late_segments(data)


def find_late_segments(data: data_dir.DataDir) -> list[Problem]:
    """List the segments that end a little after their recording, by ``reco2dur``."""
    lengths = {
        key: _parse_positive(value) or math.inf
        for key, value in (data.reco2dur or {}).items()
    }
    late = []
    for utterance, value in sorted((data.segments or {}).items()):
        if _find_segment_fault(data, value):
            continue  # an error, and not only late
        recording, _, end = data_dir.parse_segment(value)
        if end > lengths.get(recording, math.inf) + data_dir.SLACK:
            late.append(utterance)
    what = (
        f"at most {data_dir.OVERSHOOT:g} s beyond the end of the recording, where "
        "they are cut:"
    )
    if not late:
        return []
    return [Problem("segments", what, tuple(late), "Kaldi cuts them, too")]


def check_files(data: data_dir.DataDir) -> list[Problem]:
    """Check that the audio files are there, and not empty.

    :func:`check_audio` also looks inside.
    """
    faults = []
    for recording, value in sorted(data.wav_scp.items()):
        if not value or data_dir.is_command(value):
            continue
        path = data_dir.parse_audio_path(value)
        what = ""
        if not os.path.exists(path):
            what = "no audio file of"
        elif not os.path.getsize(path):
            what = "zero-length audio file of"
        if what:
            faults.append(("wav.scp", what, f"{recording} ({value})"))
    problems = _group_by_kind(faults, "check the corpus folder and the paths")
    return sorted(problems, key=lambda problem: problem.what)


def raise_problems(path: str | Path, problems: list[Problem]) -> None:
    """Raise the first problem as an InputError of one line that counts the others."""
    if not problems:
        return
    message = f"{path}/{problems[0]}"
    if others := len(problems) - 1:
        message += (
            f" (and {others} more kinds of fault: `espnet-ext data validate` "
            "lists them)"
        )
    raise InputError(message)


def check_audio(
    data: data_dir.DataDir,
    rate: int | None = None,
    *,
    warnings: list[Problem] | None = None,
) -> list[Problem]:
    """Decode the audio of every recording.

    Commands and positions in archives are skipped. Faults: a file that cannot be
    decoded to its end, no samples, NaN or infinite samples, several channels, a
    sampling rate other than ``rate`` in Hz (``None``: that of most files), a segment
    that goes beyond the end.
    """
    # Only here: the quick checks need no audio library.
    from tqdm import tqdm

    from espnet_ext.audio.files import inspect_audio

    shown = tqdm(
        sorted(data.wav_scp.items()), desc="check wav.scp", mininterval=5, delay=5
    )
    files = (
        (recording, path)
        for recording, path in shown
        if not data_dir.is_command(path) and data_dir.parse_audio_path(path) == path
    )
    inspected = {recording: inspect_audio(path) for recording, path in files}
    faults = [
        ("wav.scp", found.fault, recording)
        for recording, found in inspected.items()
        if found.fault
    ]
    problems = _group_by_kind(faults, "replace the audio files, or drop what uses them")
    rates = {
        recording: found.rate for recording, found in inspected.items() if found.rate
    }
    wanted = 0
    if rates:
        usual, _ = Counter(rates.values()).most_common(1)[0]
        wanted = rate or usual
    what = f"sampling rate {{}} Hz, not {wanted} Hz, of"
    others = [
        ("wav.scp", what.format(found), key)
        for key, found in rates.items()
        if found != wanted
    ]
    problems += _group_by_kind(others, f"resample to {wanted} Hz")
    if data.segments is not None:
        # With the true lengths as reco2dur, the check of the tables finds segments
        # beyond the end.
        seconds = {
            recording: data_dir.format_seconds(inspected[recording].seconds)
            for recording in rates
        }
        true = dataclasses.replace(data, reco2dur=seconds)
        beyond = validate(true, require_text=False)
        problems += [
            dataclasses.replace(each, advice=_CORRECT)
            for each in beyond
            if each.file == "segments"
        ]
        if warnings is not None and not data.reco2dur:
            warnings += find_late_segments(true)
    return problems


def fix(data: data_dir.DataDir) -> tuple[data_dir.DataDir, list[Problem], list[str]]:
    """Keep the complete utterances.

    Return also what was dropped, and the names of dropped files. They are complete if
    they are in all tables, with a transcript, and with a possible segment. Recordings
    and speakers without utterances are dropped too, and so are files of durations that
    have gaps or values that are not positive numbers. Audio files are not checked: a
    disk that is not mounted must not empty a data dir.
    """
    # Of an utterance with several faults the first is told, so that each is counted
    # once.
    first: dict[str, tuple[str, str, str]] = {}
    for fault in (*find_utterance_faults(data), *_find_text_faults(data)):
        _, _, utterance = fault
        first.setdefault(utterance, fault)
    by_utterance = [first[utterance] for utterance in sorted(first)]
    dropped = _group_by_kind(by_utterance, "dropped")
    keep = set(data.wav_scp if data.segments is None else data.segments) - first.keys()
    if not keep:
        reasons = "; ".join(
            f"{problem.file}: {problem.what} {problem.ids[0]}" for problem in dropped
        )
        raise InputError(
            f"no utterance is complete ({reasons}): nothing was changed; make the "
            "data dir again"
        )
    data = keep_utterances(data, keep)
    files = find_derived_faults(data)
    without: dict[str, Any] = {
        field: None for field, name in data_dir.FILES.items() if name in files
    }
    return dataclasses.replace(data, **without), dropped, list(files)


def fix_data_dir(path: str | Path) -> data_dir.DataDir:
    """Repair a data dir in place with :func:`fix`, and print what was dropped.

    ``.backup`` gets the files as they were. Equal lines with the same id become one.
    Where they differ, nobody can know which is right, and the utterance is dropped.
    Files are replaced atomically, so a repair that was killed can be run again.
    """
    path = Path(path)
    data, scans = scan_data_dir(path)
    certain: dict[str, Any] = {}
    for field, name in data_dir.FILES.items():
        if name in scans:
            table = dict(scans[name].table)
            for key in scans[name].conflicts:
                del table[key]
            certain[field] = table
    fixed, dropped, files = fix(dataclasses.replace(data, **certain))
    # Before anything is changed: a repair that is killed loses nothing.
    with data_dir.replace_folder(path / ".backup") as backup:
        for name in scans:
            shutil.copy2(path / name, backup / name)
    for name in scans.keys() - fixed.tables.keys() - {"spk2utt"}:
        (path / name).unlink()
    data_dir.write_tables(fixed, path)
    number = sum(len(problem.ids) for problem in dropped)
    say(f"{path}: kept {len(fixed.utt2spk):,} utterances, dropped {number:,}")
    for problem in dropped:
        say(f"  dropped {len(problem.ids):,}: {problem}".removesuffix(": dropped"))
    for name in files:
        say(f"  removed {name}: it had gaps, or values that are not positive numbers")
    for name, scan in scans.items():
        if scan.conflicts:
            advice = "nobody can know which is right"
            problem = Problem(name, "lines that differ for", scan.conflicts, advice)
            say(f"  {problem}")
    say(f"  the files as they were: {path}/.backup")
    return fixed
