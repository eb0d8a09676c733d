"""Choose from data dirs, and combine them, as values and as folders."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi import data_dir


def keep_utterances(data: data_dir.DataDir, keep: set[str]) -> data_dir.DataDir:
    """Keep these utterances, as far as they exist, and what they need.

    Utterances need their recordings and speakers.
    """
    recordings = keep
    if data.segments is not None:
        recordings = {
            data_dir.parse_segment_recording(data.segments[key])
            for key in keep
            if key in data.segments
        }
    speakers = {data.utt2spk[key] for key in keep if key in data.utt2spk}
    fields: dict[str, Any] = {}
    for field in data_dir.UTTERANCE_FILES:
        fields[field] = _keep_keys(getattr(data, field), sorted(keep))
    for field in data_dir.RECORDING_FILES:
        fields[field] = _keep_keys(getattr(data, field), sorted(recordings))
    for field in data_dir.SPEAKER_FILES:
        # Such a file need not cover all speakers, so nothing may remain of it; and a
        # table without a line cannot be written.
        fields[field] = _keep_keys(getattr(data, field), sorted(speakers)) or None
    return dataclasses.replace(data, **fields)


def _keep_keys(table: Mapping | None, keys: Sequence[str]) -> dict | None:
    return None if table is None else {key: table[key] for key in keys if key in table}


def choose_spread(data: data_dir.DataDir, count: int) -> list[str]:
    """Choose ``count`` utterances evenly spaced in sorted order, so of many speakers.

    Raises InputError if there are fewer.
    """
    utterances = data.utterances
    if not 1 <= count <= len(utterances):
        raise InputError(
            f"{count} utterances were asked for, of {len(utterances)}: give a "
            "number from 1 to that"
        )
    return [utterances[index * len(utterances) // count] for index in range(count)]


def choose_first_per_speaker(data: data_dir.DataDir, count: int) -> list[str]:
    """Choose the first ``count`` utterances of each speaker.

    Of a speaker who has fewer, all.
    """
    return sorted(
        one
        for utterances in data.spk2utt.values()
        for one in utterances.split()[:count]
    )


def choose_after_first_per_speaker(data: data_dir.DataDir, count: int) -> list[str]:
    """Choose the utterances that :func:`choose_first_per_speaker` leaves.

    Raises InputError if it leaves none.
    """
    left = sorted(data.utt2spk.keys() - choose_first_per_speaker(data, count))
    if not left:
        raise InputError(
            f"nothing is left after the first {count} utterances of each speaker: "
            "take fewer"
        )
    return left


def combine(parts: Sequence[data_dir.DataDir]) -> data_dir.DataDir:
    """Combine data dirs, at least one.

    An optional table that not all parts have is left out. Exceptions are ``text`` and
    ``segments``, which must be in all or in none, and ``spk2gender``, which keeps what
    there is.
    """
    for name in ("text", "segments"):
        if len({name in part.tables for part in parts}) > 1:
            raise InputError(
                f"{name}: some of the data dirs have one and others do not: add "
                "it, or remove it"
            )
    fields: dict[str, Any] = {}
    for field, name in data_dir.FILES.items():
        fields[field] = _merge_tables([getattr(part, field) for part in parts], name)
    for field, name in data_dir.SPEAKER_FILES.items():  # need not name every speaker
        tables = [getattr(part, field) or {} for part in parts]
        fields[field] = _merge_tables(tables, name) or None
    return data_dir.DataDir(**fields)


def add_suffix(data: data_dir.DataDir, suffix: str) -> data_dir.DataDir:
    """Append ``suffix`` to each utterance's and recording's id.

    Parts of a corpus may use the same ids. Speakers keep their names, so that a speaker
    is still the prefix of its utterances.
    """

    def rename_ids(table: Mapping | None) -> dict | None:
        if table is None:
            return None
        return {key + suffix: value for key, value in table.items()}

    fields: dict[str, Any] = {
        name: rename_ids(getattr(data, name))
        for name in (*data_dir.UTTERANCE_FILES, *data_dir.RECORDING_FILES)
    }
    # The lines of segments name recordings, whose ids have changed, too.
    if data.segments is not None:
        for key, value in fields["segments"].items():
            recording, times = value.split(maxsplit=1)
            fields["segments"][key] = f"{recording}{suffix} {times}"
    return dataclasses.replace(data, **fields)


def _merge_tables(
    tables: Sequence[data_dir.Table | None], name: str
) -> dict[str, str] | None:
    """Merge tables, None if one is missing; InputError for an id in two of them."""
    # Two data dirs may have a recording or a speaker in common, if they say the same of
    # it, but no utterance.
    is_of_utterances = name in data_dir.UTTERANCE_FILES.values()
    merged: dict[str, str] = {}
    for table in tables:
        if table is None:
            return None
        for key in sorted(merged.keys() & table.keys()):
            if is_of_utterances or merged[key] != table[key]:
                raise InputError(
                    f"{name}: {key} is in two of the data dirs: rename it in one "
                    "of them"
                )
        merged.update(table)
    return merged


CHOICES = {
    "spread": choose_spread,
    "first_per_speaker": choose_first_per_speaker,
    "after_first_per_speaker": choose_after_first_per_speaker,
}


def subset_data_dir(
    source: str | Path, destination: str | Path, count: int, how: str = "spread"
) -> None:
    """Write ``count`` utterances of a data dir, or as many of each speaker.

    ``how`` is a key of ``CHOICES``.
    """
    _require_other(destination, [source])
    data = data_dir.read_data_dir(source)
    chosen = CHOICES[how](data, count)
    data_dir.write_data_dir(keep_utterances(data, set(chosen)), destination)
    say(
        f"{destination}: {len(chosen):,} of the {len(data.utt2spk):,} utterances "
        f"of {source}"
    )


def combine_data_dirs(
    destination: str | Path,
    sources: Sequence[str | Path],
    *,
    suffix_source: bool = False,
) -> data_dir.DataDir:
    """Write the combination of data dirs, and say which tables :func:`combine` drops.

    With ``suffix_source``, each source's name is appended to its ids
    (:func:`add_suffix`).
    """
    parts = [data_dir.read_data_dir(source) for source in sources]
    _require_other(destination, sources)
    if suffix_source:
        parts = [
            add_suffix(part, f"-{Path(source).name}")
            for part, source in zip(parts, sources, strict=True)
        ]
    combined = combine(parts)
    data_dir.write_data_dir(combined, destination)
    known = {name for part in parts for name in part.tables}
    for name in sorted(known - combined.tables.keys()):
        say(f"left out {name}: not all of the data dirs have it")
    say(
        f"{destination}: {len(combined.utt2spk):,} utterances of {len(parts)} data dirs"
    )
    return combined


def _require_other(destination: str | Path, sources: Sequence[str | Path]) -> None:
    folders = [data_dir.require_folder(source).resolve() for source in sources]
    if Path(destination).resolve() in folders:
        raise InputError(
            f"{destination}: is also the source: name another folder to write to"
        )
