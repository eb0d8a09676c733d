"""Kaldi data directories as plain values: read and write them.

Checks and repair are in :mod:`espnet_ext.kaldi.checks`, subsets and combination in
:mod:`espnet_ext.kaldi.parts`.
"""

import fcntl
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table

Table = Mapping[str, str]

_NAMES = (
    "utt2spk",
    "text",
    "segments",
    "utt2lang",
    "feats.scp",
    "utt2dur",
    "utt2num_samples",
)
# field of DataDir -> file name, sorted by whose ids the file has
UTTERANCE_FILES = {name.replace(".", "_"): name for name in _NAMES}
RECORDING_FILES = {"wav_scp": "wav.scp", "reco2dur": "reco2dur"}
SPEAKER_FILES = {"spk2gender": "spk2gender"}
FILES = RECORDING_FILES | UTTERANCE_FILES | SPEAKER_FILES
# Computed from the audio: one of these with gaps can be deleted and made again.
DERIVED = ("utt2dur", "utt2num_samples", "reco2dur")
# Seconds after its recording at which a segment may end, which is then cut: what
# Kaldi's extract-segments allows by default, --max-overshoot.
OVERSHOOT = 0.5
SLACK = 0.02  # seconds of it that are not mentioned: times in `segments` are rounded
# What may be replaced along with a data dir. A folder that holds anything else is not a
# data dir.
_OWN_FILES = {*FILES.values(), "spk2utt"}
# Folders inside: of our repair; of Kaldi's split_data.sh.
_OWN_FOLDER = re.compile(r"\.backup|split\d+(utt)?")


class KaldiSegment(NamedTuple):
    """A line of ``segments``: the recording's id, start and end in seconds."""

    recording: str
    start: float
    end: float  # -1, as in Kaldi: the recording's end


@dataclass(frozen=True)
class DataDir:
    """The tables of a data dir, each ``{id: rest of the line}``.

    A table is ``None`` where there is no such file. ``wav_scp`` has recording -> path
    of the audio (or a command ending in ``|``); without ``segments`` (utterance ->
    ``recording start end``, in seconds, :func:`parse_segment`), the recordings are the
    utterances. ``utt2dur`` and ``reco2dur`` are in seconds, ``utt2num_samples`` in
    samples; ``spk2gender`` is ``m`` or ``f``.
    """

    wav_scp: Table
    utt2spk: Table
    text: Table | None = None
    segments: Table | None = None
    utt2lang: Table | None = None
    feats_scp: Table | None = None
    utt2dur: Table | None = None
    utt2num_samples: Table | None = None
    reco2dur: Table | None = None
    spk2gender: Table | None = None

    @cached_property
    def spk2utt(self) -> dict[str, str]:
        """Map each speaker to its utterances, joined by spaces.

        Both are sorted. Derived from ``utt2spk``.
        """
        utterances: dict[str, list[str]] = {}
        for utterance in sorted(self.utt2spk):
            utterances.setdefault(self.utt2spk[utterance], []).append(utterance)
        return {
            speaker: " ".join(utterances[speaker]) for speaker in sorted(utterances)
        }

    @property
    def utterances(self) -> list[str]:
        """Sort the utterance ids."""
        return sorted(self.utt2spk)

    @property
    def tables(self) -> dict[str, Table]:
        """Map file names to tables, for the tables that exist (without ``spk2utt``)."""
        pairs = ((name, getattr(self, field)) for field, name in FILES.items())
        return {name: table for name, table in pairs if table is not None}


_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?", re.IGNORECASE)


def parse_segment(value: str) -> KaldiSegment:
    """Parse ``recording start end``.

    Raises ValueError if it is not a name and two finite numbers.
    """
    recording, start, end = value.split()
    return KaldiSegment(recording, parse_number(start), parse_number(end))


def parse_number(text: str) -> float:
    """Parse a finite number as Kaldi reads it.

    Raises ValueError for what only Python takes for one, such as ``1_0`` or digits that
    are not ASCII.
    """
    if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def parse_segment_recording(value: str) -> str:
    """Return the recording of a line of ``segments``, ``""`` if the line is empty."""
    # Also of a faulty line, which parse_segment refuses: its recording is not unused.
    fields = value.split(maxsplit=1)
    return fields[0] if fields else ""


