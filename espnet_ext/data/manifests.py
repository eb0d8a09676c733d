"""Lhotse manifests to Kaldi data dirs and back. The one module of the data commands that imports Lhotse (and so torch).

``lhotse.kaldi.export_to_kaldi`` is not used: it writes a pipe through ffmpeg into ``wav.scp`` for flac, which ESPnet
reads well by its path, and it has no place for word times.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from lhotse import Recording, RecordingSet, SupervisionSegment, SupervisionSet
from lhotse.supervision import AlignmentItem

from espnet_ext.data.data_dir import DataDir, format_seconds, parse_segment
from espnet_ext.data.data_dir_checks import is_command
from espnet_ext.errors import InputError

# Supervisions that end this close to the recording's end cover it: durations are often rounded to milliseconds.
WHOLE_SECONDS = 0.002


def to_data_dir(recordings: Iterable[Recording], supervisions: Iterable[SupervisionSegment]) -> DataDir:
    """Make a data dir of the supervisions and the recordings that they use.

    ``wav.scp`` holds the plain paths. ``segments`` is there only if some supervision does not cover its recording;
    otherwise each recording takes its supervision's id. A supervision without a speaker is its own speaker, as is the
    custom in Kaldi. ``text``, ``utt2lang`` and ``ctm`` (from alignments of type ``word``, relative to the start of the
    utterance) are there if the supervisions have them.

    Raises:
        InputError: no supervisions; an id that comes twice; a supervision without its recording; some supervisions
            have a text or a language and others do not; audio that is no single file on disk, that is changed on the
            fly (such as a speed perturbation), or of which only some channels are meant.
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


def _unique(supervisions: Iterable[SupervisionSegment], recordings: dict[str, Recording]) -> list[SupervisionSegment]:
    used: dict[str, SupervisionSegment] = {}
    for item in supervisions:
        if item.id in used:
            raise InputError(f"supervisions: {item.id} comes twice: keep one of them")
        if item.recording_id not in recordings:
            raise InputError(f"supervisions: {item.id} is of recording {item.recording_id}, which is not there: add it")
        used[item.id] = item
    if not used:
        raise InputError("supervisions: there are none: prepare the corpus again")
    return list(used.values())


def _cover(supervisions: Sequence[SupervisionSegment], recordings: dict[str, Recording]) -> bool:
    if len({item.recording_id for item in supervisions}) < len(supervisions):
        return False
    return all(
        item.start <= WHOLE_SECONDS and item.end >= recordings[item.recording_id].duration - WHOLE_SECONDS
        for item in supervisions
    )


def _path(recording: Recording, item: SupervisionSegment) -> str:
    problem = ""
    if len(recording.sources) != 1 or recording.sources[0].type != "file":
        problem = "is not one audio file on disk"
    elif recording.transforms:
        problem = "is changed on the fly, which a path cannot say"
    elif set(item.channel if isinstance(item.channel, list) else [item.channel]) != set(recording.channel_ids):
        problem = f"has channels other than those of supervision {item.id}"
    if problem:
        raise InputError(f"recordings: {recording.id} {problem}: save what is meant as an audio file of its own")
    return str(recording.sources[0].source)


def _segment(item: SupervisionSegment) -> str:
    return f"{item.recording_id} {format_seconds(item.start)} {format_seconds(item.end)}"


def _all_or_none(supervisions: Sequence[SupervisionSegment], field: str) -> dict[str, str] | None:
    values = {item.id: getattr(item, field) for item in supervisions}
    lacking = [key for key, value in values.items() if not value or not value.strip()]
    if len(lacking) == len(values):
        return None
    if lacking:
        raise InputError(f"supervisions: {lacking[0]} has no {field}, but others have: drop it or add the {field}")
    return values


def _words(item: SupervisionSegment) -> Iterable[str]:
    for word in sorted(item.alignment["word"], key=lambda word: word.start):
        start, seconds = format_seconds(word.start - item.start), format_seconds(word.duration)
        score = "" if word.score is None else f" {word.score:g}"
        yield f"1 {start} {seconds} {word.symbol}{score}"


def from_data_dir(data: DataDir) -> tuple[RecordingSet, SupervisionSet]:
    """Make manifests of a data dir. Rates, lengths and channels are read from the headers of the audio files.

    Raises:
        InputError: an audio file cannot be opened; an entry of ``wav.scp`` is a command; a segment cannot be read or
            has no recording.
    """
    recordings = {key: _recording(key, data.wav_scp[key]) for key in sorted(data.wav_scp)}
    supervisions = [_supervision(data, utterance, recordings) for utterance in data.utterances]
    return RecordingSet.from_recordings(recordings.values()), SupervisionSet.from_segments(supervisions)


def _recording(key: str, path: str) -> Recording:
    if is_command(path):
        raise InputError(f"wav.scp: recording {key} is a command (ending in |): write its output to an audio file")
    try:
        return Recording.from_file(path, recording_id=key)
    except Exception as error:  # Lhotse tries several readers and raises what the last one raised
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"wav.scp: the audio of {key}, {path}, cannot be opened ({reason}): replace it") from None


def _supervision(data: DataDir, utterance: str, recordings: dict[str, Recording]) -> SupervisionSegment:
    name, start, end = utterance, 0.0, -1.0
    try:
        if data.segments is not None:
            name, start, end = parse_segment(data.segments[utterance])
        recording = recordings[name]
    except (KeyError, ValueError):
        raise InputError(f"utterance {utterance} has no audio: run `data_dir validate` on the data dir") from None
    end = recording.duration if end == -1 else min(end, recording.duration)
    channels = recording.channel_ids
    speaker = data.utt2spk[utterance]
    words = [_word(line, start) for line in (data.ctm or {}).get(utterance, ())]
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


def _word(line: str, offset: float) -> AlignmentItem:
    _, start, seconds, symbol, *score = line.split()
    return AlignmentItem(
        symbol, round(float(start) + offset, ndigits=8), float(seconds), float(score[0]) if score else None
    )


def read_manifests(recordings: str | Path, supervisions: str | Path) -> tuple[RecordingSet, SupervisionSet]:
    """Read two manifest files (``.jsonl.gz`` and Lhotse's other formats).

    Raises:
        InputError: a file is missing, empty, or not such a manifest.
    """
    return _read(RecordingSet, recordings), _read(SupervisionSet, supervisions)


def _read(kind: type, path: str | Path) -> RecordingSet | SupervisionSet:
    if not Path(path).is_file():
        raise InputError(f"{path}: no such manifest: check the path, or run the stage that writes it")
    try:
        manifest = kind.from_file(path).to_eager()
    except Exception as error:  # each of Lhotse's formats fails in its own way
        raise InputError(f"{path}: cannot be read as a {kind.__name__} ({error!r:.200}): prepare it again") from None
    if not len(manifest):
        raise InputError(f"{path}: an empty manifest: prepare the corpus again")
    return manifest


def write_manifests(recordings: RecordingSet, supervisions: SupervisionSet, folder: str | Path) -> None:
    """Write ``recordings.jsonl.gz`` and ``supervisions.jsonl.gz`` into a folder, each whole or not at all."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for manifest, name in ((recordings, "recordings"), (supervisions, "supervisions")):
        temporary = folder / f".{name}.tmp.jsonl.gz"  # Lhotse takes the format from the suffix
        manifest.to_file(temporary)
        os.replace(temporary, folder / f"{name}.jsonl.gz")
