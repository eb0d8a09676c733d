"""LibriCSS (https://github.com/chenzhuo1011/libri_css): ten hours of LibriSpeech replayed in a meeting room.

Two things are read. ``for_release/<condition>/<session>/`` holds ``record/raw_recording.wav`` (7 channels, of which P4
uses the first) and ``transcription/meeting_info.txt``. The enrolment list ``libricss_speaker_info.jsonl`` of the
project's repository names, by session and speaker, the LibriSpeech utterances that are not played in the session
(``unused_uttid``).

``meeting_info.txt`` says who speaks. The STM references of LibriCSS have a speaker column too, but its values (A, B, C)
are tracks, on each of which no two utterances overlap. They are not persons.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import soundfile

from espnet_ext.audio.files import Inspected, inspect_audio, save_audio
from espnet_ext.corpora.faults import Faults, faults_file
from espnet_ext.corpora.manifests import Manifests, checked_manifests, make_recording, write_parts
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, format_seconds, write_data_dir
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.text.turns import Turn, write_turns
from espnet_ext.work.json_text import parse_json

SAMPLING_RATE = 16000
CHANNELS = 7
SPEAKERS = 8  # in a session
FOLDER = "for_release"
CONDITIONS = {"0S": "0S", "0L": "0L", "OV10": "10", "OV20": "20", "OV30": "30", "OV40": "40"}  # folder -> P4's Table 4
MEETING_INFO = "meeting_info.txt"
ENROLMENT_LIST = "libricss_speaker_info.jsonl"
ENROLMENT_UTTERANCES = 2  # for each speaker

_COLUMNS = ("start_time", "end_time", "speaker", "utterance_id", "transcription")
_SESSION = re.compile(r"overlap_ratio_([0-9]{1,3})\.0_sil([0-9]{1,3}\.[0-9])_[0-9.]+_(session[0-9]+)_actual[0-9.]+")
_LONG_SILENCE = 1.0  # seconds: 0L has silences of 2.9 s and more, 0S of 0.1 to 0.5 s


def prepare_libricss(
    corpus_dir: str | Path,
    output_dir: str | Path | None = None,
    *,
    enrolment_list: str | Path | None = None,
    utterances: int = ENROLMENT_UTTERANCES,
    skip_faulty: float = 0.0,
) -> Manifests:
    """Check LibriCSS and make its Lhotse manifests, for the first channel; speakers are LibriSpeech's.

    Args:
        corpus_dir: the folder ``for_release``, or the one above it.
        output_dir: Where ``libricss_recordings_all.jsonl.gz``, ``libricss_supervisions_all.jsonl.gz`` and ``segments/``
            (:func:`write_segments`) go (None: nowhere), and ``libricss_faults.txt`` with all faults, if there
            are any.
        enrolment_list: ``libricss_speaker_info.jsonl``; with it, ``segments/`` also gets each session's enrolment
            utterances and inventory (:func:`write_enrolment`).
        utterances: enrolment utterances of each speaker.
        skip_faulty: The share of each condition's sessions that may be faulty, and is then left out.

    Returns:
        ``recordings`` (``OV10_session0`` and so on) and ``supervisions``, sorted by id.

    Raises:
        InputError: a condition's folder is missing; more sessions than ``skip_faulty`` allows have a wrong name, no
            audio, audio of another rate or number of channels, a malformed ``meeting_info.txt``, or not eight speakers;
            the enrolment list is faulty.
    """
    root = find_release(corpus_dir)
    sessions = find_sessions(root)
    faults = Faults(root, faults_file(output_dir, "libricss"), skip_faulty)
    good: dict[str, dict[Path, tuple[list[Turn], Inspected]]] = {condition: {} for condition in CONDITIONS}
    for session in sessions:
        found = _read_session(session)
        if isinstance(found, str):
            faults.add(session.parent.name, session.name, found)
        else:
            good[session.parent.name][session] = found
    faults.settle({condition: len(kept) for condition, kept in good.items()})
    manifests = _manifests(root, {session: found for kept in good.values() for session, found in kept.items()})
    if output_dir is not None:
        segments = Path(output_dir) / "segments"
        enrolment = enrolment_list and read_enrolment(enrolment_list, manifests["recordings"].ids, utterances)
        write_parts("libricss", {"all": manifests}, Path(output_dir))
        write_segments(manifests, segments)
        if enrolment:
            write_enrolment(segments, enrolment)
    return manifests


def find_release(corpus_dir: str | Path) -> Path:
    """The folder ``for_release``, from that folder or the one above it; InputError if it lacks a condition."""
    root = Path(corpus_dir).resolve()
    if root.name != FOLDER:
        root /= FOLDER
    missing = [name for name in CONDITIONS if not (root / name).is_dir()]
    if missing:
        raise InputError(f"{root}: no folder {', '.join(missing)}: give the folder that holds LibriCSS's {FOLDER}")
    return root


def find_sessions(root: Path) -> list[Path]:
    """The sessions' folders, by condition and name; InputError if there is none in a condition."""
    sessions = []
    for name in CONDITIONS:
        found = sorted(path for path in (root / name).iterdir() if path.is_dir())
        if not found:
            raise InputError(f"{root / name}: there is no session in it: unpack LibriCSS again")
        sessions += found
    return sessions


