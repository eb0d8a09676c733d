"""Multi-talker mixtures on disk: audio, Lhotse manifests, a data dir for training, and references by speaker.

What stands in the folder of a set: ``audio/<mixture>.flac``; ``recordings.jsonl.gz`` and ``supervisions.jsonl.gz`` (one
supervision an utterance, with its speaker); ``references.json`` (SegLST); and a data dir whose utterances are the
mixtures: ``wav.scp``, ``text`` (serialised, with ``<sc>``), ``text_speakers`` (the speaker of each stretch of
``text``), ``utt2spk`` (each mixture its own speaker), ``utt2dur``; ``mixed_utterances``: the ids of what was mixed.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from espnet_ext.data.audio_files import save_audio
from espnet_ext.data.data_dir import DataDir, format_seconds, write_tables
from espnet_ext.data.kaldi import read_table, write_table
from espnet_ext.data.utterance_audio import AudioSpan, read_samples
from espnet_ext.errors import InputError
from espnet_ext.multitalker.mixture_plan import Mixture, Source, serialise
from espnet_ext.multitalker.turns import write_turns
from espnet_ext.work.parallel import map_shards

SAMPLING_RATE = 16000
_PEAK = 0.99
_SHORTER_SECONDS = 0.01  # that a file may be shorter than its manifest says
_SHARD = 50  # mixtures


@dataclass(frozen=True)
class MixtureShard:
    """Mixtures that one worker writes."""

    name: str
    mixtures: tuple[Mixture, ...]
    folder: str


def read_sources(
    recordings: str | Path, supervisions: str | Path, left_out: Collection[str] = frozenset()
) -> list[Source]:
    """The utterances of Lhotse manifests, one audio file each, but for those that are to be left out.

    Raises:
        InputError: manifests that cannot be read, or an utterance that is only a part of its audio file.
    """
    from espnet_ext.data.manifests import read_manifests, to_data_dir  # Lhotse imports torch

    data = to_data_dir(*read_manifests(recordings, supervisions))
    if data.segments is not None or data.text is None:
        raise InputError(f"{supervisions}: mixtures need one audio file an utterance, and its text: cut them first")
    return [
        Source(key, data.utt2spk[key], data.wav_scp[key], float(data.utt2dur[key]), tuple(data.text[key].split()))
        for key in data.utterances
        if key not in left_out
    ]


def enrolment_utterances(path: str | Path) -> frozenset[str]:
    """The utterances in a table of speakers and the utterances that they are enrolled with."""
    return frozenset(utterance for row in read_table(path).values() for utterance in row.split())


def mix(mixture: Mixture) -> np.ndarray:
    """Add up a mixture's utterances at their own levels: float32 in -1 .. 1, (samples,), 16 kHz.

    Only where the sum would overload, the whole is turned down.

    Raises:
        InputError: an audio file that cannot be read, or one that ends before the plan says.
    """
    total = np.zeros(round(mixture.seconds * SAMPLING_RATE), dtype=np.float32)
    for part in mixture.parts:
        samples = read_samples(part.source.id, AudioSpan(part.source.path), SAMPLING_RATE)
        lacking = part.source.seconds - len(samples) / SAMPLING_RATE
        if lacking > _SHORTER_SECONDS:
            raise InputError(
                f"{part.source.path}: mixture {mixture.name} is longer than its parts: utterance {part.source.id} has "
                f"{len(samples) / SAMPLING_RATE:.2f} s, not {part.source.seconds:.2f} s: prepare the corpus again"
            )
        start = round(part.start * SAMPLING_RATE)
        samples = samples[: len(total) - start]
        total[start : start + len(samples)] += samples
    peak = float(np.abs(total).max())
    return total * (_PEAK / peak) if peak > _PEAK else total


def write_shard(shard: MixtureShard) -> int:
    """Write the audio of a shard's mixtures. Returns their number."""
    for mixture in shard.mixtures:
        save_audio(_audio_path(shard.folder, mixture), mix(mixture), SAMPLING_RATE, subtype="PCM_16")
    return len(shard.mixtures)


def _audio_path(folder: str | Path, mixture: Mixture) -> str:
    return str(Path(folder) / "audio" / f"{mixture.name}.flac")


def write_mixtures(mixtures: Sequence[Mixture], folder: str | Path, *, nj: int = 1) -> None:
    """Write a set of mixtures into a folder (see this module's description); the tables last.

    Raises:
        InputError: as :func:`mix`.
    """
    folder = Path(folder).resolve()
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    shards = [
        MixtureShard(mixtures[start].name, tuple(mixtures[start : start + _SHARD]), str(folder))
        for start in range(0, len(mixtures), _SHARD)
    ]
    map_shards(write_shard, shards, nj=nj, describe="mixtures")
    _write_manifests(mixtures, folder)
    text = write_references(mixtures, folder)
    seconds = {mixture.name: format_seconds(mixture.seconds) for mixture in mixtures}
    data = DataDir(
        wav_scp={mixture.name: _audio_path(folder, mixture) for mixture in mixtures},
        utt2spk={mixture.name: mixture.name for mixture in mixtures},
        text=text,
        utt2dur=seconds,
        reco2dur=seconds,
    )
    write_tables(data, folder)


def write_references(mixtures: Sequence[Mixture], folder: str | Path) -> dict[str, str]:
    """Write what of a set needs no audio: its references and tables of text, ``text`` last.

    Returns:
        The serialised text of each mixture.
    """
    folder = Path(folder)
    write_turns(folder / "references.json", [turn for mixture in mixtures for turn in mixture.turns])
    serialised = {mixture.name: serialise(mixture.turns) for mixture in mixtures}
    write_table(folder / "text_speakers", {name: " ".join(speakers) for name, (_, speakers) in serialised.items()})
    write_table(
        folder / "mixed_utterances",
        {mixture.name: " ".join(part.source.id for part in mixture.parts) for mixture in mixtures},
    )
    text = {name: text for name, (text, _) in serialised.items()}
    write_table(folder / "text", text)
    return text


def _write_manifests(mixtures: Sequence[Mixture], folder: Path) -> None:
    from lhotse import Recording, RecordingSet, SupervisionSegment, SupervisionSet  # imports torch

    from espnet_ext.data.manifests import write_manifests

    recordings = [Recording.from_file(_audio_path(folder, mixture), recording_id=mixture.name) for mixture in mixtures]
    supervisions = [
        SupervisionSegment(
            id=f"{mixture.name}-{number}",
            recording_id=mixture.name,
            start=part.start,
            duration=round(part.source.seconds, 8),
            text=" ".join(part.source.words),
            speaker=part.source.speaker,
            custom={"utterance": part.source.id},
        )
        for mixture in mixtures
        for number, part in enumerate(mixture.parts)
    ]
    write_manifests(RecordingSet.from_recordings(recordings), SupervisionSet.from_segments(supervisions), folder)
