"""Mean and deviation of each recording's features, in an ark file: what its chunks and windows are normalised with.

The normalised features themselves may be kept too, in half precision: 16 kB a second of audio with 80 channels, which
spare training the decoding of compressed audio in every pass.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from espnet_ext.data.kaldi import read_table, write_table
from espnet_ext.data.recording_audio import RecordingAudio
from espnet_ext.parallel import map_shards
from espnet_ext.task import shards as work

if TYPE_CHECKING:  # imports torch
    from espnet_ext.frontend.recording_features import RecordingFeatures, Statistics

_RECORDINGS_OF_A_SHARD = 50
_FRAMES_AT_ONCE = 3000
_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class StatisticsShard:
    """Recordings whose statistics go to ``<stem>.ark`` and ``<stem>.scp``, and features, if kept, to ``<stem>/``."""

    name: str
    stem: str
    audio: dict[str, str]
    features_conf: dict[str, Any]
    keep_features: bool


def write_statistics(
    data: str | Path,
    output: str | Path,
    features_conf: Mapping[str, Any],
    *,
    keep_features: bool = False,
    nj: int = 1,
    parallel: Path | None = None,
) -> int:
    """Write ``<output>/statistics.scp`` for all recordings of a data dir: matrices (2, n_mels), mean and deviation.

    Shards that are done, from the same audio and settings, are skipped. Returns the number of recordings.

    Args:
        data: A data dir; only ``wav.scp`` is read.
        output: A folder.
        features_conf: Settings of :class:`espnet_ext.frontend.recording_features.RecordingFeatures`.
        keep_features: Write ``<output>/features.scp`` too: numpy files of normalised features, (frames, n_mels).
        nj: Processes.
        parallel: YAML of a Dask cluster, see :func:`espnet_ext.parallel.map_shards`.

    Raises:
        InputError: no data dir, or bad audio; the message names the recording.
    """
    audio = work.read_audio_table(data)
    folder = Path(output).absolute() / "statistics"
    shards = []
    for number, names in enumerate(work.contiguous(list(audio), -(-len(audio) // _RECORDINGS_OF_A_SHARD)), 1):
        own = {name: audio[name] for name in names}
        key = work.fingerprint(dict(features_conf), keep_features, work.file_stamps(own))
        stem = folder / f"{number}.{key[:16]}"
        shards.append(StatisticsShard(str(number), str(stem), own, dict(features_conf), keep_features))
    todo = [shard for shard in shards if not Path(f"{shard.stem}.scp").is_file()]
    map_shards(compute_shard, todo, nj=nj, config=parallel, describe="statistics")
    table: dict[str, str] = {}
    for shard in shards:
        table |= read_table(f"{shard.stem}.scp")
    if keep_features:
        kept = {name: str(_features_file(shard, name)) for shard in shards for name in shard.audio}
        write_table(Path(output) / "features.scp", dict(sorted(kept.items())))
    write_table(Path(output) / "statistics.scp", dict(sorted(table.items())))
    return len(table)


def _features_file(shard: StatisticsShard, recording: str) -> Path:
    return Path(shard.stem) / f"{recording}.npy"


def compute_shard(shard: StatisticsShard) -> None:
    """Compute and write the statistics of one shard (in a worker process). The scp appears last and whole."""
    from omniio import kaldi

    from espnet_ext.frontend.recording_features import RecordingFeatures

    features = RecordingFeatures(**shard.features_conf)
    matrices = {}
    for name, path in shard.audio.items():
        with RecordingAudio(name, path, features.rate) as audio:
            statistics = features.statistics(audio)
            matrices[name] = np.stack(statistics)
            if shard.keep_features:
                _keep(_features_file(shard, name), audio, features, statistics)
    Path(shard.stem).parent.mkdir(parents=True, exist_ok=True)
    # The ark's name is that of the finished one, as the scp points to it; without its scp an ark is not looked at.
    kaldi.save_ark(f"{shard.stem}.ark", matrices, scp=f"{shard.stem}.tmp")
    os.replace(f"{shard.stem}.tmp", f"{shard.stem}.scp")


def _keep(path: Path, audio: "RecordingAudio", features: "RecordingFeatures", statistics: "Statistics") -> None:
    """Write a recording's normalised features in parts, so that memory does not depend on its length."""
    frames = features.frames(audio.length)
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = np.lib.format.open_memmap(path, "w+", np.float16, (frames, features.n_mels))
    for start in range(0, frames, _FRAMES_AT_ONCE):
        part = features.normalised(audio, statistics, start, min(_FRAMES_AT_ONCE, frames - start))
        kept[start : start + len(part)] = np.clip(part, -_LARGEST, _LARGEST)
    kept.flush()
