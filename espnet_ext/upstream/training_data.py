"""The tables of a training's utterances, checked before ESPnet builds anything.

ESPnet would end in the middle of an epoch, with a traceback, at the first fault that it
meets.
"""

import math
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from espnet2.train.dataset import AdapterForSoundScpReader

from espnet_ext.audio.files import Inspected, inspect_audio
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table_lines
from espnet_ext.kaldi.utterance_audio import is_mix
from espnet_ext.upstream.options import read_sampling_rate

PARTS = ("train", "valid")
SOUND = ("sound", "mixed_sound")
# Types of data whose files are `id value` tables.
TABLES = (
    *SOUND,
    "multi_columns_sound",
    "variable_columns_sound",
    "kaldi_ark",
    "npy",
    "text",
    "text_int",
    "text_float",
    "csv_int",
    "csv_float",
    "json",
    "metric",
)
# Files that are looked at, spread evenly, where there are more: a training that resumes
# shall not read 280,000 headers each time.
LOOKED_AT = 10_000
THREADS = 8
ABSENT = "None"  # ESPnet's word for an utterance without audio

_read_audio = AdapterForSoundScpReader.__getitem__


def name_utterances() -> None:
    """Make ESPnet's reader of audio name the utterance that cannot be read.

    Calling it again changes nothing.
    """
    AdapterForSoundScpReader.__getitem__ = read_audio


def read_audio(self: AdapterForSoundScpReader, key: str) -> np.ndarray | None:
    """Read an utterance as ESPnet does: what keeps it from that is one line."""
    try:
        return _read_audio(self, key)
    except (OSError, RuntimeError, ValueError) as error:
        table = getattr(self.loader, "fname", "")
        file = getattr(self.loader, "data", {}).get(key, "")
        raise InputError(
            f"{table}: {key}: {file} cannot be read: {str(error).strip()}: replace it, "
            "or take the utterance out of the tables"
        ) from error


def check_training_data(args: Namespace) -> None:
    """Refuse tables and audio with which a training would end in an epoch.

    They are tables without utterances, with an id twice, or without one that the shape
    files name, and audio that cannot be opened or has another rate or other channels.
    Tasks with an iterator of their own check their tables themselves.
    """
    own = getattr(args, "iterator_type", "sequence") in ("task", "none")
    for part in PARTS:
        entries = getattr(args, f"{part}_data_path_and_name_and_type", [])
        # folders of splits, for ESPnet's multiple_iterator, in place of tables
        in_splits = part == "train" and getattr(args, "multiple_iterator", False)
        if entries and not own and not in_splits:
            shapes = getattr(args, f"{part}_shape_file", [])
            _check_part(entries, shapes, args)


def _check_part(
    entries: Sequence[Sequence[str]],
    shapes: Sequence[str],
    args: Namespace,
) -> None:
    """Check the tables of the training or the development set.

    The first file says which utterances there must be: a shape file, if there is one,
    since it may hold a part of the set.
    """
    wanted: dict[str, str] = {}
    source = Path()
    for path in map(Path, shapes):
        found = _read_table(path)
        if not wanted:
            wanted = found
            source = path
        _require_ids(path, found, wanted, source)
    for name, _, kind in entries:
        if kind not in TABLES:
            continue
        path = Path(name)
        found = _read_table(path)
        if not wanted:
            wanted = found
            source = path
        _require_ids(path, found, wanted, source)
        if kind in SOUND:
            _check_audio(path, {key: found[key] for key in wanted}, args)


def _read_table(path: Path) -> dict[str, str]:
    table: dict[str, str] = {}
    for key, value in read_table_lines(path):
        if key in table:
            raise InputError(f"{path}: id {key} comes twice: keep one of its lines")
        table[key] = value
    return table


def _require_ids(
    path: Path,
    found: Mapping[str, str],
    wanted: Iterable[str],
    source: Path,
) -> None:
    lacking = [key for key in wanted if key not in found]
    if not lacking:
        return
    # not one is there: another mistake than a line that is missing
    if len(lacking) == len(list(wanted)):
        raise InputError(
            f"{path}: has none of the utterances of {source}, such as {lacking[0]}: "
            "give the files of one set"
        )
    more = f" and {len(lacking) - 1:,} others" if len(lacking) > 1 else ""
    raise InputError(
        f"{path}: {lacking[0]} of {source} is not in it{more}: add it, or take it out "
        "of the shape files"
    )


def _check_audio(path: Path, table: Mapping[str, str], args: Namespace) -> None:
    files = {}
    for key, file in table.items():
        if file != ABSENT and not is_mix(file):
            files[key] = file
    step = max(1, math.ceil(len(files) / LOOKED_AT))
    keys = list(files)[::step]
    rate = read_sampling_rate(vars(args))
    one_rate = not getattr(args, "allow_multi_rates", False)

    def inspect(key: str) -> Inspected:
        return inspect_audio(files[key], decode=False, rate=rate, mono=False)

    # threads, since headers wait for the disk and not for the processor
    with ThreadPoolExecutor(THREADS) as pool:
        inspected = dict(zip(keys, pool.map(inspect, keys), strict=True))
    for key, found in inspected.items():
        first = inspected[keys[0]]
        fault = found.fault
        if not fault and found.channels != first.channels:
            fault = f"{found.channels} channels, {first.channels} in {keys[0]}, in"
        if not fault and one_rate and found.rate != first.rate:
            fault = f"{found.rate} Hz, {first.rate} Hz in {keys[0]}, in"
        if fault:
            raise InputError(
                f"{path}: {fault} {key}: {files[key]}: convert or replace it, or take "
                "the utterance out of the tables"
            )
