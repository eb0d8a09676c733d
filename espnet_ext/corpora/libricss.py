"""LibriCSS (https://github.com/chenzhuo1011/libri_css): ten hours of LibriSpeech
replayed in a meeting room.

P4 uses the first of seven channels. ``meeting_info.txt`` says who speaks: speakers of
the STM references are tracks.
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

SAMPLING_RATE = 16000
CHANNELS = 7
SPEAKERS = 8  # in a session
FOLDER = "for_release"
CONDITIONS = {
    "0S": "0S",
    "0L": "0L",
    "OV10": "10",
    "OV20": "20",
    "OV30": "30",
    "OV40": "40",
}  # folder -> P4's Table 4
MEETING_INFO = "meeting_info.txt"
ENROLMENT_LIST = "libricss_speaker_info.jsonl"
ENROLMENT_UTTERANCES = 2  # for each speaker

_COLUMNS = ("start_time", "end_time", "speaker", "utterance_id", "transcription")
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
    """Check LibriCSS, and write the first channel of its sessions, cut at silences;
    speakers are LibriSpeech's.

    The output gets ``segments/`` (:func:`write_segments`) and, with
    ``libricss_speaker_info.jsonl`` as ``enrolment_list``, each session's enrolment and
    inventory (:func:`write_enrolment`). ``skip_faulty`` is the share of each
    condition's sessions. Returns the utterances of each recording (``OV10_session0``
    and so on).
    """
    root, output = find_release(corpus_dir), Path(output_dir)
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
                turns[recording_of(session.name)] = _read_session(session)
                audio[recording_of(session.name)] = _audio(session)
            except InputError as error:
                faults.add(condition, session.name, str(error))
    faults.settle(Counter(recording.split("_")[0] for recording in turns))
    turns = dict(sorted(turns.items()))
    enrolment = enrolment_list and read_enrolment(enrolment_list, turns)
    write_segments(audio, turns, output / "segments")
    if enrolment:
        write_enrolment(output / "segments", enrolment)
    return turns


def find_release(corpus_dir: str | Path) -> Path:
    """Return the folder ``for_release``, from that folder or the one above it;
    InputError if it lacks a condition.
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


def recording_of(session: str) -> str:
    """Return the recording id that Lhotse gives to a session.

    >>> recording_of("overlap_ratio_0.0_sil2.9_3.0_session4_actual0.0")
    '0L_session4'
    """
    if match := _SESSION.fullmatch(session):
        ratio, silence, name = match.groups()
        condition = (
            f"OV{ratio}"
            if int(ratio)
            else "0L"
            if float(silence) > _LONG_SILENCE
            else "0S"
        )
        if condition in CONDITIONS:
            return f"{condition}_{name}"
    example = "overlap_ratio_10.0_sil0.1_1.0_session0_actual10.1"
    raise InputError(
        f"{session!r} is not the name of a session of LibriCSS, such as {example}"
    )


def _audio(session: Path) -> Path:
    return session / "record" / "raw_recording.wav"


def _read_session(session: Path) -> list[Segment]:
    """Read the utterances of a session, which end with its audio at the latest."""
    recording = recording_of(session.name)
    if not recording.startswith(f"{session.parent.name}_"):
        raise InputError(f"session {session.name} is in {session.parent.name}")
    turns = read_meeting_info(session / "transcription" / MEETING_INFO)
    speakers = {turn.speaker for turn in turns}
    if len(speakers) != SPEAKERS:
        raise InputError(f"{len(speakers)} speakers instead of {SPEAKERS} in {session}")
    found = inspect_audio(_audio(session), decode=False, mono=False)
    if found.fault:
        raise InputError(f"no audio that can be read at {_audio(session)}")
    if (found.rate, found.channels) != (SAMPLING_RATE, CHANNELS):
        raise InputError(
            f"{found.channels} channels at {found.rate} Hz in {_audio(session)}"
        )
    return [
        replace(
            turn, recording=recording, end=round(min(turn.span[1], found.seconds), 8)
        )
        for turn in turns
        if turn.span[0] < found.seconds
    ]


