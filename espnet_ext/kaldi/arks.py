"""Read and write Kaldi's ark files: vectors and matrices, computed in parallel."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import is_command
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.work import shards as sharding
from espnet_ext.work.files import atomic_write
from espnet_ext.work.once import NOTE, read_key, replace_folder
from espnet_ext.work.parallel import Place, map_shards

Compute = Callable[[Mapping[str, str], Path], Mapping[str, np.ndarray]]
# A file, maybe with a byte offset and Kaldi's range of rows and columns: a.ark:12[0:5].
_POSITION = re.compile(r"(?P<file>.+?)(?::(?P<offset>\d+))?(?:\[[\d:, ]*\])?")


def write_arrays(
    ark: Path, arrays: Mapping[str, np.ndarray], *, renamed: Path | None = None
) -> dict[str, str]:
    """Write vectors or matrices, float or int32, to an ark file.

    Return positions for an scp (``<file>:<offset>``). ``renamed`` is where the file
    will be in the end, if its folder is about to be renamed.
    """
    kaldi = _import_library()
    target = (renamed or ark).resolve()
    positions = {}
    with atomic_write(ark, "wb") as file:
        for key, array in arrays.items():
            # Kaldi's readers want the offset of the array, which follows id and space.
            begin = file.tell() + len(f"{key} ".encode())
            positions[key] = f"{target}:{begin}"
            kaldi.save_ark(file, {key: array})
    return positions


def read_array(position: str) -> np.ndarray:
    """Read the vector or matrix at a position of an scp file: ``feats.ark:1234``.

    Refused are a command, and a pickle, as the library would run the code of either. A
    file that is missing or broken raises one of many exceptions.
    """
    found = _POSITION.fullmatch(position)
    if found is None or is_command(position):
        raise InputError(
            f"{position!r} is no position in an ark file; commands are not run"
        )
    with open(found["file"], "rb") as file:
        file.seek(int(found["offset"] or 0))
        if file.read(3) == b"PKL":
            raise InputError(
                f"{position}: a pickle, which is not loaded because it may run "
                "code: write it as a matrix"
            )
    return np.asarray(_import_library().load_mat(position))


@contextmanager
def forbid_commands() -> Iterator[None]:
    """In this block, let the libraries that read ark files for ESPnet refuse commands.

    Those in a data dir of somebody else are anybody's.
    """
    with ExitStack() as patches:
        for name in filter(find_spec, ("omniio", "kaldiio")):
            library = import_module("omniio.kaldi" if name == "omniio" else name)
            # The module where load_mat looks the function up, not the package that
            # offers load_mat.
            module: Any = sys.modules[library.load_mat.__module__]
            opened = _refuse_commands_in(module.open_like_kaldi)
            patches.enter_context(patch.object(module, "open_like_kaldi", opened))
        yield


def _refuse_commands_in(opened: Callable) -> Callable:
    """Return a function that opens what ``opened`` does, but for commands."""

    def open_file(name: Any, mode: str = "r") -> Any:
        if isinstance(name, str) and is_command(name):
            raise InputError(
                f"{name!r}: a command, and commands are not run: write its output "
                "to a file"
            )
        return opened(name, mode)

    return open_file


def _import_library() -> ModuleType:
    """Return kaldiio where it is installed, else omniio."""
    # omniio is what ESPnet brings: the licence of kaldiio allows an evaluation alone
    # (docs/licences.md), so that it is used only by who has chosen it.
    return import_module("kaldiio" if find_spec("kaldiio") else "omniio.kaldi")


@dataclass(frozen=True)
class ArkShard:
    """Recordings whose matrices go to a folder, as ``matrices.ark`` and its scp.

    It appears when complete. ``key`` is a hash of the settings and of the names, sizes
    and times of the audio files. ``compute`` computes the matrices of ``audio``,
    recording -> file; it may leave out some, and write more files into the folder.
    """

    name: str
    folder: str
    key: str
    audio: dict[str, str]
    compute: Compute


def split_into_shards(
    audio: Mapping[str, str],
    folder: Path,
    compute: Compute,
    settings: Sequence[object],
    recordings: int,
) -> list[ArkShard]:
    """Split recordings into shards of some ``recordings``.

    Matrices depend on the audio and ``settings`` alone.
    """
    shards = []
    number_of_shards = -(-len(audio) // recordings)  # rounded up
    parts = sharding.split_evenly(list(audio), number_of_shards)
    for number, names in enumerate(parts, start=1):
        own = {name: audio[name] for name in names}
        key = sharding.fingerprint(*settings, sharding.stamp_files(own))
        shards.append(
            ArkShard(str(number), str(folder / str(number)), key, own, compute)
        )
    return shards


def write_arks(
    shards: Sequence[ArkShard],
    *,
    nj: int = 1,
    ngpu: int = 0,
    parallel: Place | None = None,
    describe: str,
) -> dict[str, str]:
    """Write the shards that are not done yet.

    Return each recording's position in its ark, sorted by recording.
    """
    todo = [
        shard for shard in shards if read_key(Path(shard.folder) / NOTE) != shard.key
    ]
    map_shards(write_ark, todo, nj=nj, ngpu=ngpu, config=parallel, describe=describe)
    table: dict[str, str] = {}
    for shard in shards:
        positions = Path(shard.folder) / "matrices.scp"
        if positions.is_file():  # not of a shard that has no matrix
            table |= read_table(positions)
    return dict(sorted(table.items()))


def write_ark(shard: ArkShard) -> None:
    """Compute and write one shard (in a worker process)."""
    with replace_folder(shard.folder, shard.key) as folder:
        matrices = shard.compute(shard.audio, folder)
        ark = "matrices.ark"
        # The folder has a temporary name until it is complete; the scp has the last
        # one.
        renamed = Path(shard.folder) / ark
        positions = write_arrays(folder / ark, matrices, renamed=renamed)
        if positions:
            write_table(folder / "matrices.scp", positions)
