"""One matrix per recording, computed in parallel and kept in ark files, one per shard."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from espnet_ext.kaldi.arks import write_arrays
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.work import shards as work
from espnet_ext.work.once import NOTE, is_noted, whole_folder
from espnet_ext.work.parallel import map_shards

Compute = Callable[[Mapping[str, str], Path], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class ArkShard:
    """Recordings whose matrices go to ``matrices.ark`` and ``matrices.scp`` in a folder, which appears when complete.

    Attributes:
        name: its name in messages.
        folder: where the files go.
        key: a hash of the settings and of the names, sizes and times of the audio files.
        audio: recording -> file.
        compute: computes the matrices of ``audio``; it may leave out recordings. Its second argument is the folder, in
            which it may write more files.
    """

    name: str
    folder: str
    key: str
    audio: dict[str, str]
    compute: Compute


def ark_shards(
    audio: Mapping[str, str], folder: Path, compute: Compute, settings: Sequence[object], recordings: int
) -> list[ArkShard]:
    """Split recordings into shards of about ``recordings`` each.

    Args:
        settings: everything that the matrices depend on besides the audio.
    """
    shards = []
    for number, names in enumerate(work.contiguous(list(audio), -(-len(audio) // recordings)), start=1):
        own = {name: audio[name] for name in names}
        key = work.fingerprint(*settings, work.file_stamps(own))
        shards.append(ArkShard(str(number), str(folder / str(number)), key, own, compute))
    return shards


def write_arks(
    shards: Sequence[ArkShard], *, nj: int = 1, parallel: Path | None = None, describe: str
) -> dict[str, str]:
    """Write the shards that are not done yet; return each recording's position in its ark, sorted by recording."""
    todo = [shard for shard in shards if not is_noted(Path(shard.folder) / NOTE, shard.key)]
    map_shards(write_ark, todo, nj=nj, config=parallel, describe=describe)
    table: dict[str, str] = {}
    for shard in shards:
        if (positions := Path(shard.folder) / "matrices.scp").is_file():  # not of a shard that has no matrix
            table |= read_table(positions)
    return dict(sorted(table.items()))


def write_ark(shard: ArkShard) -> None:
    """Compute and write one shard (in a worker process)."""
    with whole_folder(shard.folder, shard.key) as folder:
        matrices = shard.compute(shard.audio, folder)
        ark = "matrices.ark"
        positions = write_arrays(folder / ark, matrices, renamed=Path(shard.folder) / ark)
        if positions:
            write_table(folder / "matrices.scp", positions)