def recording_of(session: str) -> str:
    """The recording id that Lhotse gives to a session.

    >>> recording_of("overlap_ratio_0.0_sil2.9_3.0_session4_actual0.0")
    '0L_session4'

    Raises:
        InputError: not the name of a session.
    """
    match = _SESSION.fullmatch(session)
    if not match:
        raise InputError(
            f"{session!r} is not the name of a session, such as overlap_ratio_10.0_sil0.1_1.0_session0_actual10.1"
        )
    ratio, silence, name = match.groups()
    condition = f"OV{ratio}" if int(ratio) else "0L" if float(silence) > _LONG_SILENCE else "0S"
    if condition not in CONDITIONS:
        raise InputError(
            f"{session!r} belongs to none of the conditions {', '.join(CONDITIONS)}: give LibriCSS's sessions"
        )
    return f"{condition}_{name}"


def condition_of(recording: str) -> str:
    """P4's name of a recording's condition: ``condition_of("OV10_session3") == "10"``."""
    return CONDITIONS[recording.split("_")[0]]


def _read_session(session: Path) -> tuple[list[Turn], Inspected] | str:
    """The utterances of a session and what is known of its audio, or its fault."""
    try:
        if not recording_of(session.name).startswith(f"{session.parent.name}_"):
            return f"session {session.name} is in {session.parent.name}"
        turns = read_meeting_info(session / "transcription" / MEETING_INFO)
    except InputError as error:
        return str(error)
    speakers = {turn.speaker for turn in turns}
    if len(speakers) != SPEAKERS:
        return f"{len(speakers)} speakers instead of {SPEAKERS} in {session}"
    audio = session / "record" / "raw_recording.wav"
    found = inspect_audio(audio, decode=False, mono=False)
    if found.fault:
        return f"no audio that can be read at {audio}"
    if (found.rate, found.channels) != (SAMPLING_RATE, CHANNELS):
        return f"{found.channels} channels at {found.rate} Hz in {audio}"
    return turns, found


def read_meeting_info(path: Path) -> list[Turn]:
    """The utterances of a session and the persons who speak them. The recording has the session's name.

    Raises:
        InputError: no such file, or a line that is not ``start end speaker utterance text``, with tabs between.
    """
    try:
        header, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError):
        raise InputError(f"{path} is missing, empty or not UTF-8") from None
    if tuple(header.split("\t")) != _COLUMNS:
        raise InputError(f"the first line of {path} is not {' '.join(_COLUMNS)}")
    turns = []
    for number, line in enumerate(lines, start=2):
        try:
            start, end, speaker, utterance, text = line.split("\t")
            turn = Turn(path.parent.parent.name, speaker, tuple(text.split()), float(start), float(end))
        except ValueError:
            raise InputError(f"line {number} of {path} is not {' '.join(_COLUMNS)}") from None
        if not turn.words or not 0 <= float(start) < float(end) < math.inf or not utterance.startswith(f"{speaker}-"):
            raise InputError(f"line {number} of {path} has no words, no length, or an utterance of another speaker")
        turns.append(turn)
    return turns


def _manifests(root: Path, sessions: Mapping[Path, tuple[list[Turn], Inspected]]) -> Manifests:
    """As Lhotse's recipe makes them for its type ``sdm``; that recipe reads all sessions, and stops at a faulty one."""
    from lhotse import SupervisionSegment
    from lhotse.utils import fastcopy

    recordings, supervisions = [], []
    for session, (turns, audio) in sessions.items():
        id = recording_of(session.name)
        whole = make_recording(id, session / "record" / "raw_recording.wav", audio)
        recordings.append(fastcopy(whole, channel_ids=[0]))
        for number, turn in enumerate(turns):
            if turn.start >= whole.duration:
                continue
            supervisions.append(
                SupervisionSegment(
                    id=f"{id}-{number}",
                    recording_id=id,
                    start=turn.start,
                    duration=min(turn.end, whole.duration) - turn.start,
                    channel=0,
                    text=" ".join(turn.words),
                    language="English",
                    speaker=turn.speaker,
                )
            )
    return checked_manifests(recordings, supervisions, root)


