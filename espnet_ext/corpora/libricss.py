"""Prepare LibriCSS, sessions in a meeting room.

It is at https://github.com/chenzhuo1011/libri_css. They are ten hours of LibriSpeech,
replayed. P4 uses the first of seven channels. ``meeting_info.txt`` says who speaks:
speakers of the STM references are tracks.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import soundfile
from pydantic import TypeAdapter, ValidationError

from espnet_ext.audio.files import inspect_audio, save_audio
from espnet_ext.corpora.checks import Faults, Options
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, format_seconds, write_data_dir
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.text import writing
from espnet_ext.text.words import Segment

SAMPLING_RATE = 16000  # Hz
CHANNELS = 7
SPEAKERS = 8  # in a session
FOLDER = "for_release"
# Folder -> its name in P4's Table 4.
CONDITIONS = {
    "0S": "0S",
    "0L": "0L",
    "OV10": "10",
    "OV20": "20",
    "OV30": "30",
    "OV40": "40",
}
MEETING_INFO = "meeting_info.txt"
ENROLMENT_LIST = "libricss_speaker_info.jsonl"
ENROLMENT_UTTERANCES = 2  # for each speaker

_COLUMNS = ("start_time", "end_time", "speaker", "utterance_id", "transcription")
# Such as overlap_ratio_10.0_sil0.1_1.0_session0_actual10.1.
_SESSION = re.compile(
    r"overlap_ratio_([0-9]{1,3})\.0_sil([0-9]{1,3}\.[0-9])_[0-9.]+_(session[0-9]+)_actual[0-9.]+"
)
_LONG_SILENCE = 1.0  # seconds: 0L has silences of 2.9 s and more, 0S of 0.1 to 0.5 s


class _Listed(TypedDict):
    dataid: str
    unused_uttid: dict[str, list[str]]


def prepare_libricss(
    corpus_dir: str | Path,
    output_dir: str | Path,
    *,
    enrolment_list: str | Path | None = None,
    **options: Any,
) -> dict[str, list[Segment]]:
    """Check LibriCSS, and write the first channel of its sessions, cut at silences.

    Speakers are LibriSpeech's. The output gets ``segments/`` (:func:`write_segments`)
    and, with ``libricss_speaker_info.jsonl`` as ``enrolment_list``, each session's
    enrolment and inventory (:func:`write_enrolment`). ``skip_faulty`` is the share of
    each condition's sessions. Returns the utterances of each recording
    (``OV10_session0`` and so on).
    """
    root = find_release(corpus_dir)
    output = Path(output_dir)
    faults = Faults(root, output / "libricss_faults.txt", Options(**options))
    audio: dict[str, Path] = {}
    turns: dict[str, list[Segment]] = {}
    for condition in CONDITIONS:
        sessions = sorted((root / condition).glob("*/"))
        if not sessions:
            faults.add(
                condition,
                condition,
                f"there is no session in {root / condition}: unpack LibriCSS again",
            )
        for session in sessions:
            try:
                recording = name_recording(session.name)
                turns[recording] = _read_session(session)
                audio[recording] = _find_audio(session)
            except InputError as error:
                faults.add(condition, session.name, str(error))
    faults.settle(Counter(recording.split("_")[0] for recording in turns))
    turns = dict(sorted(turns.items()))
    # Read before anything is written, since it may be refused.
    enrolment = enrolment_list and read_enrolment(enrolment_list, turns)
    write_segments(audio, turns, output / "segments")
    if enrolment:
        write_enrolment(output / "segments", enrolment)
    return turns


def find_release(corpus_dir: str | Path) -> Path:
    """Return the folder ``for_release``, from that folder or the one above it.

    Raises InputError: it lacks a condition.
    """
    root = Path(corpus_dir).resolve()
    if root.name != FOLDER:
        root /= FOLDER
    missing = [name for name in CONDITIONS if not (root / name).is_dir()]
    if missing:
        raise InputError(
            f"{root}: no folder {', '.join(missing)}: give the folder that holds "
            f"LibriCSS's {FOLDER}"
        )
    return root


def name_recording(session: str) -> str:
    """Return the recording id that Lhotse gives to a session.

    >>> name_recording("overlap_ratio_0.0_sil2.9_3.0_session4_actual0.0")
    '0L_session4'
    """
    match = _SESSION.fullmatch(session)
    if match:
        ratio, silence, name = match.groups()
        condition = f"OV{ratio}"
        if int(ratio) == 0:
            condition = "0L" if float(silence) > _LONG_SILENCE else "0S"
        if condition in CONDITIONS:
            return f"{condition}_{name}"
    example = "overlap_ratio_10.0_sil0.1_1.0_session0_actual10.1"
    raise InputError(
        f"{session!r} is not the name of a session of LibriCSS, such as {example}"
    )


def _find_audio(session: Path) -> Path:
    return session / "record" / "raw_recording.wav"


def _read_session(session: Path) -> list[Segment]:
    """Read the utterances of a session, which end with its audio at the latest."""
    recording = name_recording(session.name)
    if not recording.startswith(f"{session.parent.name}_"):
        raise InputError(f"session {session.name} is in {session.parent.name}")
    turns = read_meeting_info(session / "transcription" / MEETING_INFO)
    speakers = {turn.speaker for turn in turns}
    if len(speakers) != SPEAKERS:
        raise InputError(f"{len(speakers)} speakers instead of {SPEAKERS} in {session}")
    found = inspect_audio(_find_audio(session), decode=False, mono=False)
    if found.fault:
        raise InputError(f"no audio that can be read at {_find_audio(session)}")
    if (found.rate, found.channels) != (SAMPLING_RATE, CHANNELS):
        raise InputError(
            f"{found.channels} channels at {found.rate} Hz in {_find_audio(session)}"
        )
    # What begins after the audio's end was not recorded.
    within = []
    for turn in turns:
        start, end = turn.span
        if start < found.seconds:
            end = round(min(end, found.seconds), 8)
            within.append(replace(turn, recording=recording, end=end))
    return within


def read_meeting_info(path: Path) -> list[Segment]:
    """Read the utterances of a session and the persons who speak them.

    The recording has the session's name.
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
            turn = Segment(
                path.parent.parent.name,
                speaker,
                tuple(text.split()),
                float(start),
                float(end),
            )
        except ValueError:
            raise InputError(
                f"line {number} of {path} is not {' '.join(_COLUMNS)}"
            ) from None
        has_length = 0 <= float(start) < float(end) < math.inf
        is_speakers = utterance.startswith(f"{speaker}-")
        if not (turn.words and has_length and is_speakers):
            raise InputError(
                f"line {number} of {path} has no words, no length, or an "
                "utterance of another speaker"
            )
        turns.append(turn)
    return turns


