"""Note which transcripts are there, and what they were made from.

A rerun leaves them out, and replaces nothing else.

Each recording has a note in the folder ``.transcripts`` of the output.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from espnet_ext.sharing.model_files import drop_training, find_model
from espnet_ext.stitch.recogniser.search_settings import DECODING
from espnet_ext.transcription.recordings import Failed, Recording, list_targets
from espnet_ext.transcription.request import Request
from espnet_ext.upstream.config_paths import find_named_files
from espnet_ext.whisper.model import is_converted
from espnet_ext.work.files import parse_json, write_json
from espnet_ext.work.once import fingerprint, hash_content
from espnet_ext.work.once import stamp_folders as stamps_below
from espnet_ext.work.yaml_files import read_yaml

NOTES = ".transcripts"
# Options that transcripts do not depend on.
_NOT_IN_KEY = {"work"}


def compute_key(model: Path | None, request: Request) -> str:
    """Return a checksum of what all transcripts of a run depend on.

    Transcripts depend on model, options, and the files that these name.
    """
    given = sorted(request.list_given() - _NOT_IN_KEY)
    options = {name: getattr(request, name) for name in given}
    paths = [value for value in options.values() if isinstance(value, Path)]
    if request.speaker_model:
        paths.append(request.speaker_model.with_name("config.yaml"))
    # A model is the same by whatever path; one that is no path has a name on the hub.
    named = model
    if model and model.exists():
        named = Path(os.path.realpath(model))
    made: list[Any] = [str(named)]
    if model is None or is_converted(model):
        if model:
            paths.append(model)
        made.append(version("faster-whisper") if find_spec("faster_whisper") else None)
    else:
        files = find_model(model)
        large = (files.model, files.lm_config, files.lm_file, files.prior_file)
        paths += [path for path in large if path]
        # Of files that the config names, those of training play no part.
        config = drop_training(read_yaml(files.config))
        paths += find_named_files(config, [files.config.parent], files.config).values()
        # Small files by their content: unpacking an archive again makes new times.
        made.append(hash_content(files.config))
        made.append(hash_content(files.model.with_name(DECODING)))
        made.append(dict(files.search))
    texts = {name: str(value) for name, value in options.items()}
    return fingerprint(made, texts, _stamp_paths(paths))


def _stamp_paths(paths: Iterable[Path]) -> list[Any]:
    """Return the size and time of files, and of all below folders.

    Missing ones have an entry too.
    """
    found: list[Any] = []
    for path in paths:
        status = path.stat() if path.is_file() else None
        entry = (status.st_size, status.st_mtime_ns) if status else stamps_below(path)
        found.append([os.path.realpath(path), entry])
    return found


def list_unfinished(
    recordings: Sequence[Recording],
    output: Path,
    kinds: Sequence[str],
    key: str,
    done: Failed,
    failed: Failed,
) -> tuple[list[Recording], int]:
    """Return the recordings that lack transcripts made with a key, and a number.

    The number is of those in whose way a file is that stays.

    ``done`` is called with each recording that has its transcripts, and how these are;
    ``failed`` with each that cannot be written, and why.
    """
    left = []
    blocked = 0
    for recording in recordings:
        path = recording.path
        note = Note(output, recording)
        targets = list_targets(output, recording.name, kinds)
        state = note.describe_finished(targets, key)
        if state is not None:
            done(path, state)
            continue
        other = note.explain_obstacle(targets)
        if other is None:
            left.append(recording)
            continue
        advice = "give another --output, or --overwrite to replace it"
        failed(path, f"{path}: {other}: {advice}")
        blocked += 1
    return left, blocked


class Note:
    """What is known of a recording's transcripts below the folder ``output``."""

    def __init__(self, output: Path, recording: Recording):
        self._output = output
        self._path = output / NOTES / f"{recording.name}.json"
        self._audio = Path(os.path.realpath(recording.path))

    def describe_finished(self, targets: Collection[Path], key: str) -> str | None:
        """Return how the transcripts are if all are there; None if they are not.

        They are made with this key of this audio.
        """
        files = self._read()["files"]
        own = self._compute_key(key)
        for target in targets:
            entry = files.get(self._name(target), {})
            if not target.is_file() or entry.get("key") != own:
                return None
        for target in targets:
            # Corrected by hand, perhaps: it counts as done, and is not replaced.
            if not self._is_as_written(target, files):
                return f"{target} was changed since it was written: it stays"
        return "its transcripts are there already, by the same command"

    def explain_obstacle(self, targets: Collection[Path]) -> str | None:
        """Return why a file that is there must stay; None if all may be written."""
        noted = self._read()
        for target in targets:
            if target.is_dir():
                return f"{target} is a folder"
            if target.exists() and not self._is_as_written(target, noted["files"]):
                return (
                    f"{target} is there already, and not as it was written here (by "
                    "hand, or by an older version)"
                )
        # Ours, but of another recording, of the same name in another folder.
        audio = noted["audio"]
        if audio not in (None, str(self._audio)):
            for target in targets:
                if target.exists():
                    return f"{target} is that of {audio}"
        return None

    def begin(self, targets: Collection[Path]) -> None:
        """Note that files are written now.

        If this process is killed, they are known as ours.
        """
        begun = {self._name(target): {"begun": True} for target in targets}
        self._write(begun)

    def add(self, target: Path, key: str) -> None:
        """Note a file that was written just now."""
        status = target.stat()
        entry = {
            "key": self._compute_key(key),
            "size": status.st_size,
            "time": status.st_mtime_ns,
            "sha256": hash_content(target),
        }
        self._write({self._name(target): entry})

    def _write(self, entries: Mapping[str, Any]) -> None:
        """Write the note with these entries in place of the files' old ones."""
        files = {**self._read()["files"], **entries}
        write_json(self._path, {"audio": str(self._audio), "files": files})

    def _compute_key(self, key: str) -> str:
        """Return a checksum of a run's key and this recording's audio."""
        return fingerprint(key, _stamp_paths([self._audio]))

    def _name(self, target: Path) -> str:
        return target.relative_to(self._output).as_posix()

    def _is_as_written(self, target: Path, files: Mapping[str, Any]) -> bool:
        """Return whether a file is ours, as it was written or in the middle of it."""
        entry = files.get(self._name(target), {})
        status = target.stat()
        if "begun" in entry:
            return True
        if entry.get("size") != status.st_size:
            return False
        # A copy of the folder has other times, but the same content.
        return bool(
            entry.get("time") == status.st_mtime_ns
            or entry.get("sha256") == hash_content(target)
        )

    def _read(self) -> dict[str, Any]:
        """Read the note; one that is missing or damaged knows of no files."""
        try:
            found = parse_json(self._path.read_text(encoding="utf-8"))
            files = {}
            for name, entry in found["files"].items():
                if isinstance(entry, dict):
                    files[name] = entry
            return {"audio": found["audio"], "files": files}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {"audio": None, "files": {}}
