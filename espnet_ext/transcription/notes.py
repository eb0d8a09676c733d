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
_NOT_IN_KEY = {"work"}


def key_of(model: Path | None, request: Request) -> str:
    """Return a checksum of what all transcripts of a run depend on.

    These are model, options, and the files that they name.
    """
    options = {
        name: getattr(request, name)
        for name in sorted(request.list_given() - _NOT_IN_KEY)
    }
    paths = [value for value in options.values() if isinstance(value, Path)]
    if request.speaker_model:
        paths.append(request.speaker_model.with_name("config.yaml"))
    made: list[Any] = [
        str(model and (os.path.realpath(model) if model.exists() else model))
    ]
    if model is None or is_converted(model):
        paths += [model] if model else []
        made.append(version("faster-whisper") if find_spec("faster_whisper") else None)
    else:
        files = find_model(model)
        paths += [
            path
            for path in (files.model, files.lm_config, files.lm_file, files.prior_file)
            if path
        ]
        paths += find_named_files(
            drop_training(read_yaml(files.config)),
            [files.config.parent],
            files.config,
        ).values()
        made += [
            hash_content(files.config),
            hash_content(files.model.with_name(DECODING)),
            dict(files.search),
        ]
    return fingerprint(
        made, {name: str(value) for name, value in options.items()}, _stamps(paths)
    )


def _stamps(paths: Iterable[Path]) -> list[Any]:
    """Return the size and time of files, and of all below folders.

    Missing ones have an entry too.
    """
    found: list[Any] = []
    for path in paths:
        status = path.stat() if path.is_file() else None
        entry = (status.st_size, status.st_mtime_ns) if status else stamps_below(path)
        found.append([os.path.realpath(path), entry])
    return found


def unfinished(
    recordings: Sequence[Recording],
    output: Path,
    kinds: Sequence[str],
    key: str,
    done: Failed,
    failed: Failed,
) -> tuple[list[Recording], int]:
    """Return the recordings that lack transcripts made with a key.

    With them comes the number of recordings in whose way a file is that stays.

    ``done`` is called with each recording that has its transcripts, and how these are;
    ``failed`` with each that cannot be written, and why.
    """
    left, blocked = [], 0
    for recording in recordings:
        note, targets = (
            Note(output, recording),
            list_targets(output, recording.name, kinds),
        )
        if (state := note.finished(targets, key)) is not None:
            done(recording.path, state)
        elif (other := note.in_the_way(targets)) is not None:
            failed(
                recording.path,
                f"{recording.path}: {other}: give another --output, or "
                "--overwrite to replace it",
            )
            blocked += 1
        else:
            left.append(recording)
    return left, blocked


class Note:
    """What is known of a recording's transcripts below the folder ``output``."""

    def __init__(self, output: Path, recording: Recording):
        self._output, self._path = output, output / NOTES / f"{recording.name}.json"
        self._audio = Path(os.path.realpath(recording.path))

    def finished(self, targets: Collection[Path], key: str) -> str | None:
        """Return how the transcripts are if all are there; None if they are not.

        They are made with this key of this audio.
        """
        files, key = self._read()["files"], self._key(key)
        if not all(
            target.is_file() and files.get(self._name(target), {}).get("key") == key
            for target in targets
        ):
            return None
        changed = next(
            (target for target in targets if not self._is_as_written(target, files)),
            None,
        )
        if changed is None:
            return "its transcripts are there already, by the same command"
        return f"{changed} was changed since it was written: it stays"

    def in_the_way(self, targets: Collection[Path]) -> str | None:
        """Why a file that is there must stay; None if all may be written."""
        noted = self._read()
        for target in targets:
            if target.is_dir():
                return f"{target} is a folder"
            if target.exists() and not self._is_as_written(target, noted["files"]):
                return (
                    f"{target} is there already, and not as it was written here (by "
                    "hand, or by an older version)"
                )
        audio = noted["audio"]
        if audio not in (None, str(self._audio)):
            return next(
                (
                    f"{target} is that of {audio}"
                    for target in targets
                    if target.exists()
                ),
                None,
            )
        return None

    def begin(self, targets: Collection[Path]) -> None:
        """Note that files are written now.

        So they are known as ours if this process is killed.
        """
        begun = {self._name(target): {"begun": True} for target in targets}
        write_json(
            self._path,
            {"audio": str(self._audio), "files": {**self._read()["files"], **begun}},
        )

    def add(self, target: Path, key: str) -> None:
        """Note a file that was written just now."""
        status, known = target.stat(), self._read()
        entry = {
            "key": self._key(key),
            "size": status.st_size,
            "time": status.st_mtime_ns,
            "sha256": hash_content(target),
        }
        write_json(
            self._path,
            {
                "audio": str(self._audio),
                "files": {**known["files"], self._name(target): entry},
            },
        )

    def _key(self, key: str) -> str:
        return fingerprint(key, _stamps([self._audio]))

    def _name(self, target: Path) -> str:
        return target.relative_to(self._output).as_posix()

    def _is_as_written(self, target: Path, files: Mapping[str, Any]) -> bool:
        entry, status = files.get(self._name(target), {}), target.stat()
        if "begun" in entry or entry.get("size") != status.st_size:
            return "begun" in entry
        return bool(
            entry.get("time") == status.st_mtime_ns
            or entry.get("sha256") == hash_content(target)
        )

    def _read(self) -> dict[str, Any]:
        try:
            found = parse_json(self._path.read_text(encoding="utf-8"))
            files = {
                name: entry
                for name, entry in found["files"].items()
                if isinstance(entry, dict)
            }
            return {"audio": found["audio"], "files": files}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {"audio": None, "files": {}}