def find_speech_segments(
    spans: Iterable[tuple[float, float]],
) -> list[tuple[float, float]]:
    """Find the speech between silences, in seconds: an oracle voice detector (P4, 4.2).

    >>> find_speech_segments([(5.0, 7.0), (0.0, 2.0), (1.5, 4.0), (4.0, 4.5)])
    [(0.0, 4.5), (5.0, 7.0)]
    """
    segments: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        # Sorted by starts, so that only the last one can go on.
        if segments and start <= segments[-1][1]:
            before, until = segments.pop()
            segments.append((before, max(until, end)))
        else:
            segments.append((start, end))
    return segments


def write_segments(
    audio: Mapping[str, Path],
    spoken: Mapping[str, Sequence[Segment]],
    folder: str | Path,
) -> None:
    """Cut sessions at their silences, and write what recognition and scoring need.

    Only the first channel is written.
    The folder gets ``audio/<segment>.flac``; in ``data/`` a data dir whose utterances
    are the segments (``<recording>-<number>``); ``references.json`` (SegLST, by person,
    times from the segment's start); ``groups`` (segment -> condition); and
    ``segment_recording`` (segment -> recording, whose eight profiles it is decoded
    with).
    """
    folder = Path(folder).resolve()
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    turns: list[Segment] = []
    paths = {}
    seconds = {}
    recordings = {}
    for recording, own in spoken.items():
        # A session has seven channels of ten minutes: segments are read one by one.
        with soundfile.SoundFile(audio[recording]) as file:
            spans = find_speech_segments(turn.span for turn in own)
            for number, (start, end) in enumerate(spans):
                name = f"{recording}-{number:03d}"
                paths[name] = str(folder / "audio" / f"{name}.flac")
                seconds[name] = _write_segment(file, start, end, paths[name])
                recordings[name] = recording
                # A turn lies in one segment, as there is no silence within a turn.
                inside = [turn for turn in own if start <= turn.span[0] < end]
                turns += [_move_turn(turn, name, start) for turn in inside]
    durations = {name: format_seconds(value) for name, value in seconds.items()}
    # A segment has several speakers, and Kaldi demands one of each utterance: itself.
    data = DataDir(
        wav_scp=paths,
        utt2spk={name: name for name in paths},
        utt2dur=durations,
        reco2dur=durations,
    )
    write_data_dir(data, folder / "data")
    writing.write_segments(folder / "references.json", turns)
    groups = {}
    for name, recording in recordings.items():
        condition = recording.split("_")[0]
        groups[name] = CONDITIONS[condition]
    write_table(folder / "groups", groups)
    write_table(folder / "segment_recording", recordings)