def speech_segments(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The speech between silences, an oracle voice activity detector (P4, 4.2). Seconds in, seconds out.

    >>> speech_segments([(5.0, 7.0), (0.0, 2.0), (1.5, 4.0), (4.0, 4.5)])
    [(0.0, 4.5), (5.0, 7.0)]
    """
    segments: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if segments and start <= segments[-1][1]:
            segments[-1] = (segments[-1][0], max(segments[-1][1], end))
        else:
            segments.append((start, end))
    return segments


def write_segments(manifests: Manifests, folder: str | Path) -> None:
    """Cut the first channel of each session at its silences, and write what recognition and scoring need.

    The folder gets ``audio/<segment>.flac``; in ``data/`` a data dir whose utterances are the segments
    (``<recording>-<number>``); ``references.json`` (SegLST, by person, times from the segment's start); ``groups``
    (segment -> condition); and ``segment_recording`` (segment -> recording, whose eight profiles it is decoded with).
    """
    folder = Path(folder).resolve()
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    turns: list[Turn] = []
    paths, seconds, recording_ids = {}, {}, {}
    for recording in manifests["recordings"]:
        spoken = [item for item in manifests["supervisions"] if item.recording_id == recording.id]
        with soundfile.SoundFile(recording.sources[0].source) as file:
            for number, (start, end) in enumerate(speech_segments((item.start, item.end) for item in spoken)):
                name = f"{recording.id}-{number:03d}"
                paths[name] = str(folder / "audio" / f"{name}.flac")
                seconds[name] = _write_segment(file, start, end, paths[name])
                recording_ids[name] = recording.id
                turns += [
                    Turn(
                        name,
                        item.speaker,
                        tuple(item.text.split()),
                        *(round(t - start, 6) for t in (item.start, item.end)),
                    )
                    for item in spoken
                    if start <= item.start < end
                ]
    durations = {name: format_seconds(value) for name, value in seconds.items()}
    data = DataDir(wav_scp=paths, utt2spk={name: name for name in paths}, utt2dur=durations, reco2dur=durations)
    write_data_dir(data, folder / "data")
    write_turns(folder / "references.json", turns)
    write_table(folder / "groups", {name: condition_of(recording) for name, recording in recording_ids.items()})
    write_table(folder / "segment_recording", recording_ids)


def _write_segment(file: soundfile.SoundFile, start: float, end: float, path: str) -> float:
    """Write the first channel from ``start`` to ``end``; returns how many seconds there were."""
    file.seek(min(round(start * SAMPLING_RATE), file.frames))
    samples = file.read(round((end - start) * SAMPLING_RATE), dtype="float32", always_2d=True)[:, 0]
    if not len(samples) or not np.isfinite(samples).all():
        raise InputError(
            f"{file.name}: no audio, or NaN or infinite samples, from {start} to {end} s: replace the file"
        )
    save_audio(path, samples, SAMPLING_RATE, subtype="PCM_16")
    return len(samples) / SAMPLING_RATE


def write_enrolment(folder: str | Path, enrolment: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Write the enrolment for the segments in ``folder`` (see :func:`write_segments`).

    The file ``enrolment`` has profile (``<recording>:<speaker>``, since each session has its own) -> utterances;
    ``inventory`` has segment -> the eight speakers to choose from, as ``<speaker>=<profile>``.
    """
    folder = Path(folder)
    profiles = {
        f"{recording}:{speaker}": " ".join(utterances)
        for recording, speakers in enrolment.items()
        for speaker, utterances in speakers.items()
    }
    entries = {
        recording: " ".join(f"{speaker}={recording}:{speaker}" for speaker in sorted(speakers))
        for recording, speakers in enrolment.items()
    }
    segments = read_table(folder / "segment_recording")
    write_table(folder / "enrolment", profiles)
    write_table(folder / "inventory", {segment: entries[recording] for segment, recording in segments.items()})


def read_enrolment(
    path: str | Path, recordings: Iterable[str], utterances: int = ENROLMENT_UTTERANCES
) -> dict[str, dict[str, Sequence[str]]]:
    """The first utterances of the enrolment list: recording -> speaker -> ids of LibriSpeech utterances.

    Raises:
        InputError: no such file, a malformed line, a recording that is not in the list, or a speaker with fewer
            utterances that are not played in the session.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError):
        raise InputError(f"{path}: no readable enrolment list: give the path of {ENROLMENT_LIST}") from None
    enrolment: dict[str, dict[str, Sequence[str]]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            record = parse_json(line)
            unused, session = dict(record["unused_uttid"]), record["dataid"]
        except (ValueError, KeyError, TypeError):
            unused, session = {}, None
        whole = all(isinstance(ids, list) and all(isinstance(key, str) for key in ids) for ids in unused.values())
        if not isinstance(session, str) or not whole:
            raise InputError(f"{path}: line {number} has no dataid and unused_uttid: download the list again")
        enrolment[recording_of(session)] = {speaker: tuple(ids[:utterances]) for speaker, ids in unused.items()}
    chosen = {}
    for recording in recordings:
        if recording not in enrolment:
            raise InputError(f"{path}: session {recording} is not in it: download the complete list")
        for speaker, ids in enrolment[recording].items():
            if len(ids) < utterances:
                raise InputError(
                    f"{path}: {recording}: {len(ids)} unused utterances of speaker {speaker}, but {utterances} are "
                    "needed: use fewer"
                )
        chosen[recording] = enrolment[recording]
    return chosen
