"""Is a data dir fit for use, and what of it can be saved: checks that name file and utterance, and the repair."""

import dataclasses
import math
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from espnet_ext.data.data_dir import (
    DERIVED,
    FILES,
    DataDir,
    parse_segment,
    read_ctm,
    replace_folder,
    require_folder,
    segment_recording,
    write_tables,
)
from espnet_ext.data.kaldi import TableScan, scan_table
from espnet_ext.data.subsets import restrict
from espnet_ext.errors import InputError

SHOWN_IDS = 3
# Times in `segments` are often rounded to a hundredth of a second.
OVERSHOOT_SECONDS = 0.01
# What each utterance must be in, once the file is there.
_COVERING = ("utt2spk", "text", "utt2lang", "feats.scp")
_FIX = "mend the file, or drop the utterances with `data_dir fix`"


@dataclass(frozen=True)
class Problem:
    """One kind of fault in one file, with the utterances (or recordings, speakers, lines) that have it.

    >>> print(Problem("text", "no transcript for", tuple("abcde"), "add them"))
    text: no transcript for a, b, c ... and 2 more: add them
    """

    file: str
    what: str
    ids: tuple[str, ...]
    advice: str

    def __str__(self) -> str:
        shown = ", ".join(self.ids[:SHOWN_IDS])
        more = f" ... and {len(self.ids) - SHOWN_IDS:,} more" if len(self.ids) > SHOWN_IDS else ""
        return f"{self.file}: {f'{self.what} {shown}{more}'.rstrip()}: {self.advice}"


@dataclass(frozen=True)
class Fixed:
    """What :func:`fix` made: the repaired data, and what went, as reason -> utterances and names of files."""

    data: DataDir
    dropped: dict[str, tuple[str, ...]]
    dropped_files: tuple[str, ...]


def scan_data_dir(path: str | Path) -> tuple[DataDir, dict[str, TableScan]]:
    """Read a data dir that may be faulty: the data as far as it goes, and the scan of each file.

    Raises:
        InputError: no such folder; ``wav.scp`` or ``utt2spk`` is missing; a file is empty or not UTF-8.
    """
    path = require_folder(path)
    needed = {"wav.scp", "utt2spk"}
    scans = {name: scan_table(path / name) for name in FILES.values() if name in needed or (path / name).exists()}
    fields = {field: scans[name].table for field, name in FILES.items() if name in scans}
    if (path / "spk2utt").exists():
        scans["spk2utt"] = scan_table(path / "spk2utt")
    return DataDir(**fields, ctm=read_ctm(path / "ctm")), scans


def validate_data_dir(path: str | Path, *, require_text: bool = True, files: bool = True) -> list[Problem]:
    """Check a data dir on disk: :func:`validate_scan` of what :func:`scan_data_dir` finds."""
    return validate_scan(*scan_data_dir(path), require_text=require_text, files=files)


def validate_scan(
    data: DataDir, scans: dict[str, TableScan], *, require_text: bool = True, files: bool = True
) -> list[Problem]:
    """Check what :func:`scan_data_dir` has read: the form of the files, and what :func:`validate` checks.

    Args:
        data, scans: the tables, and each file's scan.
        require_text: a dir without ``text`` is a fault.
        files: look whether the audio files are there and hold something (without opening them).
    """
    problems = [problem for name, scan in scans.items() for problem in _form(name, scan)]
    if "spk2utt" not in scans:
        problems.append(Problem("spk2utt", "no such file", (), "`data_dir fix` writes it"))
    elif differing := _differing({key: value.split() for key, value in scans["spk2utt"].table.items()}, data):
        problems.append(Problem("spk2utt", "does not fit utt2spk for", differing, "`data_dir fix` writes it anew"))
    problems += validate(data, require_text=require_text)
    return problems + (check_files(data) if files else [])


def _form(name: str, scan: TableScan) -> Iterator[Problem]:
    mend = "mend the file, or let `data_dir fix` do it"
    if scan.lines_without_id:
        yield Problem(name, "no id in line", tuple(map(str, scan.lines_without_id)), mend)
    if scan.duplicates:
        yield Problem(name, "more than one line for", scan.duplicates, mend)
    if scan.unsorted:
        advice = "sort it with `LC_ALL=C sort`, or with `data_dir fix`"
        yield Problem(name, "not sorted: out of order come", scan.unsorted, advice)


