"""Is a data dir fit for use? Checks that name the file and the utterance, and a repair
that drops what is faulty.
"""

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

_SHOWN = 3
_NEEDED = ("wav.scp", "utt2spk")
NOT_PRINTED = "characters that cannot be printed (such as NUL) in"
_NOT_PRINTED = ("Cc", "Cn", "Cs")  # of Unicode's categories
_OTHER_SPACE = re.compile(r"[^\S ]")
_NO_WORD = re.compile(r"(?<!\w)(?:</?s>|#0)(?!\w)")
# if they exist, they have a line for each utterance
_COVERING = ("utt2spk", "text", "utt2lang", "feats.scp")
_FIX = "fix the file, or drop the utterances with `espnet-ext data fix`"
# which reads no audio
_CORRECT = "correct these lines, or delete them and run `espnet-ext data fix`"


@dataclass(frozen=True)
class Problem:
    """One kind of fault in one file, with the utterances (or recordings, speakers,
    lines) that it affects.

    >>> print(Problem("text", "no transcript for", tuple("abcde"), "add them"))
    text: no transcript for a, b, c ... and 2 more: add them
    """

    file: str
    what: str
    ids: tuple[str, ...]
    advice: str

    def __str__(self) -> str:
        shown = ", ".join(self.ids[:_SHOWN])
        more = (
            f" ... and {len(self.ids) - _SHOWN:,} more"
            if len(self.ids) > _SHOWN
            else ""
        )
        return f"{self.file}: {f'{self.what} {shown}{more}'.rstrip()}: {self.advice}"


def scan_data_dir(path: str | Path) -> tuple[data_dir.DataDir, dict[str, TableScan]]:
    """Read a data dir that may be faulty: what is readable, and a scan of each file."""
    path = data_dir.require_folder(path)
    names = [
        name
        for name in (*data_dir.FILES.values(), "spk2utt")
        if name in _NEEDED or (path / name).exists()
    ]
    scans = {
        name: dataclasses.replace(
            scan_table(path / name), odd_lines=tuple(_find_odd_lines(path / name))
        )
        for name in names
    }
    return data_dir.DataDir(
        **{
            field: scans[name].table
            for field, name in data_dir.FILES.items()
            if name in scans
        }
    ), scans


