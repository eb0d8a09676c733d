"""Lhotse manifests: checked, read, written, and made into Kaldi data dirs and back.

Lhotse imports torch, so the functions that need Lhotse import it themselves. ``lhotse.kaldi.export_to_kaldi`` is not
used: for FLAC it writes a pipe through ffmpeg into ``wav.scp``, although ESPnet can read the file by its path, and it
has no place for word times.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espnet_ext.audio.files import Inspected
from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import check_files, raise_problems, validate
from espnet_ext.kaldi.cut_recordings import OVERHANG
from espnet_ext.kaldi.data_dir import DataDir, format_seconds, is_command, parse_segment, write_data_dir
from espnet_ext.text.ctm import ctm_word

if TYPE_CHECKING:
    from lhotse import Recording, RecordingSet, SupervisionSegment, SupervisionSet
    from lhotse.supervision import AlignmentItem

# `recordings` and `supervisions` of one part of a corpus.
Manifests = Mapping[str, Any]

# Supervisions that end this close to the recording's end cover it: durations are often rounded to milliseconds.
WHOLE_SECONDS = 0.002


def to_data_dir(recordings: Iterable["Recording"], supervisions: Iterable["SupervisionSegment"]) -> DataDir:
    """Make a data dir of the supervisions and the recordings that they use.

    ``wav.scp`` holds the plain paths. ``segments`` exists only if some supervision does not cover its recording;
    otherwise each recording takes its supervision's id. A supervision without a speaker is its own speaker, as is the
    custom in Kaldi. ``text``, ``utt2lang`` and ``ctm`` (from alignments of type ``word``, relative to the start of the
    utterance) exist if the supervisions have them.

    Raises:
        InputError: no supervisions; an id that comes twice; a supervision without its recording; some supervisions
            have a text or a language and others do not; audio that is not a single file on disk, that is changed on the
            fly (such as a speed perturbation), or audio of which only some channels are used.
    """
    by_id: dict[str, Recording] = {}
    for recording in recordings:
        if recording.id in by_id:
            raise InputError(f"recordings: {recording.id} comes twice: keep one of them")
        by_id[recording.id] = recording
    used = _unique(supervisions, by_id)
    whole = _cover(used, by_id)
    paths = {item.id: _path(by_id[item.recording_id], item) for item in used}
    segments = None if whole else {item.id: _segment(item) for item in used}
    wav_scp = paths if whole else {item.recording_id: paths[item.id] for item in used}
    reco2dur = None if whole else {key: format_seconds(by_id[key].duration) for key in wav_scp}
    return DataDir(
        wav_scp=wav_scp,
        utt2spk={item.id: item.speaker or item.id for item in used},
        text=_all_or_none(used, "text"),
        segments=segments,
        utt2lang=_all_or_none(used, "language"),
        utt2dur={item.id: format_seconds(item.duration) for item in used},
        reco2dur=reco2dur,
        spk2gender={item.speaker: item.gender for item in used if item.speaker and item.gender} or None,
        ctm={item.id: tuple(_words(item)) for item in used if item.alignment and item.alignment.get("word")} or None,
    )


def _unique(
    supervisions: Iterable["SupervisionSegment"], recordings: Mapping[str, "Recording"]
) -> list["SupervisionSegment"]:
    used: dict[str, SupervisionSegment] = {}
    for item in supervisions:
        if item.id in used:
            raise InputError(f"supervisions: {item.id} comes twice: keep one of them")
        if item.recording_id not in recordings:
            raise InputError(
                f"supervisions: {item.id} is of recording {item.recording_id}, which does not exist: add it"
            )
        used[item.id] = item
    if not used:
        raise InputError("supervisions: there are none: prepare the corpus again")
    return list(used.values())


def _cover(supervisions: Sequence["SupervisionSegment"], recordings: Mapping[str, "Recording"]) -> bool:
    if len({item.recording_id for item in supervisions}) < len(supervisions):
        return False
    return all(
        item.start <= WHOLE_SECONDS and item.end >= recordings[item.recording_id].duration - WHOLE_SECONDS
        for item in supervisions
    )


def _path(recording: "Recording", item: "SupervisionSegment") -> str:
    problem = ""
    if len(recording.sources) != 1 or recording.sources[0].type != "file":
        problem = "is not one audio file on disk"
    elif recording.transforms:
        problem = "is changed on the fly, which a path cannot say"
    elif set(item.channel if isinstance(item.channel, list) else [item.channel]) != set(recording.channel_ids):
        problem = f"has channels other than those of supervision {item.id}"
    if problem:
        raise InputError(f"recordings: {recording.id} {problem}: save the intended audio as a file of its own")
    return str(recording.sources[0].source)


def _segment(item: "SupervisionSegment") -> str:
    return f"{item.recording_id} {format_seconds(item.start)} {format_seconds(item.end)}"


def _all_or_none(supervisions: Sequence["SupervisionSegment"], field: str) -> dict[str, str] | None:
    values = {item.id: getattr(item, field) for item in supervisions}
    lacking = [key for key, value in values.items() if not value or not value.strip()]
    if len(lacking) == len(values):
        return None
    if lacking:
        raise InputError(f"supervisions: {lacking[0]} has no {field}, but others have: drop it or add the {field}")
    return values


def _words(item: "SupervisionSegment") -> Iterable[str]:
    for word in sorted(item.alignment["word"], key=lambda word: word.start):
        start, seconds = format_seconds(max(0.0, word.start - item.start)), format_seconds(word.duration)
        score = "" if word.score is None else f" {word.score:g}"
        yield f"1 {start} {seconds} {word.symbol}{score}"


def from_data_dir(
    data: DataDir, audio: Mapping[str, Inspected] | None = None
) -> tuple["RecordingSet", "SupervisionSet"]:
    """Make manifests of a data dir.

    Args:
        data: the tables.
        audio: recording -> what is known of its file. Where this is missing, the file is opened.

    Raises:
        InputError: an audio file cannot be opened; an entry of ``wav.scp`` is a command; a segment cannot be read,
            has no recording, or ends after it.
    """
    from lhotse import RecordingSet, SupervisionSet

    audio = audio or {}
    recordings = {key: _recording(key, data.wav_scp[key], audio.get(key)) for key in sorted(data.wav_scp)}
    supervisions = [_supervision(data, utterance, recordings) for utterance in data.utterances]
    return RecordingSet.from_recordings(recordings.values()), SupervisionSet.from_segments(supervisions)


def _recording(key: str, path: str, found: Inspected | None) -> "Recording":
    from lhotse import Recording

    if is_command(path):
        raise InputError(f"wav.scp: recording {key} is a command (ending in |): write its output to an audio file")
    if found is not None:
        return make_recording(key, path, found)
    try:
        return Recording.from_file(path, recording_id=key)
    except Exception as error:  # Lhotse tries several readers and raises what the last one raised
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"wav.scp: the audio of {key}, {path}, cannot be opened ({reason}): replace it") from None


def make_recording(key: str, path: str | Path, found: Inspected) -> "Recording":
    """The manifest of an audio file that was opened before, with all its channels."""
    from lhotse import Recording
    from lhotse.audio import AudioSource

    channels = list(range(found.channels))
    return Recording(
        id=key,
        sources=[AudioSource(type="file", channels=channels, source=str(path))],
        sampling_rate=found.rate,
        num_samples=found.frames,
        duration=found.seconds,
        channel_ids=channels,
    )


def _supervision(data: DataDir, utterance: str, recordings: Mapping[str, "Recording"]) -> "SupervisionSegment":
    from lhotse import SupervisionSegment

    name, start, end = utterance, 0.0, -1.0
    try:
        if data.segments is not None:
            name, start, end = parse_segment(data.segments[utterance])
        recording = recordings[name]
    except (KeyError, ValueError):
        raise InputError(
            f"utterance {utterance} has no audio: run `espnet-ext data validate` on the data dir"
        ) from None
    if end > recording.duration + OVERHANG:
        raise InputError(
            f"segments: {utterance} ends at {end:g} s, but its recording {name} has {recording.duration:.2f} s: "
            "correct its times, or drop it"
        )
    end = recording.duration if end == -1 else min(end, recording.duration)
    channels = recording.channel_ids
    speaker = data.utt2spk[utterance]
    words = [_word(utterance, line, start) for line in (data.ctm or {}).get(utterance, ())]
    return SupervisionSegment(
        id=utterance,
        recording_id=name,
        start=start,
        duration=round(end - start, ndigits=8),
        channel=channels[0] if len(channels) == 1 else list(channels),
        text=(data.text or {}).get(utterance),
        language=(data.utt2lang or {}).get(utterance),
        speaker=speaker,
        gender=(data.spk2gender or {}).get(speaker),
        alignment={"word": words} if words else None,
    )


def _word(utterance: str, line: str, offset: float) -> "AlignmentItem":
    from lhotse.supervision import AlignmentItem

    word = ctm_word([utterance, *line.split()], f"ctm: {utterance}: `{line}`")
    seconds = round(word.end - word.start, ndigits=8)
    return AlignmentItem(word.text, round(word.start + offset, ndigits=8), seconds, word.confidence)


def read_manifests(recordings: str | Path, supervisions: str | Path) -> tuple["RecordingSet", "SupervisionSet"]:
    """Read two manifest files (``.jsonl.gz`` and Lhotse's other formats).

    Raises:
        InputError: a file is missing, empty, or not a manifest of that kind.
    """
    from lhotse import RecordingSet, SupervisionSet

    return _read(RecordingSet, recordings), _read(SupervisionSet, supervisions)


def _read(kind: Any, path: str | Path) -> Any:
    if not Path(path).is_file():
        raise InputError(f"{path}: no such manifest: check the path, or run the stage that writes it")
    try:
        manifest = kind.from_file(path).to_eager()
    except Exception as error:  # each of Lhotse's formats fails in its own way
        raise InputError(f"{path}: cannot be read as a {kind.__name__} ({error!r:.200}): prepare it again") from None
    if not len(manifest):
        raise InputError(f"{path}: an empty manifest: prepare the corpus again")
    return manifest


def write_manifests(recordings: "RecordingSet", supervisions: "SupervisionSet", folder: str | Path) -> None:
    """Write ``recordings.jsonl.gz`` and ``supervisions.jsonl.gz`` into a folder, each whole or not at all."""
    _write(recordings, Path(folder) / "recordings.jsonl.gz")
    _write(supervisions, Path(folder) / "supervisions.jsonl.gz")


def write_parts(corpus: str, manifests: Mapping[str, Manifests], folder: str | Path | None) -> None:
    """Write a corpus's manifests, each file whole or not at all, and print how much speech each part holds.

    Args:
        corpus: the beginning of the files' names, ``<corpus>_recordings_<part>.jsonl.gz`` and ``..._supervisions_...``.
        manifests: part -> its manifests.
        folder: where they go; None: nowhere.
    """
    if folder is None:
        return
    for part, sets in manifests.items():
        for kind, manifest in sets.items():
            _write(manifest, Path(folder) / f"{corpus}_{kind}_{part}.jsonl.gz")
        hours = sum(supervision.duration for supervision in sets["supervisions"]) / 3600
        print(f"{part}: {len(sets['supervisions']):,} utterances, {hours:.2f} hours")
    print(f"manifests in {folder}", flush=True)


def _write(manifest: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name.removesuffix('.jsonl.gz')}.tmp.jsonl.gz")  # the suffix names the format
    try:
        manifest.to_file(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def checked_manifests(
    recordings: Iterable["Recording"], supervisions: Iterable["SupervisionSegment"], where: str | Path
) -> Manifests:
    """The ``recordings`` and ``supervisions`` of one part, sorted by id and validated by Lhotse.

    Raises:
        InputError: Lhotse refuses them; the message begins with ``where``.
    """
    from lhotse import RecordingSet, SupervisionSet
    from lhotse.qa import validate_recordings_and_supervisions

    sets = {
        "recordings": RecordingSet.from_items(sorted(recordings, key=lambda item: item.id)),
        "supervisions": SupervisionSet.from_items(sorted(supervisions, key=lambda item: item.id)),
    }
    try:
        validate_recordings_and_supervisions(**sets)
    except AssertionError as error:
        raise InputError(f"{where}: Lhotse refuses its manifests: {error}") from error
    return sets


def data_dirs_from_manifests(
    recordings: Sequence[str | Path], supervisions: Sequence[str | Path], folders: Sequence[str | Path]
) -> None:
    """Write a checked data dir for each pair of manifest files.

    Raises:
        InputError: the numbers differ, a manifest cannot be read or made into a data dir (:func:`to_data_dir`), or a
            data dir is faulty. Its folder stays as it was.
    """
    if not len(recordings) == len(supervisions) == len(folders):
        raise InputError("give as many --recordings as --supervisions and data dirs")
    for recording_file, supervision_file, folder in zip(recordings, supervisions, folders, strict=True):
        data = to_data_dir(*read_manifests(recording_file, supervision_file))
        raise_problems(folder, validate(data, require_text=False) + check_files(data))
        write_data_dir(data, folder)
        print(f"{folder}: {len(data.utt2spk):,} utterances, {len(data.spk2utt):,} speakers")
