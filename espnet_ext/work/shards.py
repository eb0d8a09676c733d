"""Shards of a Kaldi data dir, each with its own folder of results: split, do once, skip what is done, merge.

A shard's folder appears whole, with ``done.json`` inside, or not at all. ``done.json`` holds a hash of all that the
results depend on, so a run that was killed goes on where it stopped and a changed model or file is noticed.
"""

import hashlib
import heapq
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from espnet_ext import __version__
from espnet_ext.data.data_dir import is_command, require_folder
from espnet_ext.data.kaldi_tables import read_table, write_table
from espnet_ext.errors import InputError
from espnet_ext.work.files import write_json
from espnet_ext.work.parallel import map_shards

DONE = "done.json"


@dataclass(frozen=True)
class Shard:
    """A piece of work on some utterances.

    Attributes:
        name: its name in messages.
        folder: where its results go.
        log: file for what ESPnet logs and prints.
        options: command-line options of the ESPnet tool, without inputs and outputs.
        tables: path below ``folder`` -> Kaldi table, written there for the tool to read.
        key: hash of all that the results depend on.
    """

    name: str
    folder: str
    log: str
    options: tuple[str, ...]
    tables: dict[str, dict[str, str]]
    key: str

    def is_done(self) -> bool:
        """Are this shard's results there, from the same inputs?"""
        try:
            return json.loads((Path(self.folder) / DONE).read_text())["key"] == self.key
        except (OSError, ValueError, KeyError, TypeError):
            return False


def read_audio_table(data: str | Path) -> dict[str, str]:
    """Read ``wav.scp`` of a data dir, sorted: utterance -> audio file.

    Raises:
        InputError: no such folder; it has ``segments``; an entry is a command, or its file is missing or empty.
    """
    folder = require_folder(data)
    if (folder / "segments").exists():
        raise InputError(
            f"{folder / 'segments'}: recordings cut by segments are not supported here: write each utterance to a file "
            "of its own and make a data dir of those"
        )
    wav_scp = folder / "wav.scp"
    table = read_table(wav_scp)
    for utterance, path in table.items():
        if is_command(path):
            raise InputError(f"{wav_scp}: {utterance} is a command, and commands are not run: give the path of a file")
        try:
            size = os.stat(path).st_size
        except OSError:
            raise InputError(
                f"{wav_scp}: {utterance}: no such file {path}: mend it, or prepare the data again"
            ) from None
        if not size:
            raise InputError(f"{wav_scp}: {utterance}: {path} is empty: fetch it again, or drop the utterance")
    return dict(sorted(table.items()))


def durations(data: Path, audio: Mapping[str, str]) -> dict[str, float]:
    """The seconds of each utterance by ``utt2dur`` of a data dir, or 1 for each if there is no such file.

    Raises:
        InputError: an utterance is missing there, or its value is no number.
    """
    path = data / "utt2dur"
    if not path.exists():
        return dict.fromkeys(audio, 1.0)
    table = read_table(path)
    weights = {}
    for utterance in audio:
        try:
            weights[utterance] = float(table[utterance])
        except KeyError:
            raise InputError(f"{path}: {utterance} of wav.scp is missing: mend the file, or remove it") from None
        except ValueError:
            raise InputError(f"{path}: {utterance}: {table[utterance]!r} is no duration in seconds: mend it") from None
    return weights


def balanced(weights: Mapping[str, float], count: int) -> list[list[str]]:
    """Split ids into ``count`` lists of about equal weight, none empty; the heaviest ids are dealt out first."""
    heap = [(0.0, 0, number) for number in range(count)]
    parts: list[list[str]] = [[] for _ in range(count)]
    for key in sorted(weights, key=lambda key: (-weights[key], key)):
        weight, size, number = heapq.heappop(heap)
        parts[number].append(key)
        heapq.heappush(heap, (weight + weights[key], size + 1, number))
    return [sorted(part) for part in parts if part]


