"""Split the work on a Kaldi data dir into shards, do each once, skip what is done.

Each has its own folder of results. A folder appears completely or not at all; its
``done.json`` has a hash of everything that the results depend on.
"""

import heapq
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from espnet_ext import __version__
from espnet_ext.errors import say
from espnet_ext.work import once
from espnet_ext.work.files import atomic_write
from espnet_ext.work.parallel import Place, map_shards

DONE = "done.json"
# As in the logs of ESPnet's own commands.
LOG_FORMAT = "%(asctime)s (%(module)s:%(lineno)d) %(levelname)s: %(message)s"


@dataclass(frozen=True)
class Shard:
    """A piece of work on some utterances."""

    name: str
    folder: str  # for its results
    log: str  # of ESPnet's log and output
    options: tuple[str, ...]  # of the ESPnet tool, without inputs and outputs
    # Path below ``folder`` -> Kaldi table, written there for the tool to read.
    tables: dict[str, dict[str, str]]
    key: str  # hash of everything that the results depend on

    def is_done(self) -> bool:
        """Return whether the results of this shard exist, made from the same inputs."""
        return once.read_key(Path(self.folder) / DONE) == self.key


def balance(weights: Mapping[str, float], count: int) -> list[list[str]]:
    """Split ids into at most ``count`` lists of about equal weight, none empty.

    The heaviest ids are assigned first, each to the lightest list.
    """
    # Weight, size and number of each list, of which heapq compares the first that
    # differ: without weights the sizes are balanced, and the number makes the result
    # the same in each run.
    heap = [(0.0, 0, number) for number in range(count)]
    parts: list[list[str]] = [[] for _ in range(count)]
    for key in sorted(weights, key=lambda key: (-weights[key], key)):
        weight, size, number = heapq.heappop(heap)
        parts[number].append(key)
        heapq.heappush(heap, (weight + weights[key], size + 1, number))
    return [sorted(part) for part in parts if part]


def split_evenly[T](items: Sequence[T], count: int) -> list[list[T]]:
    """Split items into ``count`` consecutive parts.

    Their lengths differ by one at most.
    """
    edges = [number * len(items) // count for number in range(count + 1)]
    return [list(items[start:end]) for start, end in pairwise(edges)]


def fingerprint(*parts: object) -> str:
    """Return a hash of JSON values, with our version, ESPnet's and torch's."""
    return once.fingerprint(__version__, version("espnet"), version("torch"), *parts)


def hash_files(paths: Sequence[str | Path | None]) -> dict[str, str | None]:
    """Return path -> SHA-256 of the content, for those that are files."""
    return {
        str(path): once.hash_content(path)
        for path in paths
        if path and os.path.isfile(path)
    }


def stamp_files(files: Mapping[str, str]) -> list[list]:
    """Return ``[id, path, size, modification time]`` of files.

    Such stamps are for files whose content would take too long to hash.
    """
    stamps = []
    for key, path in files.items():
        status = os.stat(path)
        stamps.append([key, path, status.st_size, status.st_mtime_ns])
    return stamps


@contextmanager
def attempt_shard(shard: Shard) -> Iterator[Path]:
    """Yield a new folder with the shard's tables, which becomes the shard's folder.

    A failure leaves only the log.
    """
    try:
        with once.replace_folder(shard.folder, shard.key, DONE) as folder:
            for name, table in shard.tables.items():
                with atomic_write(folder / name) as file:
                    file.writelines(f"{key} {table[key]}\n" for key in sorted(table))
            with log_to(shard.log):
                yield folder
    except BaseException as error:
        error.add_note(f"log: {shard.log}")
        raise


@contextmanager
def log_to(path: str | Path) -> Iterator[None]:
    """Send logging, stdout and stderr to a file.

    ESPnet's functions write to all three, and handlers that are there write to what
    stderr was before.
    """
    root = logging.getLogger()
    handlers = root.handlers
    level = root.level
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with (
        open(path, "w", encoding="utf-8", buffering=1) as file,
        redirect_stdout(file),
        redirect_stderr(file),
    ):
        handler = logging.StreamHandler(file)
        handler.setFormatter(logging.Formatter(LOG_FORMAT))
        root.handlers = [handler]
        root.setLevel(logging.INFO)
        try:
            yield
        finally:
            root.handlers = handlers
            root.setLevel(level)


def remove_others(parent: Path, shards: Sequence[Shard]) -> None:
    """Remove what killed runs, and runs with other shards, have left beside results."""
    if not parent.is_dir() or not shards:
        return
    keep = {Path(shard.folder).name for shard in shards}
    # Other work may have its results in the same folder, by another first part.
    stem = Path(shards[0].folder).name.partition(".")[0]
    for path in parent.iterdir():
        # A hidden folder is one that was not finished.
        is_unfinished = path.name.startswith(f".{stem}.")
        is_other = path.name.startswith(f"{stem}.") and path.name not in keep
        if is_unfinished or is_other:
            shutil.rmtree(path, ignore_errors=True)


def run_shards[AnyShard: Shard](
    planned: Sequence[tuple[Path, Sequence[AnyShard]]],
    run: Callable[[AnyShard], object],
    *,
    nj: int = 1,
    ngpu: int = 0,
    parallel: Place | None = None,
    describe: str = "decode",
) -> None:
    """Run, all at once, what is not done of the shards of several folders.

    Shards have their results in ``log/`` of their folders.
    """
    for output, shards in planned:
        remove_others(output / "log", shards)
    every = [shard for _, shards in planned for shard in shards]
    todo = [shard for shard in every if not shard.is_done()]
    done = len(every) - len(todo)
    if done:
        say(f"{describe}: {done} of {len(every)} shards are done already", error=True)
    map_shards(run, todo, nj=nj, ngpu=ngpu, config=parallel, describe=describe)
    for output, shards in planned:
        # What workers left that died.
        remove_others(output / "log", shards)