def format_seconds(seconds: float) -> str:
    """Write seconds with up to 8 decimals: ``format_seconds(0.5) == "0.5"``."""
    # Finer than a sample at any audio rate, so that rounding finds the sample again.
    return f"{seconds:.8f}".rstrip("0").rstrip(".")


def read_data_dir(path: str | Path) -> DataDir:
    """Read a data dir. ``spk2utt`` is not read: it is derived."""
    path = require_folder(path)
    fields = {
        field: read_table(path / name)
        for field, name in FILES.items()
        if (path / name).exists() or field in ("wav_scp", "utt2spk")
    }
    return DataDir(**fields)


def is_command(value: str) -> bool:
    """Tell whether an entry is a shell command that Kaldi's tools would run."""
    entry = value.strip()
    return entry.endswith("|") or entry.startswith("|")


def refuse_commands(path: Path, table: Table) -> None:
    """Refuse a table with a command, which may be anybody's: none is run."""
    for key, value in table.items():
        if is_command(value):
            raise InputError(
                f"{path}: {key} is a command, and commands are not run: write its "
                "output to a file"
            )


def parse_audio_path(value: str) -> str:
    """Return the file of an entry, which may be a position in one: ``wav.ark:1234``."""
    position = re.search(r":\d+$", value)
    # A file's own name may end like this.
    if position is None or os.path.exists(value):
        return value
    return value[: position.start()]


def require_folder(path: str | Path) -> Path:
    """Return ``path``; InputError if it is not a folder."""
    if not Path(path).is_dir():
        raise InputError(
            f"{path}: no such data dir: check the path, or run the stage that writes it"
        )
    return Path(path)


def write_data_dir(data: DataDir, path: str | Path) -> None:
    """Write a data dir, with ``spk2utt``.

    An existing one is replaced, but only once the new one is complete.
    """
    with replace_folder(path) as folder:
        write_tables(data, folder)


def write_tables(data: DataDir, folder: Path) -> None:
    """Write the files of ``data`` into an existing folder, one by one.

    Other files stay. Raises InputError.
    """
    for name, table in {**data.tables, "spk2utt": data.spk2utt}.items():
        write_table(folder / name, table)


@contextmanager
def replace_folder(path: str | Path) -> Iterator[Path]:
    """Give an empty temporary folder beside ``path`` that takes its place on success.

    On an error ``path`` stays. Of several processes that write one folder at once, each
    has its own temporary folder, and the last to finish wins.
    """
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _hold_lock(target.parent):  # not between the two renames of another process
        if target.exists():
            _require_ours(target)
    # Beside the target, since a rename must not cross file systems.
    own = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    new = own / "new"
    old = own / "old"
    new.mkdir()
    try:
        yield new
        # Two renames, since none replaces a folder that holds something. Whoever looks
        # between them finds no folder; only our own processes wait.
        with _hold_lock(target.parent):
            if target.exists():
                os.rename(target, old)
            try:
                os.rename(new, target)
            except OSError:
                if old.exists():
                    os.rename(old, target)
                raise
    finally:
        shutil.rmtree(own, ignore_errors=True)


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, where its file system has locks.

    The system releases it when this process ends.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems have no locks: then two that write at once may fail.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _require_ours(folder: Path) -> None:
    """Refuse to replace what is not a data dir, whose content would be lost."""
    if not folder.is_dir():
        raise InputError(f"{folder}: is a file, not a data dir: name another folder")
    if _OWN_FOLDER.fullmatch(folder.name):
        return
    for item in sorted(folder.iterdir()):
        if item.is_dir():
            is_ours = _OWN_FOLDER.fullmatch(item.name) is not None
        else:
            is_ours = item.name in _OWN_FILES or item.name.startswith(".")
        if not is_ours:
            advice = "name another folder, or delete this one"
            raise InputError(
                f"{folder}: holds {item.name}, which is not part of a data dir: "
                f"{advice}"
            )
