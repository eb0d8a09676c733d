"""Choose, combine and split data dirs.

Most are functions from :class:`DataDir` to :class:`DataDir`; :func:`subset_data_dir`, :func:`combine_data_dirs` and
:func:`split_data_dir` do the same to folders.

>>> data = DataDir(wav_scp={"a-1": "a1.wav", "b-1": "b1.wav"}, utt2spk={"a-1": "a", "b-1": "b"})
>>> list(subset(data, first(data, 1)).wav_scp)
['a-1']
>>> [part.utterances for part in split(data, 2)]
[['a-1'], ['b-1']]
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import (
    FILES,
    RECORDING_FILES,
    SPEAKER_FILES,
    UTTERANCE_FILES,
    DataDir,
    Table,
    format_seconds,
    parse_segment,
    read_data_dir,
    replace_folder,
    require_folder,
    segment_recording,
    write_data_dir,
    write_tables,
)
from espnet_ext.kaldi.tables import scan_table


def subset(data: DataDir, utterances: Sequence[str]) -> DataDir:
    """Keep these utterances, and the recordings and speakers that they need.

    Raises:
        InputError: an utterance is not in ``utt2spk``, or none is asked for.
    """
    for utterance in utterances:
        if utterance not in data.utt2spk:
            raise InputError(f"utt2spk: there is no utterance {utterance}: check the list of utterances")
    if not utterances:
        raise InputError("a subset of no utterances was asked for: give at least one")
    return restrict(data, set(utterances))


def restrict(data: DataDir, keep: set[str]) -> DataDir:
    """Keep what belongs to the utterances in ``keep``, without checking that each of them exists."""
    recordings = keep
    if data.segments is not None:
        recordings = {segment_recording(data.segments[key]) for key in keep if key in data.segments}
    speakers = {data.utt2spk[key] for key in keep if key in data.utt2spk}
    ids = dict.fromkeys(UTTERANCE_FILES, sorted(keep)) | dict.fromkeys(RECORDING_FILES, sorted(recordings))
    fields: dict[str, Any] = {field: _only(getattr(data, field), wanted) for field, wanted in ids.items()}
    # These two need not cover everything, so nothing may remain of them.
    fields |= {field: _only(getattr(data, field), sorted(speakers)) or None for field in SPEAKER_FILES}
    return dataclasses.replace(data, **fields, ctm=_only(data.ctm, sorted(keep)) or None)


def _only(table: Mapping | None, keys: Sequence[str]) -> dict | None:
    # Over the keys and not over the table: a split into many parts would read all of it each time.
    return None if table is None else {key: table[key] for key in keys if key in table}


# --- which utterances: lists for subset() ---


def first(data: DataDir, count: int) -> list[str]:
    """The first ``count`` utterances in sorted order; InputError if there are fewer."""
    return data.utterances[: _checked(data, count)]


def last(data: DataDir, count: int) -> list[str]:
    """The last ``count`` utterances in sorted order; InputError if there are fewer."""
    return data.utterances[len(data.utt2spk) - _checked(data, count) :]


def spread(data: DataDir, count: int) -> list[str]:
    """``count`` utterances evenly spaced in sorted order, so of many speakers; InputError if there are fewer."""
    utterances, count = data.utterances, _checked(data, count)
    return [utterances[index * len(utterances) // count] for index in range(count)]


def shortest(data: DataDir, count: int) -> list[str]:
    """The ``count`` shortest utterances by :func:`durations`; InputError if there are fewer."""
    seconds = durations(data)
    return sorted(sorted(seconds, key=lambda utterance: (seconds[utterance], utterance))[: _checked(data, count)])


def per_speaker(data: DataDir, count: int) -> list[str]:
    """``count`` utterances of each speaker, evenly spaced; all if a speaker has fewer. InputError if count < 1."""
    if count < 1:
        raise InputError(f"a subset of {count} utterances per speaker was asked for: give at least 1")
    chosen = []
    for utterances in map(str.split, data.spk2utt.values()):
        number = min(count, len(utterances))
        chosen += [utterances[index * len(utterances) // number] for index in range(number)]
    return sorted(chosen)


def first_per_speaker(data: DataDir, count: int) -> list[str]:
    """The first ``count`` utterances of each speaker; all if a speaker has fewer. InputError if count < 1."""
    if count < 1:
        raise InputError(f"a subset of {count} utterances per speaker was asked for: give at least 1")
    return sorted(one for utterances in data.spk2utt.values() for one in utterances.split()[:count])


def after_first_per_speaker(data: DataDir, count: int) -> list[str]:
    """The utterances that :func:`first_per_speaker` leaves. InputError if it leaves none."""
    taken = set(first_per_speaker(data, count))
    left = sorted(set(data.utt2spk) - taken)
    if not left:
        raise InputError(f"nothing is left after the first {count} utterances of each speaker: take fewer")
    return left


def of_speakers(data: DataDir, speakers: Sequence[str]) -> list[str]:
    """All utterances of these speakers; InputError if one of the speakers is not there."""
    for speaker in speakers:
        if speaker not in data.spk2utt:
            raise InputError(f"utt2spk: there is no speaker {speaker}: check the list of speakers")
    return sorted(utterance for speaker in set(speakers) for utterance in data.spk2utt[speaker].split())


def _checked(data: DataDir, count: int) -> int:
    if not 1 <= count <= len(data.utt2spk):
        raise InputError(f"{count} utterances were asked for, of {len(data.utt2spk)}: give a number from 1 to that")
    return count


def durations(data: DataDir) -> dict[str, float]:
    """Utterance -> seconds: from ``utt2dur``, otherwise from ``segments``, otherwise from the audio files' headers.

    Raises:
        InputError: an utterance has no length there, or its audio cannot be opened.
    """
    return {utterance: _duration(data, utterance) for utterance in data.utterances}


def _duration(data: DataDir, utterance: str) -> float:
    recording, start = utterance, 0.0
    try:
        if data.utt2dur is not None and utterance in data.utt2dur:
            return float(data.utt2dur[utterance])
        if data.segments is not None:
            recording, start, end = parse_segment(data.segments[utterance])
            if end >= 0:
                return end - start
        if data.reco2dur is not None and recording in data.reco2dur:
            return float(data.reco2dur[recording]) - start
        import soundfile  # only here: nothing else in this module needs an audio library

        return soundfile.info(data.wav_scp[recording]).duration - start
    except (KeyError, ValueError, RuntimeError) as error:
        raise InputError(
            f"the duration of utterance {utterance} cannot be found ({error}): validate the data dir"
        ) from None


# --- combine and split ---


def combine(parts: Sequence[DataDir]) -> DataDir:
    """Combine data dirs. Where only some have ``segments``, the others get them, from 0 to the recording's end.

    An optional table that not all parts have is left out. Exceptions are ``text``, which must be in all or in none, and
    ``spk2gender`` and ``ctm``, which keep what there is.

    Raises:
        InputError: an utterance is in two parts, or a recording or speaker with two different entries; only some parts
            have a ``text``; or there are no parts.
    """
    if not parts:
        raise InputError("nothing to combine: name at least one data dir")
    if any(part.segments is not None for part in parts):
        parts = [_with_segments(part) for part in parts]
    if any(part.text is None for part in parts) and any(part.text is not None for part in parts):
        raise InputError("text: some of the data dirs have one and others do not: add it, or remove it")
    fields: dict[str, Any] = {}
    for field, name in FILES.items():
        fields[field] = _merged([getattr(part, field) for part in parts], name)
    for field, name in SPEAKER_FILES.items():  # need not name every speaker
        fields[field] = _merged([getattr(part, field) or {} for part in parts], name) or None
    ctms = [part.ctm for part in parts if part.ctm]
    return DataDir(**fields, ctm={key: words for ctm in ctms for key, words in ctm.items()} or None)


def with_suffix(data: DataDir, suffix: str) -> DataDir:
    """Append ``suffix`` to each utterance's and recording's id, for parts of a corpus that use the same ids.

    Speakers keep their names, so that a speaker is still the prefix of its utterances.
    """

    def renamed(table: Mapping | None) -> dict | None:
        return None if table is None else {key + suffix: value for key, value in table.items()}

    fields: dict[str, Any] = {
        name: renamed(getattr(data, name)) for name in (*UTTERANCE_FILES, *RECORDING_FILES, "ctm")
    }
    if data.segments is not None:
        parts = {key: value.split(maxsplit=1) for key, value in fields["segments"].items()}
        fields["segments"] = {key: f"{recording}{suffix} {times}" for key, (recording, times) in parts.items()}
    return dataclasses.replace(data, **fields)


def _merged(tables: Sequence[Table | None], name: str) -> dict[str, str] | None:
    merged: dict[str, str] = {}
    for table in tables:
        if table is None:
            return None
        for key in sorted(merged.keys() & table.keys()):
            if name in UTTERANCE_FILES.values():
                raise InputError(f"{name}: utterance {key} is in two of the data dirs: rename it in one of them")
            if merged[key] != table[key]:
                raise InputError(f"{name}: {key} has two different entries in the data dirs: rename it in one of them")
        merged.update(table)
    return merged


def _with_segments(data: DataDir) -> DataDir:
    if data.segments is not None:
        return data
    segments = {utterance: f"{utterance} 0 {format_seconds(value)}" for utterance, value in durations(data).items()}
    return dataclasses.replace(data, segments=segments)


def split(data: DataDir, parts: int, *, by: str = "utterance") -> list[DataDir]:
    """Split into parts that share no utterance and hold all of them.

    By ``"utterance"``: consecutive runs of the sorted ids, of nearly equal length. By ``"speaker"``: a speaker is never
    divided; the largest come first, each goes to the part with the fewest utterances so far.

    Raises:
        InputError: there are fewer utterances, or speakers, than parts.
    """
    units = len(data.spk2utt if by == "speaker" else data.utt2spk)
    if not 1 <= parts <= units:
        hint = "; splitting by utterance (--per-utt) allows more" if by == "speaker" else ""
        raise InputError(f"{units} {by}s cannot be split into {parts} parts: give a number from 1 to {units}{hint}")
    if by == "utterance":
        bounds, utterances = [index * units // parts for index in range(parts + 1)], data.utterances
        return [subset(data, utterances[a:b]) for a, b in zip(bounds, bounds[1:], strict=False)]
    chosen: list[list[str]] = [[] for _ in range(parts)]
    for utterances in sorted(map(str.split, data.spk2utt.values()), key=lambda ids: (-len(ids), ids)):
        min(chosen, key=len).extend(utterances)
    return [subset(data, utterances) for utterances in chosen]


# --- the same on folders ---

CHOICES = {
    "first": first,
    "last": last,
    "shortest": shortest,
    "per_speaker": per_speaker,
    "first_per_speaker": first_per_speaker,
    "after_first_per_speaker": after_first_per_speaker,
    "spread": spread,
}


def subset_data_dir(
    source: str | Path,
    destination: str | Path,
    count: int | None = None,
    *,
    how: str = "spread",
    utterance_list: str | Path | None = None,
    speaker_list: str | Path | None = None,
) -> DataDir:
    """Write a subset of a data dir: ``count`` utterances, or those of a list.

    Args:
        source, destination: data dirs, not the same one.
        count: how many utterances; of each speaker if ``how`` says so.
        how: a key of ``CHOICES``.
        utterance_list, speaker_list: a file whose first column names utterances or speakers, instead of ``count``.

    Raises:
        InputError: an unknown id, a ``count`` that ``source`` does not have, or ``destination`` is no data dir.
    """
    _require_other(destination, [source])
    data = read_data_dir(source)
    if utterance_list:
        chosen = list(scan_table(utterance_list).table)
    elif speaker_list:
        chosen = of_speakers(data, list(scan_table(speaker_list).table))
    else:
        chosen = CHOICES[how](data, count or 0)
    part = subset(data, chosen)
    write_data_dir(part, destination)
    print(f"{destination}: {len(chosen):,} of the {len(data.utt2spk):,} utterances of {source}")
    return part


def combine_data_dirs(
    destination: str | Path, sources: Sequence[str | Path], *, suffix_source: bool = False
) -> DataDir:
    """Write the combination of data dirs (:func:`combine`), and say which tables it leaves out.

    Args:
        destination: the new data dir.
        sources: the data dirs.
        suffix_source: append each source's name to its ids (:func:`with_suffix`).

    Raises:
        InputError: the data dirs cannot be combined, or ``destination`` is one of them or no data dir.
    """
    parts = [read_data_dir(source) for source in sources]
    _require_other(destination, sources)
    if suffix_source:
        parts = [with_suffix(part, f"-{Path(source).name}") for part, source in zip(parts, sources, strict=True)]
    combined = combine(parts)
    write_data_dir(combined, destination)
    for name in sorted({name for part in parts for name in part.tables} - combined.tables.keys()):
        print(f"left out {name}: not all of the data dirs have it")
    print(f"{destination}: {len(combined.utt2spk):,} utterances of {len(parts)} data dirs")
    return combined


def split_data_dir(path: str | Path, parts: int, *, by: str = "speaker") -> Path:
    """Split a data dir (:func:`split`) into ``split<parts>/1`` and so on inside it; ``split<parts>utt`` by utterance.

    Returns:
        The folder that holds the parts.

    Raises:
        InputError: there are fewer utterances, or speakers, than parts.
    """
    split_parts = split(read_data_dir(path), parts, by=by)
    destination = Path(path) / f"split{parts}{'utt' if by == 'utterance' else ''}"
    with replace_folder(destination) as folder:
        for number, part in enumerate(split_parts, start=1):
            (folder / str(number)).mkdir()
            write_tables(part, folder / str(number))
    sizes = ", ".join(str(len(part.utt2spk)) for part in split_parts)
    print(f"{destination}/1 to {parts}: {sizes} utterances")
    return destination


def _require_other(destination: str | Path, sources: Sequence[str | Path]) -> None:
    for source in sources:
        if Path(destination).resolve() == require_folder(source).resolve():
            raise InputError(f"{destination}: is also the source: name another folder to write to")
