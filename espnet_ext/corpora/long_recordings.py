"""What the corpora of long recordings share: recordings with one transcript each, and Rev's nlp files."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import soundfile
from tqdm import tqdm

from espnet_ext.corpora.checks import how_checked, raise_faults
from espnet_ext.data.manifests import Manifests, checked_manifests
from espnet_ext.errors import InputError
from espnet_ext.longform.recording_audio import recording_fault

if TYPE_CHECKING:  # Lhotse imports torch
    from lhotse import Recording


@dataclass(frozen=True)
class Transcribed:
    """A recording on disk: its id, its audio file, and everything that is said in it."""

    id: str
    audio: Path
    text: str


def check_recordings(
    where: str | Path, recordings: Sequence[tuple[str, Path]], check_audio: str, num_jobs: int
) -> dict[str, str]:
    """Check audio files of any rate and number of channels. Returns id -> fault, for those that are faulty."""
    decode, how = how_checked(check_audio, len(recordings))
    print(f"{where}: {len(recordings):,} recordings; checking their audio ({how})", flush=True)
    with ThreadPoolExecutor(num_jobs) as pool:
        checks = pool.map(lambda item: recording_fault(*item, decode=decode), recordings)
        shown = tqdm(checks, desc="audio check", total=len(recordings), unit=" files", mininterval=5)
        return {name: fault for (name, _), fault in zip(recordings, shown, strict=True) if fault}


def manifests_of(where: str | Path, recordings: Sequence[Transcribed], check_audio: str, num_jobs: int) -> Manifests:
    """Check the recordings and make their manifests: each supervision covers its recording and has its id.

    Raises:
        InputError: No recordings, a transcript without a word, faulty audio; the first few are named.
    """
    faults = [f"{item.id}: the transcript holds no word" for item in recordings if not item.text.strip()]
    if not recordings:
        faults.append("there are no recordings")
    faults += check_recordings(where, [(item.id, item.audio) for item in recordings], check_audio, num_jobs).values()
    raise_faults(where, faults)
    return make_manifests(where, recordings)


def make_manifests(where: str | Path, recordings: Iterable[Transcribed]) -> Manifests:
    """The manifests of recordings that are known to be good."""
    from lhotse import SupervisionSegment  # Lhotse imports torch

    sounds = []
    supervisions = []
    for item in recordings:
        sound = _recording(item)
        sounds.append(sound)
        supervisions.append(
            SupervisionSegment(
                id=item.id,
                recording_id=item.id,
                start=0.0,
                duration=sound.duration,
                channel=sound.channel_ids[0] if len(sound.channel_ids) == 1 else sound.channel_ids,
                text=item.text,
                language="en",
            )
        )
    return checked_manifests(sounds, supervisions, where)


def _recording(item: Transcribed) -> "Recording":
    from lhotse import Recording
    from lhotse.audio import AudioSource

    header = soundfile.info(item.audio)
    channels = list(range(header.channels))
    return Recording(
        id=item.id,
        sources=[AudioSource(type="file", channels=channels, source=str(item.audio))],
        sampling_rate=header.samplerate,
        num_samples=header.frames,
        duration=header.frames / header.samplerate,
        channel_ids=channels,
    )


def nlp_text(path: Path) -> str:
    """The words of a file in Rev's nlp format, with the punctuation around them.

    Fields are found by the names in the file's first line (``token|speaker|ts|endTs|punctuation|case|tags``), because
    their number and order differ between Rev's corpora. Tokens such as ``<laugh>`` are left out.

    Raises:
        InputError: no such file, not UTF-8, no header with ``token``, or a line with fewer fields than that.
    """
    lines = iter([line.rstrip("\r") for line in transcript_text(path).split("\n") if line.strip()])
    fields = next(lines, "").split("|")
    if "token" not in fields:
        raise InputError(f"{path}: its first line has no field 'token': is this an nlp file?")
    places = {name: fields.index(name) for name in ("token", "punctuation", "prepunctuation") if name in fields}
    words = []
    for number, line in enumerate(lines, 2):
        values = line.split("|")
        if len(values) <= max(places.values()):
            raise InputError(f"{path}: line {number} has {len(values)} fields, its header {len(fields)}: fix it")
        token = values[places["token"]].strip()
        if token and not (token.startswith("<") and token.endswith(">")):
            marks = [values[places[name]] if name in places else "" for name in ("prepunctuation", "punctuation")]
            words.append(f"{marks[0]}{token}{marks[1]}")
    return " ".join(words)


def transcript_text(path: Path) -> str:
    """The text of a transcript file. Raises InputError if there is no such file, or it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such transcript, but there is audio or an entry in the list for it") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text: convert it") from None


def listed(path: Path, column: str, corpus: str, delimiter: str = ",") -> list[str]:
    """The values in one column of a corpus's list, in its order; rows that end before it are left out.

    Raises:
        InputError: The file is no table, or has no such column.
    """
    csv.field_size_limit(1 << 24)  # some lists have long descriptions
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter=delimiter)
            if column not in (rows.fieldnames or ()):
                raise InputError(f"{path}: it has no column {column!r}: is this {corpus}?")
            return [row[column].strip() for row in rows if row[column] and row[column].strip()]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: no table in UTF-8 ({error}): download it again") from None


def paired(audio: Mapping[str, Path], transcripts: Mapping[str, Path], texts: Mapping[str, str]) -> list[Transcribed]:
    """Recordings by id, sorted: each has audio, a transcript file and that file's text.

    Raises:
        InputError: audio without a transcript, or the reverse; the first few are named.
    """
    faults = [f"no transcript of {id} ({path})" for id, path in sorted(audio.items()) if id not in transcripts]
    faults += [f"no audio of {id} ({path})" for id, path in sorted(transcripts.items()) if id not in audio]
    raise_faults("recordings and transcripts do not match", faults)
    return [Transcribed(id, audio[id], texts[id]) for id in sorted(audio)]