def _find_odd_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what Kaldi's ``validate_data_dir.sh`` and ``validate_text.pl`` refuse in
    lines, and the id of each.
    """
    with open(path, "rb") as file:
        for data in file:
            line = data.decode("utf-8", errors="replace")
            key = line.split(maxsplit=1)[0] if line.strip() else ""
            if "\r" in line:
                yield "carriage returns in the line of", key
            if path.name == "text" and not line.endswith("\n"):
                yield "no line feed at the end of the line of", key
            if path.name == "text":
                yield from ((what, key) for what in _find_odd_in_text(line))


def _find_text_faults(data: data_dir.DataDir) -> Iterator[tuple[str, str, str]]:
    """Yield (file, what, utterance) for transcripts that Kaldi refuses."""
    for key, value in (data.text or {}).items():
        yield from (("text", what, key) for what in _find_odd_in_text(value))


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
    """Print what is wrong with a data dir on disk, and what is allowed but rarely
    intended; True if nothing is wrong.

    ``audio`` also opens each audio file (:func:`check_audio`, with ``rate`` in Hz),
    unless the tables are faulty. ``speaker_order`` warns where a speaker is not a
    prefix of its utterances; ``non_print`` allows characters that cannot be printed.
    """
    data, scans = scan_data_dir(path)
    if non_print:
        scans = {name: _with_all_characters(scan) for name, scan in scans.items()}
    problems, warnings = (
        validate_scan(data, scans, require_text=require_text, files=files),
        warn(data),
    )
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
    """Check what :func:`scan_data_dir` has read: the form of the files, and what
    :func:`validate` checks.

    ``files`` also checks that the audio files exist and are not empty, without opening
    them.
    """
    problems = [
        problem for name, scan in scans.items() for problem in _form(name, scan)
    ]
    advice = "`espnet-ext data fix` writes it"
    if "spk2utt" not in scans:
        problems.append(Problem("spk2utt", "no such file", (), advice))
    else:
        found, expected = (
            {key: sorted(value.split()) for key, value in table.items()}
            for table in (scans["spk2utt"].table, data.spk2utt)
        )
        if wrong := tuple(
            key
            for key in sorted(found | expected)
            if found.get(key, []) != expected.get(key)
        ):
            problems.append(
                Problem("spk2utt", "does not match utt2spk for", wrong, advice)
            )
    problems += validate(data, require_text=require_text)
    return problems + (check_files(data) if files else [])


def _with_all_characters(scan: TableScan) -> TableScan:
    kept = tuple(each for each in scan.odd_lines if each[0] != NOT_PRINTED)
    return dataclasses.replace(scan, odd_lines=kept)


def _form(name: str, scan: TableScan) -> Iterator[Problem]:
    fix_it, sort_it = (
        "fix the file, by hand or with `espnet-ext data fix`",
        "sort it with `espnet-ext data fix`",
    )
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
    for file, ids in find_derived_faults(data).items():
        problems.append(
            Problem(
                file,
                "missing, extra or not a positive number:",
                ids,
                "delete the file or fix it",
            )
        )
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
    audio_file, audio = (
        ("wav.scp", data.wav_scp)
        if data.segments is None
        else ("segments", data.segments)
    )
    covering = {name: data.tables[name] for name in _COVERING if name in data.tables}
    for utterance in sorted(set(audio).union(*covering.values())):
        if utterance not in audio:
            yield audio_file, "no audio for", utterance
        for name, table in covering.items():
            if utterance not in table:
                yield (
                    name,
                    "no transcript for" if name == "text" else "no line for",
                    utterance,
                )
            elif not table[utterance].strip():
                yield (
                    name,
                    "empty transcript of" if name == "text" else "empty entry for",
                    utterance,
                )
            elif name in ("utt2spk", "utt2lang") and len(table[utterance].split()) > 1:
                yield name, "more than one word for", utterance
        if utterance in audio and not audio[utterance]:
            yield audio_file, "empty entry for", utterance
        elif (
            utterance in audio
            and data.segments is not None
            and (fault := _find_segment_fault(data, audio[utterance]))
        ):
            yield audio_file, fault, utterance


def _find_segment_fault(data: data_dir.DataDir, value: str) -> str:
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
    length = _positive((data.reco2dur or {}).get(recording, ""))
    if length is not None and (start >= length or end > length + data_dir.OVERSHOOT):
        return "the segment goes beyond the end of its recording, of"
    return ""


def _positive(value: str) -> float | None:
    try:
        number = data_dir.parse_number(value)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def find_derived_faults(data: data_dir.DataDir) -> dict[str, tuple[str, ...]]:
    """Map files of durations or lengths to the ids that are missing there, extra, or
    not a positive number.
    """
    faults = {}
    for name in data_dir.DERIVED:
        if (table := data.tables.get(name)) is not None:
            others = (
                table.keys()
                ^ (data.wav_scp if name == "reco2dur" else data.utt2spk).keys()
            )
            if (
                wrong := {
                    key for key, value in table.items() if _positive(value) is None
                }
                | others
            ):
                faults[name] = tuple(sorted(wrong))
    return faults


def warn(data: data_dir.DataDir) -> list[Problem]:
    """List what is allowed but rarely intended: speakers that are not a prefix, unused
    recordings, unchecked audio.
    """
    order = (
        "Kaldi's tools expect one order by utterance and by speaker; name utterances "
        "SPEAKER-..."
    )
    unprefixed = {
        key for key, speaker in data.utt2spk.items() if not key.startswith(speaker)
    }
    segments = (
        data.wav_scp
        if data.segments is None
        else map(data_dir.parse_segment_recording, data.segments.values())
    )
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
            data.wav_scp.keys() - set(segments),
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
        key: _positive(value) or math.inf
        for key, value in (data.reco2dur or {}).items()
    }
    sound = {
        key: value
        for key, value in (data.segments or {}).items()
        if not _find_segment_fault(data, value)
    }
    ends = {key: data_dir.parse_segment(value) for key, value in sorted(sound.items())}
    late = tuple(
        key
        for key, (name, _, end) in ends.items()
        if end > lengths.get(name, math.inf) + data_dir.SLACK
    )
    what = (
        f"at most {data_dir.OVERSHOOT:g} s beyond the end of the recording, where "
        "they are cut:"
    )
    return [Problem("segments", what, late, "Kaldi cuts them, too")] if late else []


def check_files(data: data_dir.DataDir) -> list[Problem]:
    """Check that the audio files are there, and not empty. :func:`check_audio` also
    looks inside.
    """
    faults = []
    for recording, value in sorted(data.wav_scp.items()):
        path = data_dir.parse_audio_path(value)
        if (
            value
            and not data_dir.is_command(value)
            and not (os.path.exists(path) and os.path.getsize(path))
        ):
            what = (
                "zero-length audio file of"
                if os.path.exists(path)
                else "no audio file of"
            )
            faults.append(("wav.scp", what, f"{recording} ({value})"))
    return sorted(
        _group_by_kind(faults, "check the corpus folder and the paths"),
        key=lambda problem: problem.what,
    )


def raise_problems(path: str | Path, problems: list[Problem]) -> None:
    """Raise the first problem as an :class:`InputError` of one line that counts the
    other kinds.
    """
    if problems:
        others = len(problems) - 1
        more = (
            f" (and {others} more kinds of fault: `espnet-ext data validate` "
            "lists them)"
            if others
            else ""
        )
        raise InputError(f"{path}/{problems[0]}{more}")


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
    from tqdm import tqdm

    from espnet_ext.audio.files import (
        inspect_audio,
    )  # only here: the quick checks need no audio library

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
    wanted = rate or Counter(rates.values()).most_common(1)[0][0] if rates else 0
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
    first = {
        utterance: (file, what, utterance)
        for file, what, utterance in reversed(
            [*find_utterance_faults(data), *_find_text_faults(data)]
        )
    }
    dropped = _group_by_kind(
        sorted(first.values(), key=lambda fault: fault[2]), "dropped"
    )
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
    certain: dict[str, Any] = {
        field: {
            key: value
            for key, value in scans[name].table.items()
            if key not in scans[name].conflicts
        }
        for field, name in data_dir.FILES.items()
        if name in scans
    }
    fixed, dropped, files = fix(dataclasses.replace(data, **certain))
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