def _differing(spk2utt: dict[str, list[str]], data: DataDir) -> tuple[str, ...]:
    expected = {speaker: utterances.split() for speaker, utterances in data.spk2utt.items()}
    return tuple(key for key in sorted(spk2utt | expected) if sorted(spk2utt.get(key, ())) != expected.get(key))


def validate(data: DataDir, *, require_text: bool = True) -> list[Problem]:
    """Do the tables fit each other? Returns the faults, one :class:`Problem` for each kind; none if all is well.

    Checked: every utterance has audio, speaker, transcript (and language, features if there are such files), and there
    are no others; no empty entry; each segment lies inside a recording of ``wav.scp``; durations are positive numbers.
    """
    problems = []
    if data.text is None and require_text:
        problems.append(Problem("text", "no such file", (), "add it, or check with --no-text"))
    kinds: dict[tuple[str, str], list[str]] = {}
    for file, what, utterance in _faults(data):
        kinds.setdefault((file, what), []).append(utterance)
    problems += [Problem(file, what, tuple(ids), _FIX) for (file, what), ids in kinds.items()]
    for file, ids in _derived_faults(data).items():
        problems.append(Problem(file, "missing, extra or not a positive number:", ids, "delete the file or mend it"))
    return problems


def _faults(data: DataDir) -> Iterator[tuple[str, str, str]]:
    """(file, what, utterance) for all that is wrong with single utterances; dropping these utterances mends it."""
    audio_file, audio = ("wav.scp", data.wav_scp) if data.segments is None else ("segments", data.segments)
    tables = data.tables
    for utterance in sorted(set(audio).union(*(tables.get(name, ()) for name in _COVERING))):
        if utterance not in audio:
            yield audio_file, "no audio for", utterance
        for name in _COVERING:
            if name not in tables:
                continue
            if utterance not in tables[name]:
                yield name, "no transcript for" if name == "text" else "no line for", utterance
            elif not tables[name][utterance].strip():
                yield name, "empty transcript of" if name == "text" else "empty entry for", utterance
            elif name in ("utt2spk", "utt2lang") and len(tables[name][utterance].split()) > 1:
                yield name, "more than one word for", utterance
        if utterance in audio:
            fault = _segment_fault(data, audio[utterance]) if data.segments is not None else ""
            if not audio[utterance]:
                fault = "empty entry for"
            if fault:
                yield audio_file, fault, utterance


def _segment_fault(data: DataDir, value: str) -> str:
    try:
        recording, start, end = parse_segment(value)
    except ValueError:
        return "not `recording start end` with times in seconds:"
    if recording not in data.wav_scp:
        return "the recording is not in wav.scp, of"
    if not data.wav_scp[recording]:
        return "the recording has no path in wav.scp, of"
    if start < 0 or (end <= start and end != -1):
        return "the end is not after the start, or the start is negative, of"
    length = _positive((data.reco2dur or {}).get(recording, ""))
    if length is not None and (start >= length or end > length + OVERSHOOT_SECONDS):
        return "the segment goes beyond the end of its recording, of"
    return ""


