"""Is a data dir fit for use? Checks that name the file and the utterance, and a repair that drops what is faulty.

The quick checks read the tables and look whether the audio files exist. :func:`check_audio` opens each file and looks
at every sample.
"""

import dataclasses
import math
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import (
    DERIVED,
    FILES,
    DataDir,
    audio_path,
    format_seconds,
    is_command,
    parse_segment,
    replace_folder,
    require_folder,
    segment_recording,
    write_tables,
)
from espnet_ext.kaldi.parts import restrict
from espnet_ext.kaldi.tables import TableScan, scan_table

SHOWN_IDS = 3
OVERSHOOT_SECONDS = 0.01  # times in `segments` are often rounded to a hundredth of a second
_COVERING = ("utt2spk", "text", "utt2lang", "feats.scp")  # if they exist, they have a line for each utterance
_FIX = "fix the file, or drop the utterances with `espnet-ext data fix`"
_CORRECT = "correct these lines, or delete them and run `espnet-ext data fix`"  # which reads no audio


@dataclass(frozen=True)
class Problem:
    """One kind of fault in one file, with the utterances (or recordings, speakers, lines) that it affects.

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


def scan_data_dir(path: str | Path) -> tuple[DataDir, dict[str, TableScan]]:
    """Read a data dir that may be faulty: the readable data, and the scan of each file."""
    path = require_folder(path)
    needed = {"wav.scp", "utt2spk"}
    scans = {name: scan_table(path / name) for name in FILES.values() if name in needed or (path / name).exists()}
    fields = {field: scans[name].table for field, name in FILES.items() if name in scans}
    if (path / "spk2utt").exists():
        scans["spk2utt"] = scan_table(path / "spk2utt")
    return DataDir(**fields), scans


def validate_data_dir(
    path: str | Path,
    *,
    require_text: bool = True,
    files: bool = True,
    audio: bool = False,
    rate: int | None = None,
    speaker_order: bool = True,
) -> bool:
    """Print to stderr what is wrong with a data dir on disk, and what is allowed but rarely intended.

    Args:
        require_text, files: see :func:`validate_scan`.
        audio, rate: also open each audio file (:func:`check_audio`), unless the tables are faulty.
        speaker_order: warn where a speaker is not a prefix of its utterances.

    Returns:
        True if nothing is wrong.
    """
    data, scans = scan_data_dir(path)
    problems = validate_scan(data, scans, require_text=require_text, files=files)
    if audio and not problems:  # the tables first: opening 280,000 files takes long
        problems += check_audio(data, rate=rate)
    for warning in warn(data):
        if speaker_order or "prefix" not in warning.what:
            print(f"warning: {path}/{warning}", file=sys.stderr)
    for problem in problems:
        print(f"error: {path}/{problem}", file=sys.stderr)
    if not problems:
        print(f"{path}: {len(data.utt2spk):,} utterances, {len(data.spk2utt):,} speakers: no faults found")
    return not problems


def validate_scan(
    data: DataDir, scans: dict[str, TableScan], *, require_text: bool = True, files: bool = True
) -> list[Problem]:
    """Check what :func:`scan_data_dir` has read: the form of the files, and what :func:`validate` checks.

    Args:
        require_text: a dir without ``text`` is a fault.
        files: check that the audio files exist and are not empty (without opening them).
    """
    problems = [problem for name, scan in scans.items() for problem in _form(name, scan)]
    if "spk2utt" not in scans:
        problems.append(Problem("spk2utt", "no such file", (), "`espnet-ext data fix` writes it"))
    else:
        found, expected = scans["spk2utt"].table, data.spk2utt
        sides = [{key: sorted(value.split()) for key, value in table.items()} for table in (found, expected)]
        if wrong := tuple(key for key in sorted(found | expected) if sides[0].get(key, []) != sides[1].get(key)):
            problems.append(
                Problem("spk2utt", "does not match utt2spk for", wrong, "`espnet-ext data fix` writes it again")
            )
    problems += validate(data, require_text=require_text)
    return problems + (check_files(data) if files else [])


def _form(name: str, scan: TableScan) -> Iterator[Problem]:
    advice = "fix the file, by hand or with `espnet-ext data fix`"
    if scan.lines_without_id:
        yield Problem(name, "no id in line", tuple(map(str, scan.lines_without_id)), advice)
    if scan.duplicates:
        yield Problem(name, "more than one line for", scan.duplicates, advice)
    if scan.unsorted:
        advice = "sort it with `LC_ALL=C sort` or `espnet-ext data fix`"
        yield Problem(name, "not sorted; out of order:", scan.unsorted, advice)


def validate(data: DataDir, *, require_text: bool = True) -> list[Problem]:
    """Check that the tables match; return the faults, one :class:`Problem` for each kind.

    Checked: every utterance has audio, speaker, transcript (and language, features if there are such files), and there
    are no others; no empty entry; each segment lies inside a recording of ``wav.scp``; durations are positive numbers.
    """
    problems = []
    if data.text is None and require_text:
        problems.append(Problem("text", "no such file", (), "add it, or check with --no-text"))
    problems += _by_kind(utterance_faults(data), _FIX)
    for file, ids in derived_faults(data).items():
        problems.append(Problem(file, "missing, extra or not a positive number:", ids, "delete the file or fix it"))
    return problems


def _by_kind(faults: Iterable[tuple[str, str, str]], advice: str) -> list[Problem]:
    kinds: dict[tuple[str, str], list[str]] = {}
    for file, what, key in faults:
        kinds.setdefault((file, what), []).append(key)
    return [Problem(file, what, tuple(ids), advice) for (file, what), ids in kinds.items()]


def utterance_faults(data: DataDir) -> Iterator[tuple[str, str, str]]:
    """Yield (file, what, utterance) for each fault of a single utterance; dropping these utterances is the fix."""
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


def derived_faults(data: DataDir) -> dict[str, tuple[str, ...]]:
    """Map files of durations or lengths to the ids that are missing there, extra, or not a positive number."""
    faults = {}
    for field in DERIVED:
        table, expected = getattr(data, field), data.wav_scp if field == "reco2dur" else data.utt2spk
        if table is not None:
            wrong = {key for key, value in table.items() if _positive(value) is None} | (table.keys() ^ expected.keys())
            if wrong:
                faults[FILES[field]] = tuple(sorted(wrong))
    return faults


def warn(data: DataDir) -> list[Problem]:
    """List what is allowed but rarely intended: speakers that are not a prefix, unused recordings, commands."""
    warnings = []
    unordered = tuple(key for key in data.utterances if not key.startswith(data.utt2spk[key]))
    if unordered:
        advice = "Kaldi's tools expect one order by utterance and by speaker; name utterances SPEAKER-..."
        warnings.append(Problem("utt2spk", "the speaker is not a prefix of", unordered, advice))
    if data.segments is not None:
        used = {segment_recording(value) for value in data.segments.values()}
        if unused := tuple(sorted(data.wav_scp.keys() - used)):
            warnings.append(Problem("wav.scp", "no segment uses", unused, "`espnet-ext data fix` drops them"))
    commands = tuple(sorted(key for key, value in data.wav_scp.items() if is_command(value)))
    if commands:
        warnings.append(Problem("wav.scp", "commands (ending in |) stand for", commands, "their audio is not checked"))
    positions = tuple(sorted(key for key, value in data.wav_scp.items() if audio_path(value) != value))
    if positions:
        warnings.append(Problem("wav.scp", "archives stand for", positions, "their audio is not opened"))
    return warnings


def check_files(data: DataDir) -> list[Problem]:
    """Check that the audio files are there, and not empty. :func:`check_audio` also looks inside."""
    faults = []
    for recording, value in sorted(data.wav_scp.items()):
        if is_command(value) or not value:
            continue
        try:
            if not os.stat(audio_path(value)).st_size:
                faults.append(("wav.scp", "zero-length audio file of", f"{recording} ({value})"))
        except OSError:
            faults.append(("wav.scp", "no audio file of", f"{recording} ({value})"))
    return sorted(_by_kind(faults, "check the corpus folder and the paths"), key=lambda problem: problem.what)


def raise_problems(path: str | Path, problems: list[Problem]) -> None:
    """Raise the first problem as an :class:`InputError` of one line that counts the other kinds."""
    if problems:
        others = len(problems) - 1
        more = f" (and {others} more kinds of fault: `espnet-ext data validate` lists them)" if others else ""
        raise InputError(f"{path}/{problems[0]}{more}")


def check_audio(data: DataDir, rate: int | None = None) -> list[Problem]:
    """Decode the audio of every recording; commands and positions in archives are skipped.

    Faults: a file that cannot be decoded to its end, no samples, NaN or infinite samples, several channels, a sampling
    rate other than ``rate`` in Hz (``None``: any one rate, but the same for all), a segment that goes beyond the end.
    """
    from tqdm import tqdm

    from espnet_ext.audio.files import inspect_audio  # only here: the quick checks need no audio library

    seconds: dict[str, str] = {}
    rates: dict[int, list[str]] = {}

    def fault(recording: str) -> str | None:
        value = data.wav_scp[recording]
        if is_command(value) or audio_path(value) != value:
            return None
        found = inspect_audio(value)
        if found.rate:
            rates.setdefault(found.rate, []).append(recording)
            seconds[recording] = format_seconds(found.seconds)
        return found.fault

    recordings = tqdm(sorted(data.wav_scp), desc="check wav.scp", mininterval=5, delay=5)
    faults = [("wav.scp", what, key) for key in recordings if (what := fault(key))]
    problems = _by_kind(faults, "replace the audio files, or drop what uses them")
    wanted = rate or max(rates, key=lambda value: len(rates[value]), default=0)
    for found, ids in sorted(rates.items()):
        if found != wanted:
            what = f"sampling rate {found} Hz, not {wanted} Hz, of"
            problems.append(Problem("wav.scp", what, tuple(ids), f"resample to {wanted} Hz"))
    if data.segments is not None:
        # With the true lengths as reco2dur, the check of the tables finds segments beyond the end.
        true = dataclasses.replace(data, reco2dur=seconds)
        beyond = [problem for problem in validate(true, require_text=False) if problem.file == "segments"]
        problems += [dataclasses.replace(problem, advice=_CORRECT) for problem in beyond]
    return problems


@dataclass(frozen=True)
class Fixed:
    """The repaired data, the utterances that were dropped, with the reasons, and the names of dropped files."""

    data: DataDir
    dropped: tuple[Problem, ...]
    dropped_files: tuple[str, ...]

    def __str__(self) -> str:
        dropped = sum(len(problem.ids) for problem in self.dropped)
        lines = [f"kept {len(self.data.utt2spk):,} utterances, dropped {dropped:,}"]
        lines += [f"  dropped {len(each.ids):,}: {each}".removesuffix(": dropped") for each in self.dropped]
        what = "it had gaps, or values that are not positive numbers"
        return "\n".join(lines + [f"  removed {name}: {what}" for name in self.dropped_files])


def fix(data: DataDir) -> Fixed:
    """Keep the complete utterances: in all tables, with a transcript, and with a possible segment.

    Recordings and speakers without utterances are dropped too, and so are files of durations that have gaps or values
    that are not positive numbers. Audio files are not checked: a disk that is not mounted must not empty a data dir.
    """
    first = {utterance: (file, what, utterance) for file, what, utterance in reversed([*utterance_faults(data)])}
    dropped = _by_kind(sorted(first.values(), key=lambda fault: fault[2]), "dropped")
    audio = data.wav_scp if data.segments is None else data.segments
    keep = set(audio) - first.keys()
    if not keep:
        reasons = "; ".join(f"{problem.file}: {problem.what} {problem.ids[0]}" for problem in dropped)
        raise InputError(f"no utterance is complete ({reasons}): nothing was changed; make the data dir again")
    data = restrict(data, keep)
    files = derived_faults(data)
    without: dict[str, Any] = {field: None for field, name in FILES.items() if name in files}
    data = dataclasses.replace(data, **without)
    return Fixed(data, tuple(dropped), tuple(files))


def fix_data_dir(path: str | Path) -> Fixed:
    """Repair a data dir in place with :func:`fix`, and say what was dropped. The files as they were go to ``.backup``.

    Equal lines with the same id become one. Where they differ, nobody can know which is right, and the utterance is
    dropped. Files are replaced atomically, so a repair that was killed can be run again.
    """
    path = Path(path)
    data, scans = scan_data_dir(path)
    certain: dict[str, Any] = {
        field: {key: value for key, value in scans[name].table.items() if key not in scans[name].conflicts}
        for field, name in FILES.items()
        if name in scans
    }
    fixed = fix(dataclasses.replace(data, **certain))
    with replace_folder(path / ".backup") as backup:
        for name in scans:
            shutil.copy2(path / name, backup / name)
    for name in scans.keys() - fixed.data.tables.keys() - {"spk2utt"}:
        (path / name).unlink()
    write_tables(fixed.data, path)
    print(f"{path}: {fixed}")
    for name, scan in scans.items():
        if scan.conflicts:
            print(f"  {Problem(name, 'lines that differ for', scan.conflicts, 'nobody can know which is right')}")
    print(f"  the files as they were: {path}/.backup")
    return fixed