def read_meeting_info(path: Path) -> list[Segment]:
    """Read the utterances of a session and the persons who speak them. The recording
    has the session's name.
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
        if (
            not turn.words
            or not 0 <= float(start) < float(end) < math.inf
            or not utterance.startswith(f"{speaker}-")
        ):
            raise InputError(
                f"line {number} of {path} has no words, no length, or an "
                "utterance of another speaker"
            )
        turns.append(turn)
    return turns


def speech_segments(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Find the speech between silences, an oracle voice activity detector (P4, 4.2).
    Seconds in, seconds out.

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


def write_segments(
    audio: Mapping[str, Path],
    spoken: Mapping[str, Sequence[Segment]],
    folder: str | Path,
) -> None:
    """Cut the first channel of each session at its silences, and write what recognition
    and scoring need.

    The folder gets ``audio/<segment>.flac``; in ``data/`` a data dir whose utterances
    are the segments (``<recording>-<number>``); ``references.json`` (SegLST, by person,
    times from the segment's start); ``groups`` (segment -> condition); and
    ``segment_recording`` (segment -> recording, whose eight profiles it is decoded
    with).
    """
    folder = Path(folder).resolve()
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    turns: list[Segment] = []
    paths, seconds, recordings = {}, {}, {}
    for recording, own in spoken.items():
        with soundfile.SoundFile(audio[recording]) as file:
            for number, (start, end) in enumerate(
                speech_segments(turn.span for turn in own)
            ):
                name = f"{recording}-{number:03d}"
                paths[name] = str(folder / "audio" / f"{name}.flac")
                seconds[name] = _write_segment(file, start, end, paths[name])
                recordings[name] = recording
                turns += [
                    replace(
                        turn,
                        recording=name,
                        start=round(turn.span[0] - start, 6),
                        end=round(turn.span[1] - start, 6),
                    )
                    for turn in own
                    if start <= turn.span[0] < end
                ]
    durations = {name: format_seconds(value) for name, value in seconds.items()}
    data = DataDir(
        wav_scp=paths,
        utt2spk={name: name for name in paths},
        utt2dur=durations,
        reco2dur=durations,
    )
    write_data_dir(data, folder / "data")
    writing.write_segments(folder / "references.json", turns)
    write_table(
        folder / "groups",
        {
            name: CONDITIONS[recording.split("_")[0]]
            for name, recording in recordings.items()
        },
    )
    write_table(folder / "segment_recording", recordings)


def _write_segment(
    file: soundfile.SoundFile, start: float, end: float, path: str
) -> float:
    """Write the first channel from ``start`` to ``end``; returns how many seconds there
    were.
    """
    file.seek(min(round(start * SAMPLING_RATE), file.frames))
    samples = file.read(
        round((end - start) * SAMPLING_RATE), dtype="float32", always_2d=True
    )[:, 0]
    if not len(samples) or not np.isfinite(samples).all():
        raise InputError(
            f"{file.name}: no samples, or NaN or infinite ones, from {start} to "
            f"{end} s: replace the file"
        )
    save_audio(path, samples, SAMPLING_RATE, subtype="PCM_16")
    return len(samples) / SAMPLING_RATE


def write_enrolment(
    folder: Path, enrolment: Mapping[str, Mapping[str, Sequence[str]]]
) -> None:
    """Write the enrolment for the segments in ``folder`` (see :func:`write_segments`).

    The file ``enrolment`` has profile (``<recording>:<speaker>``, since each session
    has its own) -> utterances; ``inventory`` has segment -> the eight speakers to
    choose from, as ``<speaker>=<profile>``.
    """
    profiles: dict[str, str] = {}
    entries: dict[str, str] = {}
    for recording, speakers in enrolment.items():
        profiles |= {
            f"{recording}:{speaker}": " ".join(utterances)
            for speaker, utterances in speakers.items()
        }
        entries[recording] = " ".join(
            f"{speaker}={recording}:{speaker}" for speaker in sorted(speakers)
        )
    segments = read_table(folder / "segment_recording")
    write_table(folder / "enrolment", profiles)
    write_table(
        folder / "inventory",
        {segment: entries[recording] for segment, recording in segments.items()},
    )


def read_enrolment(
    path: str | Path, recordings: Iterable[str]
) -> dict[str, dict[str, Sequence[str]]]:
    """Read the first utterances of the enrolment list: recording -> speaker -> ids of
    LibriSpeech utterances.
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
        listed[recording_of(entry["dataid"])] = entry["unused_uttid"]
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
        chosen[recording] = {
            key: tuple(ids[:ENROLMENT_UTTERANCES])
            for key, ids in listed[recording].items()
        }
    return chosen
