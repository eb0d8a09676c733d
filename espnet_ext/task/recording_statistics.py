"""Mean and deviation of each recording's features, in an ark file: what its chunks and windows are normalised with."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.data.kaldi import read_table, write_table
from espnet_ext.data.recording_audio import RecordingAudio
from espnet_ext.parallel import map_shards
from espnet_ext.task import shards as work

_RECORDINGS_OF_A_SHARD = 50


@dataclass(frozen=True)
class StatisticsShard:
    """Recordings whose statistics go to ``<stem>.ark`` and ``<stem>.scp``."""

    name: str
    stem: str
    audio: dict[str, str]
    features_conf: dict[str, Any]


def write_statistics(
    data: str | Path, output: str | Path, features_conf: Mapping[str, Any], *, nj: int = 1, parallel: Path | None = None
) -> int:
    """Write ``<output>/statistics.scp`` for all recordings of a data dir: matrices (2, n_mels), mean and deviation.

    Shards that are done, from the same audio and settings, are skipped. Returns the number of recordings.

    Args:
        data: A data dir; only ``wav.scp`` is read.
        output: A folder.
        features_conf: Settings of :class:`espnet_ext.frontend.recording_features.RecordingFeatures`.
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
        key = work.fingerprint(dict(features_conf), work.file_stamps(own))
        shards.append(StatisticsShard(str(number), str(folder / f"{number}.{key[:16]}"), own, dict(features_conf)))
    todo = [shard for shard in shards if not Path(f"{shard.stem}.scp").is_file()]
    map_shards(compute_shard, todo, nj=nj, config=parallel, describe="statistics")
    table: dict[str, str] = {}
    for shard in shards:
        table |= read_table(f"{shard.stem}.scp")
    write_table(Path(output) / "statistics.scp", dict(sorted(table.items())))
    return len(table)


def compute_shard(shard: StatisticsShard) -> None:
    """Compute and write the statistics of one shard (in a worker process). The scp appears last and whole."""
    from omniio import kaldi

    from espnet_ext.frontend.recording_features import RecordingFeatures

    features = RecordingFeatures(**shard.features_conf)
    matrices = {}
    for name, path in shard.audio.items():
        with RecordingAudio(name, path, features.rate) as audio:
            matrices[name] = np.stack(features.statistics(audio))
    Path(shard.stem).parent.mkdir(parents=True, exist_ok=True)
    # The ark's name is that of the finished one, as the scp points to it; without its scp an ark is not looked at.
    kaldi.save_ark(f"{shard.stem}.ark", matrices, scp=f"{shard.stem}.tmp")
    os.replace(f"{shard.stem}.tmp", f"{shard.stem}.scp")
