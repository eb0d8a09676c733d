"""Repair a data dir: keep the complete utterances, drop the others and say why."""

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import Problem, derived_faults, scan_data_dir, utterance_faults
from espnet_ext.kaldi.data_dir import FILES, DataDir, replace_folder, write_tables
from espnet_ext.kaldi.parts import restrict


@dataclass(frozen=True)
class Fixed:
    """The repaired data, and what was dropped: reason -> utterances, and names of files."""

    data: DataDir
    dropped: dict[str, tuple[str, ...]]
    dropped_files: tuple[str, ...]

    def __str__(self) -> str:
        dropped = sum(map(len, self.dropped.values()))
        lines = [f"kept {len(self.data.utt2spk):,} utterances, dropped {dropped:,}"]
        for reason, ids in self.dropped.items():
            file, what = reason.split(": ", 1)
            lines.append(f"  dropped {len(ids):,}: {Problem(file, what, ids, 'dropped')}".removesuffix(": dropped"))
        lines += [
            f"  removed {name}: it had gaps, or values that are not positive numbers" for name in self.dropped_files
        ]
        return "\n".join(lines)


def fix(data: DataDir) -> Fixed:
    """Keep the complete utterances: in all tables, with a transcript, and with a possible segment.

    Recordings and speakers without utterances are dropped too, and so are files of durations that have gaps or values
    that are not positive numbers. Audio files are not checked: a disk that is not mounted must not empty a data dir.

    Raises:
        InputError: no utterance would be left.
    """
    dropped: dict[str, list[str]] = {}
    gone: set[str] = set()
    for file, what, utterance in utterance_faults(data):
        if utterance not in gone:
            gone.add(utterance)
            dropped.setdefault(f"{file}: {what}", []).append(utterance)
    audio = data.wav_scp if data.segments is None else data.segments
    keep = set(audio) - gone
    if not keep:
        reasons = "; ".join(f"{reason} {ids[0]}" for reason, ids in dropped.items())
        raise InputError(f"no utterance is complete ({reasons}): nothing was changed; make the data dir again")
    data = restrict(data, keep)
    files = derived_faults(data)
    without: dict[str, Any] = {field: None for field, name in FILES.items() if name in files}
    data = dataclasses.replace(data, **without)
    return Fixed(data, {reason: tuple(ids) for reason, ids in dropped.items()}, tuple(files))


def fix_data_dir(path: str | Path) -> Fixed:
    """Repair a data dir in place with :func:`fix`, and say what was dropped. The files as they were go to ``.backup``.

    Equal lines with the same id become one. Where they differ, nobody can know which is right, and the utterance is
    dropped. Files are replaced atomically, so a repair that was killed can be run again.

    Raises:
        InputError: as :func:`espnet_ext.kaldi.checks.scan_data_dir` and :func:`fix`. Nothing has been changed.
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
        for name in [*scans, "ctm"]:
            if (path / name).exists():
                shutil.copy2(path / name, backup / name)
    for name in scans.keys() - fixed.data.tables.keys() - {"spk2utt"}:
        (path / name).unlink()
    if fixed.data.ctm is None:
        (path / "ctm").unlink(missing_ok=True)
    write_tables(fixed.data, path)
    print(f"{path}: {fixed}\n  the files as they were: {path}/.backup")
    return fixed
