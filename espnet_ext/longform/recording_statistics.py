"""Mean and deviation of each recording's features, in an ark file: what its chunks and windows are normalised with.

The normalised features themselves may be kept too, in half precision: 16 kB a second of audio with 80 channels, which
spare training the decoding of compressed audio in every pass.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from espnet_ext.data.kaldi import write_table
from espnet_ext.longform.recording_audio import RecordingAudio
from espnet_ext.work import shards as work
from espnet_ext.work.arks import ark_shards, write_arks

if TYPE_CHECKING:  # imports torch
    from espnet_ext.longform.recording_features import RecordingFeatures, Statistics

_RECORDINGS_OF_A_SHARD = 50
_FRAMES_AT_ONCE = 3000
_LARGEST = float(np.finfo(np.float16).max)


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
        features_conf: Settings of :class:`espnet_ext.longform.recording_features.RecordingFeatures`.
        keep_features: Write ``<output>/features.scp`` too: numpy files of normalised features, (frames, n_mels).
        nj: Processes.
        parallel: YAML of a Dask cluster, see :func:`espnet_ext.work.parallel.map_shards`.

    Raises:
        InputError: no data dir, or bad audio; the message names the recording.
    """
    audio = work.read_audio_table(data)
    compute = functools.partial(compute_statistics, features_conf=dict(features_conf), keep_features=keep_features)
    folder = Path(output).absolute() / "statistics"
    shards = ark_shards(audio, folder, compute, (dict(features_conf), keep_features), _RECORDINGS_OF_A_SHARD)
    table = write_arks(shards, nj=nj, parallel=parallel, describe="statistics")
    if keep_features:
        kept = {name: str(_features_file(shard.stem, name)) for shard in shards for name in shard.audio}
        write_table(Path(output) / "features.scp", dict(sorted(kept.items())))
    write_table(Path(output) / "statistics.scp", table)
    return len(table)


def _features_file(stem: str, recording: str) -> Path:
    return Path(stem) / f"{recording}.npy"


def compute_statistics(
    audio: Mapping[str, str], stem: str, features_conf: Mapping[str, Any], keep_features: bool
) -> dict[str, np.ndarray]:
    """Statistics of the recordings of one shard, (2, n_mels) each (in a worker process); features go to ``<stem>/``."""
    from espnet_ext.longform.recording_features import RecordingFeatures

    features = RecordingFeatures(**features_conf)
    matrices = {}
    for name, path in audio.items():
        with RecordingAudio(name, path, features.rate) as recording:
            statistics = features.statistics(recording)
            matrices[name] = np.stack(statistics)
            if keep_features:
                _keep(_features_file(stem, name), recording, features, statistics)
    return matrices


def _keep(path: Path, audio: "RecordingAudio", features: "RecordingFeatures", statistics: "Statistics") -> None:
    """Write a recording's normalised features in parts, so that memory does not depend on its length."""
    frames = features.frames(audio.length)
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = np.lib.format.open_memmap(path, "w+", np.float16, (frames, features.n_mels))
    for start in range(0, frames, _FRAMES_AT_ONCE):
        part = features.normalised(audio, statistics, start, min(_FRAMES_AT_ONCE, frames - start))
        kept[start : start + len(part)] = np.clip(part, -_LARGEST, _LARGEST)
    kept.flush()