def contiguous[T](items: Sequence[T], count: int) -> list[list[T]]:
    """Split items into ``count`` runs whose lengths differ by at most one."""
    edges = [number * len(items) // count for number in range(count + 1)]
    return [list(items[start:end]) for start, end in zip(edges, edges[1:], strict=False)]


def fingerprint(*parts: object) -> str:
    """Return a hash of JSON values, and of the versions of this package, ESPnet and torch."""
    versions = [__version__, version("espnet"), version("torch")]
    return hashlib.sha256(json.dumps([versions, *parts], sort_keys=True, default=str).encode()).hexdigest()


def file_hashes(paths: Sequence[str | Path | None]) -> dict[str, str]:
    """Return path -> SHA-256 of the content, for those that are files."""
    hashes = {}
    for path in paths:
        if path and os.path.isfile(path):
            with open(path, "rb") as file:
                hashes[str(path)] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def option_values(options: Sequence[str]) -> list[str]:
    """Return what may be a path among command-line options: ``--name value`` and ``--name=value``."""
    return [option.partition("=")[2] if option.startswith("--") else option for option in options]


def file_stamps(files: Mapping[str, str]) -> list[list]:
    """Return ``[id, path, size, time of change]`` of files whose content would take too long to hash."""
    stamps = []
    for key, path in files.items():
        status = os.stat(path)
        stamps.append([key, path, status.st_size, status.st_mtime_ns])
    return stamps


def refuse_options(options: Sequence[str], ours: Mapping[str, str]) -> None:
    """Refuse ESPnet options that this package's command sets itself.

    Raises:
        InputError: one of ``options`` is in ``ours``, which maps it to what to use instead.
    """
    for option in options:
        name = option.partition("=")[0]
        if name in ours:
            raise InputError(f"{name} cannot be given after `--`: {ours[name]}")


@contextmanager
def attempt(shard: Shard) -> Iterator[Path]:
    """Yield a new folder with the shard's tables; rename it to the shard's own at the end, with ``done.json`` in it.

    Output and log lines of the block go to the shard's log file. After a failure nothing but the log remains.
    """
    final = Path(shard.folder)
    final.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: a worker that was given up for dead may still write to its folder.
    folder = Path(tempfile.mkdtemp(dir=final.parent, prefix=f".{final.name}."))
    try:
        for name, table in shard.tables.items():
            write_table(folder / name, table)
        with log_to(shard.log):
            yield folder
        write_json(folder / DONE, {"key": shard.key})
        folder.chmod(0o755)
        if final.exists():
            shutil.rmtree(final)
        folder.rename(final)
    except BaseException as error:
        error.add_note(f"log: {shard.log}")
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def log_to(path: str | Path) -> Iterator[None]:
    """Send logging, stdout and stderr to a file, in place of where they go now."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", buffering=1) as file, redirect_stdout(file), redirect_stderr(file):
        handler = logging.StreamHandler(file)
        handler.setFormatter(logging.Formatter("%(asctime)s (%(module)s:%(lineno)d) %(levelname)s: %(message)s"))
        root.handlers = [handler]
        root.setLevel(logging.INFO)
        try:
            yield
        finally:
            root.handlers = handlers
            root.setLevel(level)


def clean(parent: Path, shards: Sequence[Shard]) -> None:
    """Remove what killed runs, and runs with other shards, left in the folder of the shards' results."""
    if not parent.is_dir() or not shards:
        return
    keep = {Path(shard.folder).name for shard in shards}
    stem = Path(shards[0].folder).name.partition(".")[0]
    for path in parent.iterdir():
        if path.name.startswith(f".{stem}.") or (path.name.startswith(f"{stem}.") and path.name not in keep):
            shutil.rmtree(path, ignore_errors=True)


def run_shards[AnyShard: Shard](
    planned: Sequence[tuple[Path, Sequence[AnyShard]]],
    run: Callable[[AnyShard], object],
    *,
    nj: int = 1,
    parallel: Path | None = None,
    describe: str = "decode",
) -> None:
    """Run the shards of several folders of results that are not done, which share the workers.

    Args:
        planned: folders of results and their shards, which lie in ``log/`` there.
        run: does a shard in a worker process.
        nj: processes or cluster jobs.
        parallel: YAML of a Dask cluster, see :func:`espnet_ext.work.parallel.map_shards`.
        describe: what is done, for the messages.
    """
    for output, shards in planned:
        clean(output / "log", shards)
    every = [shard for _, shards in planned for shard in shards]
    todo = [shard for shard in every if not shard.is_done()]
    if len(todo) < len(every):
        say(f"{describe}: {len(every) - len(todo)} of {len(every)} shards are done already")
    logs = planned[0][0] / "log" / "jobs"
    map_shards(run, todo, nj=nj, config=parallel, describe=describe, log_dir=logs)
    for output, shards in planned:
        clean(output / "log", shards)  # of workers that died


def check_headers(table: Mapping[str, str], rate: int | None) -> None:
    """Look at the headers of audio files.

    Raises:
        InputError: a file cannot be opened, has no samples, or has another sampling rate than ``rate`` in Hz.
    """
    import soundfile

    for utterance, path in table.items():
        try:
            info = soundfile.info(path)
        except (soundfile.SoundFileError, OSError) as error:
            raise InputError(f"{utterance}: {path} cannot be read as audio ({error}): mend or drop it") from None
        if not info.frames:
            raise InputError(f"{utterance}: {path} has no samples: fetch it again, or drop the utterance")
        if rate and info.samplerate != rate:
            raise InputError(
                f"{utterance}: {path} has {info.samplerate} Hz, but the model's frontend takes {rate} Hz: resample it"
            )


def blame_audio(table: Mapping[str, str]) -> None:
    """After a failure, decode the shard's audio to see whether one file is the cause.

    Raises:
        InputError: a file is corrupt, cut off, or holds NaN or infinite samples; the message names the utterance.
    """
    from espnet_ext.data.audio_files import inspect_audio

    for utterance, path in table.items():
        fault = inspect_audio(path)[2]
        if fault and "channels" not in fault:
            raise InputError(f"{fault} {utterance}: {path}: fetch it again, or drop the utterance")


def sampling_rate(config: Mapping) -> int | None:
    """Return the rate in Hz that a training config's frontend takes, or None where that cannot be told."""
    frontend = config.get("frontend")
    rate = (config.get("frontend_conf") or {}).get("fs", 16000 if frontend in ("default", "power_mel") else None)
    if rate is None or frontend is None:
        return None
    if isinstance(rate, str):
        import humanfriendly

        return humanfriendly.parse_size(rate)
    return int(rate)


def parse_options(parser, options: Sequence[str]):
    """Parse ESPnet options; what argparse would print before it exits becomes an InputError."""
    import io

    messages = io.StringIO()
    try:
        with redirect_stderr(messages):
            return parser.parse_args(list(options))
    except SystemExit:
        lines = [line for line in messages.getvalue().splitlines() if line.strip()] or ["--help is no option here"]
        raise InputError(f"options for ESPnet: {lines[-1].partition('error: ')[2] or lines[-1]}") from None


def say(text: str) -> None:
    """Tell the user, on stderr."""
    print(text, file=sys.stderr, flush=True)
