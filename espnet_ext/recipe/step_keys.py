"""What the result of a step depends on: its key, and how two of them differ.

Paths below the folders of a run are named after these (``EXPDIR/stats``), so that a run
is the same in a folder of another name.
"""

import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write
from espnet_ext.work.once import fingerprint, hash_content, read_note
from espnet_ext.work.yaml_files import read_yaml

# Configs up to this size are kept in notes, so that a refusal can name the value that
# differs; a vocabulary in them makes them larger.
MOST_BYTES = 100_000
SHOWN = 3

# a name such as EXPDIR -> the names that this folder has, or has had; never changed
NO_FOLDERS: Mapping[str, Sequence[str]] = MappingProxyType({})
_folders = ContextVar("folders", default=NO_FOLDERS)


@dataclass(frozen=True)
class StepKey:
    """The key of a step's result, and what it is made of.

    ``made_of`` has the ``function``, its ``arguments``, what else it ``depends`` on,
    and the ``files`` with their hashes; ``values`` has the content of configs.
    """

    key: str
    made_of: Mapping[str, Any]


@contextmanager
def named_folders(folders: Mapping[str, Iterable[str | Path]]) -> Iterator[None]:
    """In this block, keys of steps are the same however these folders are called."""
    names = {name: [str(path) for path in paths] for name, paths in folders.items()}
    token = _folders.set(names)
    try:
        yield
    finally:
        _folders.reset(token)


def list_spellings(path: Path) -> list[str]:
    """Return the names of a folder: as it is given, absolute, and from here."""
    absolute = os.path.abspath(path)
    names = [str(path), absolute, os.path.relpath(absolute)]
    # A bare word is no path; one that leads upward is one only by chance.
    return [
        name
        for name in dict.fromkeys(names)
        if os.sep in name and not name.startswith("..")
    ]


def make_key(
    function: Callable[..., object],
    arguments: Mapping[str, Any],
    depends: object,
    files: Iterable[Path],
) -> StepKey:
    """Make the key of a call whose result depends on its arguments and these files."""
    hashes = {}
    values = {}
    for path in files:
        name = name_paths(str(path))
        hashes[name] = hash_file(path)
        is_config = path.suffix == ".yaml" and path.is_file()
        if is_config and path.stat().st_size <= MOST_BYTES:
            values[name] = make_plain(read_yaml(path))
    # ``values`` are for messages alone: the key has the hashes of these files already
    made_of = {
        # without its module: where a function is kept says nothing about its result
        "function": function.__qualname__,
        "arguments": make_plain(arguments),
        "depends": make_plain(depends),
        "files": hashes,
    }
    return StepKey(fingerprint(made_of), {**made_of, "values": values})


def name_paths(text: str) -> str:
    """Replace the folders of the run in a text by their fixed names."""
    for name, paths in _folders.get().items():
        if not paths:
            continue
        # one name begins another if a folder was moved below its old place
        longest_first = sorted(map(re.escape, paths), key=len, reverse=True)
        # whole names: ``exp/mini`` is not the beginning of ``exp/mini.rehearsal``
        pattern = rf"(?<![\w./+-])(?:{'|'.join(longest_first)})(?![\w.+-])"
        text = re.sub(pattern, name, text)
    return text


def restore_folders(text: str) -> str:
    """Replace the fixed names of a run's folders by what these are called now."""
    for name, paths in _folders.get().items():
        if paths:
            # a path may hold what looks like a reference to a group
            now = paths[0].replace("\\", r"\\")
            text = re.sub(rf"\b{name}\b", now, text)
    return text


def follow_moved_folders(folder: Path) -> list[Path]:
    """Correct the paths in configs below a folder of a run whose folders were moved.

    They name the folders as these were called when a training wrote them, and ESPnet
    looks for such files, as statistics, when it decodes. Return the configs changed.
    """
    places: set[str] = set()
    earlier: list[str] = []
    for paths in _folders.get().values():
        places.update(os.path.realpath(path) for path in paths[:1])
        earlier += paths[1:]
    # other spellings of the same folders: nothing was moved, and no config is read
    if all(os.path.realpath(name) in places for name in earlier):
        return []
    changed = []
    for path in sorted(folder.rglob("config.yaml")):
        # a path may have bytes that are no text; they must come back as they were
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        new = restore_folders(name_paths(text))
        if new != text:
            with atomic_write(path, "wb") as file:
                file.write(new.encode(errors="surrogateescape"))
            changed.append(path)
    return changed