def _positive(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def _derived_faults(data: DataDir) -> dict[str, tuple[str, ...]]:
    faults = {}
    for field in DERIVED:
        table, expected = getattr(data, field), data.wav_scp if field == "reco2dur" else data.utt2spk
        if table is not None:
            wrong = {key for key, value in table.items() if _positive(value) is None} | (table.keys() ^ expected.keys())
            if wrong:
                faults[FILES[field]] = tuple(sorted(wrong))
    return faults


def warn(data: DataDir) -> list[Problem]:
    """What is allowed but seldom meant: speakers that are no prefix, recordings that nothing uses, commands."""
    warnings = []
    unordered = tuple(key for key in data.utterances if not key.startswith(data.utt2spk[key]))
    if unordered:
        advice = "Kaldi's tools expect one order by utterance and by speaker; name utterances SPEAKER-..."
        warnings.append(Problem("utt2spk", "the speaker is not a prefix of", unordered, advice))
    if data.segments is not None:
        used = {segment_recording(value) for value in data.segments.values()}
        if unused := tuple(sorted(data.wav_scp.keys() - used)):
            warnings.append(Problem("wav.scp", "no segment uses", unused, "`data_dir fix` drops them"))
    commands = tuple(sorted(key for key, value in data.wav_scp.items() if is_command(value)))
    if commands:
        warnings.append(Problem("wav.scp", "commands (ending in |) stand for", commands, "their audio is not checked"))
    positions = tuple(sorted(key for key, value in data.wav_scp.items() if audio_path(value) != value))
    if positions:
        warnings.append(Problem("wav.scp", "archives stand for", positions, "their audio is not opened"))
    return warnings


def is_command(value: str) -> bool:
    """Is this entry of ``wav.scp`` a shell command whose output is the audio?"""
    return value.endswith("|")


def audio_path(value: str) -> str:
    """The file of an entry of ``wav.scp``, which may be a position in an archive, ``wav.ark:1234``."""
    position = re.search(r":\d+$", value)
    return value if position is None or os.path.exists(value) else value[: position.start()]


def check_files(data: DataDir) -> list[Problem]:
    """Are the audio files there, and not empty? Headers and samples: :mod:`espnet_ext.data.data_dir_audio`."""
    missing, empty = [], []
    for recording, value in sorted(data.wav_scp.items()):
        if is_command(value) or not value:
            continue
        try:
            if not os.stat(audio_path(value)).st_size:
                empty.append(f"{recording} ({value})")
        except OSError:
            missing.append(f"{recording} ({value})")
    problems = [("no audio file of", missing), ("zero-length audio file of", empty)]
    advice = "check the corpus folder and the paths"
    return [Problem("wav.scp", what, tuple(ids), advice) for what, ids in problems if ids]


def raise_problems(path: str | Path, problems: list[Problem]) -> None:
    """Raise the first problem as an :class:`InputError` of one line that says how many more kinds there are."""
    if problems:
        more = f" (and {len(problems) - 1} more kinds of fault: `data_dir validate` lists them)" if problems[1:] else ""
        raise InputError(f"{path}/{problems[0]}{more}")


# --- repair ---


def fix(data: DataDir) -> Fixed:
    """Keep the utterances that are whole: in all tables, with a transcript, and with a possible segment.

    Recordings and speakers that are left over go too, and so do files of durations that have gaps or nonsense in them.
    Audio files are not looked at: a disk that is not mounted must not empty a data dir.

    Raises:
        InputError: no utterance would be left.
    """
    dropped: dict[str, list[str]] = {}
    gone: set[str] = set()
    for file, what, utterance in _faults(data):
        if utterance not in gone:
            gone.add(utterance)
            dropped.setdefault(f"{file}: {what}", []).append(utterance)
    audio = data.wav_scp if data.segments is None else data.segments
    keep = set(audio) - gone
    if not keep:
        reasons = "; ".join(f"{reason} {ids[0]}" for reason, ids in dropped.items())
        raise InputError(f"no utterance is whole ({reasons}): nothing was changed; make the data dir anew")
    data = restrict(data, keep)
    files = _derived_faults(data)
    data = dataclasses.replace(data, **{field: None for field, name in FILES.items() if name in files})
    return Fixed(data, {reason: tuple(ids) for reason, ids in dropped.items()}, tuple(files))


def fix_data_dir(path: str | Path) -> Fixed:
    """Repair a data dir in place with :func:`fix`; its files as they were go to ``.backup`` inside it.

    Of lines with the same id, equal ones become one; where they differ, nobody can know which is right, and the
    utterance goes. Each file is replaced whole, and a repair that was killed can be done again.

    Raises:
        InputError: as :func:`scan_data_dir` and :func:`fix`; then nothing has been changed.
    """
    path = Path(path)
    data, scans = scan_data_dir(path)
    certain = {
        field: {key: value for key, value in scans[name].table.items() if key not in scans[name].conflicts}
        for field, name in FILES.items()
        if name in scans
    }
    fixed = fix(dataclasses.replace(data, **certain))
    with replace_folder(path / ".backup") as backup:
        for name in [*scans, "ctm"]:
            if (path / name).exists():
                shutil.copy2(path / name, backup / name)
    for name in scans.keys() - fixed.data.tables.keys() - {"spk2utt"}:
        (path / name).unlink()
    if fixed.data.ctm is None:
        (path / "ctm").unlink(missing_ok=True)
    write_tables(fixed.data, path)
    return fixed
