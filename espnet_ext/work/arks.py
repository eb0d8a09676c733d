"""A matrix for each recording, computed in parallel and kept in ark files, shard by shard."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from espnet_ext.data.kaldi import read_table
from espnet_ext.work import shards as work
from espnet_ext.work.parallel import map_shards

Compute = Callable[[Mapping[str, str], str], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class ArkShard:
    """Recordings whose matrices go to ``<stem>.ark`` and ``<stem>.scp``.

    Attributes:
        name: for the messages.
        stem: names the settings and the audio by a hash, so that what is there need not be done again.
        audio: recording -> file.
        compute: makes the matrices of ``audio``; it is given ``stem`` too, for other files of its own.
    """

    name: str
    stem: str
    audio: dict[str, str]
    compute: Compute


def ark_shards(
    audio: Mapping[str, str], folder: Path, compute: Compute, settings: Sequence[object], recordings: int
) -> list[ArkShard]:
    """Split recordings into shards of about so many. ``settings`` are all that the matrices depend on but the audio."""
    shards = []
    for number, names in enumerate(work.contiguous(list(audio), -(-len(audio) // recordings)), start=1):
        own = {name: audio[name] for name in names}
        key = work.fingerprint(*settings, work.file_stamps(own))
        shards.append(ArkShard(str(number), str(folder / f"{number}.{key[:16]}"), own, compute))
    return shards


def write_arks(
    shards: Sequence[ArkShard], *, nj: int = 1, parallel: Path | None = None, describe: str
) -> dict[str, str]:
    """Write the shards that are not there yet; return where each recording's matrix is, sorted by recording."""
    todo = [shard for shard in shards if not Path(f"{shard.stem}.scp").is_file()]
    map_shards(write_ark, todo, nj=nj, config=parallel, describe=describe)
    table: dict[str, str] = {}
    for shard in shards:
        table |= read_table(f"{shard.stem}.scp")
    return dict(sorted(table.items()))


def write_ark(shard: ArkShard) -> None:
    """Compute and write one shard (in a worker process). The scp appears last and whole."""
    from omniio import kaldi

    matrices = dict(shard.compute(shard.audio, shard.stem))
    Path(shard.stem).parent.mkdir(parents=True, exist_ok=True)
    # The ark's name is that of the finished one, as the scp points to it; without its scp an ark is not looked at.
    kaldi.save_ark(f"{shard.stem}.ark", matrices, scp=f"{shard.stem}.tmp")
    os.replace(f"{shard.stem}.tmp", f"{shard.stem}.scp")