def hash_file(path: Path) -> str | None:
    """Return the hash of a file; None if there is no such file."""
    if path.suffix != ".yaml" or not path.is_file():
        return hash_content(path)
    # a config that a run has written holds its folders, which may have another name now
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    named = name_paths(text).encode(errors="surrogateescape")
    return hashlib.sha256(named).hexdigest()


def make_plain(value: Any) -> Any:
    """Return a value as JSON has it, with the run's folders by their fixed names."""
    if isinstance(value, BaseModel):
        return make_plain(value.model_dump())
    if hasattr(value, "__dataclass_fields__") and not inspect.isclass(value):
        return make_plain(vars(value))
    if isinstance(value, Mapping):
        return {str(name): make_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [make_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        # the order of a set of texts is another in each process
        return sorted(make_plain(each) for each in value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return name_paths(str(value))


def refuse_other_work(step: str, folder: Path, note: Path, key: StepKey) -> None:
    """Raise InputError if work was begun under another key, and say what differs.

    ``note`` holds the key under which the work in ``folder`` was begun.
    """
    begun = read_note(note)
    if begun.get("key") in (None, key.key):
        return
    place = f"{step}: {folder}"
    old = begun.get("made_of")
    if not isinstance(old, Mapping):
        raise InputError(
            f"{place} was begun by an earlier version, which did not note with what: "
            f"if that was the same, remove its note (rm {note}) and "
            f"run the same command again, which resumes; otherwise remove it "
            f"(rm -r {folder}) or give another --expdir"
        )
    settings = list_differing_settings(old, key.made_of)
    files = list_differing_files(old, key.made_of)
    if settings:
        raise InputError(
            f"{place} was begun with other settings: {show_first(settings)}: give "
            "the old ones again, or another --expdir, or begin anew without what is "
            f"there (rm -r {folder})"
        )
    raise InputError(
        f"{place} was begun with other data: {show_first(files)}: if that is damage, "
        "remove it and run the same command again, which makes it anew; if the data "
        "are others, give another --expdir, or begin anew without what is there "
        f"(rm -r {folder})"
    )


def show_first(differences: Sequence[str]) -> str:
    """Return the first differences, and the number of the others."""
    more = len(differences) - SHOWN
    text = restore_folders("; ".join(differences[:SHOWN]))
    return f"{text}; and {more} more" if more > 0 else text


def list_differing_settings(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> list[str]:
    """Return what differs in arguments and configs: a name, its old and new value."""
    found = []
    if old.get("function") != new["function"]:
        found.append(f"function {old.get('function')}, now {new['function']}")
    found += _compare(old.get("arguments"), new["arguments"])
    before = old.get("values", {})
    after = new["values"]
    for name in after:
        if name in before:
            found += [f"{name}: {each}" for each in _compare(before[name], after[name])]
    return found


def list_differing_files(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the files that differ, or that only one of the two depends on."""
    before = old.get("files", {})
    after = new["files"]
    found = []
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) == after.get(name):
            continue
        how = "has changed"
        if name not in before or before[name] is None:
            how = "was not there"
        elif name not in after or after[name] is None:
            how = "is not there"
        found.append(f"{name} {how}")
    if old.get("depends") != new["depends"]:
        found.append("files of the corpus have changed")
    return found


def _compare(old: Any, new: Any) -> list[str]:
    before = _flatten(old)
    after = _flatten(new)
    found = []
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) == after.get(name):
            continue
        found.append(
            f"{name} {_show_value(before, name)}, now {_show_value(after, name)}"
        )
    return found


def _show_value(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "not given"
    text = json.dumps(values[name], ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _flatten(value: Any, place: str = "") -> dict[str, Any]:
    """Return the values of nested mappings by dotted names."""
    # the command line of a training: compared by option, wherever it stands in the line
    if isinstance(value, list) and any(str(word).startswith("--") for word in value):
        return _group_by_option(value)
    if not isinstance(value, Mapping):
        return {place: value}
    found: dict[str, Any] = {}
    for name, each in value.items():
        found |= _flatten(each, f"{place}.{name}" if place else str(name))
    return found


def _group_by_option(words: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    option = ""  # of the words before the first
    for word in words:
        if str(word).startswith("--"):
            option = str(word)
            found.setdefault(option, [])
        else:
            found.setdefault(option, []).append(word)
    return {
        name: values[0] if len(values) == 1 else values
        for name, values in found.items()
    }