def _move_turn(turn: Segment, name: str, start: float) -> Segment:
    """Make a turn one of a segment that begins at ``start``, in seconds."""
    begin, end = turn.span
    # Rounded to what the file has: a difference has other last digits.
    return replace(
        turn,
        recording=name,
        start=round(begin - start, 6),
        end=round(end - start, 6),
    )


def _write_segment(
    file: soundfile.SoundFile,
    start: float,
    end: float,
    path: str,
) -> float:
    """Write the first channel from ``start`` to ``end``, in seconds.

    Returns how many seconds there were.
    """
    # soundfile refuses to seek beyond the end; that there is nothing is said below.
    file.seek(min(round(start * SAMPLING_RATE), file.frames))
    count = round((end - start) * SAMPLING_RATE)
    samples = file.read(count, dtype="float32", always_2d=True)[:, 0]
    if not len(samples) or not np.isfinite(samples).all():
        raise InputError(
            f"{file.name}: no samples, or NaN or infinite ones, from {start} to "
            f"{end} s: replace the file"
        )
    save_audio(path, samples, SAMPLING_RATE, subtype="PCM_16")
    return len(samples) / SAMPLING_RATE


def write_enrolment(
    folder: Path,
    enrolment: Mapping[str, Mapping[str, Sequence[str]]],
) -> None:
    """Write the enrolment for the segments in ``folder`` (see :func:`write_segments`).

    The file ``enrolment`` has profile (``<recording>:<speaker>``, since each session
    has its own) -> utterances; ``inventory`` has segment -> the eight speakers to
    choose from, as ``<speaker>=<profile>``.
    """
    profiles: dict[str, str] = {}
    entries: dict[str, str] = {}
    for recording, speakers in enrolment.items():
        for speaker, utterances in speakers.items():
            profiles[f"{recording}:{speaker}"] = " ".join(utterances)
        entries[recording] = " ".join(
            f"{speaker}={recording}:{speaker}" for speaker in sorted(speakers)
        )
    segments = read_table(folder / "segment_recording")
    write_table(folder / "enrolment", profiles)
    inventory = {}
    for segment, recording in segments.items():
        inventory[segment] = entries[recording]
    write_table(folder / "inventory", inventory)


def read_enrolment(
    path: str | Path,
    recordings: Iterable[str],
) -> dict[str, dict[str, Sequence[str]]]:
    """Read the first utterances of each speaker from the enrolment list.

    Returns recording -> speaker -> ids of LibriSpeech utterances.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError):
        raise InputError(
            f"{path}: no readable enrolment list: give the path of {ENROLMENT_LIST}"
        ) from None
    listed: dict[str, Mapping[str, Sequence[str]]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = TypeAdapter(_Listed).validate_json(line)
        except ValidationError:
            raise InputError(
                f"{path}: line {number} has no dataid and unused_uttid: download "
                "the list again"
            ) from None
        listed[name_recording(entry["dataid"])] = entry["unused_uttid"]
    chosen: dict[str, dict[str, Sequence[str]]] = {}
    for recording in recordings:
        if recording not in listed:
            raise InputError(
                f"{path}: session {recording} is not in it: download the complete list"
            )
        for speaker, ids in listed[recording].items():
            if len(ids) < ENROLMENT_UTTERANCES:
                few = (
                    f"{len(ids)} unused utterances of speaker {speaker}, but "
                    f"{ENROLMENT_UTTERANCES} are needed"
                )
                raise InputError(f"{path}: {recording}: {few}: download the list again")
        chosen[recording] = {}
        for speaker, ids in listed[recording].items():
            chosen[recording][speaker] = tuple(ids[:ENROLMENT_UTTERANCES])
    return chosen
