"""Do a thing once: a key of all that a result depends on, a note of it beside the result, a lock, and an atomic rename.

This is the only such mechanism of the package. The steps of a recipe (:mod:`espnet_ext.recipe.steps`), the shards of a
data dir (:mod:`espnet_ext.work.shards`) and the synthetic corpora are made by it.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from espnet_ext.errors import InputError
from espnet_ext.work.files import write_json

NOTE = ".made.json"
POLL_SECONDS = 10.0


def fingerprint(*values: Any, files: Iterable[str | Path] = ()) -> str:
    """A hash of JSON values and of the contents of files; files that are missing count as missing.

    >>> fingerprint({"a": 1, "b": (2, 3)}) == fingerprint({"b": [2, 3], "a": 1})
    True
    """
    contents = [[str(path), digest(path)] for path in files]
    return hashlib.sha256(json.dumps([values, contents], sort_keys=True, default=str).encode()).hexdigest()


def digest(path: str | Path) -> str | None:
    """SHA-256 of a file's content, or None if it is no file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None


def is_noted(note: str | Path, key: str) -> bool:
    """Does the note hold this key?"""
    return read_key(note) == key


def read_key(note: str | Path) -> str | None:
    """The key that a note holds; None if there is no note, or none that can be read."""
    try:
        return json.loads(Path(note).read_text(encoding="utf-8"))["key"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_note(note: str | Path, key: str, **more: str) -> None:
    """Write the note that says under which key its result was made, whole or not at all; ``more`` is for people."""
    write_json(note, {"key": key, **more})


@contextmanager
def locked(path: str | Path, on_wait: Callable[[float], None]) -> Iterator[None]:
    """Hold a lock on the file ``path``, which the system drops when this process ends, however it ends.

    Args:
        on_wait: called with 0 when another process holds the lock, and then every ten seconds with the seconds waited.
            Called with NaN where the file system has no locks; then nothing is held.
    """
    lock = FileLock(path)
    waited = 0.0
    while True:
        try:
            lock.acquire(timeout=POLL_SECONDS if waited else 0, poll_interval=0.1)
            break
        except Timeout:
            on_wait(waited)
            waited += POLL_SECONDS
        except NotImplementedError:
            on_wait(float("nan"))
            break
    try:
        yield
    finally:
        lock.release()


@contextmanager
def whole_folder(output: str | Path, key: str, note: str = NOTE) -> Iterator[Path]:
    """Yield a new folder beside ``output``; on success the key is noted in it and it takes the place of ``output``.

    After an error or a kill ``output`` is as it was. Each caller has a folder of its own, so that a worker that was
    given up for dead and still writes harms nobody.
    """
    output = Path(os.path.abspath(output))
    output.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}."))
    try:
        yield folder
        write_note(folder / note, key)
        folder.chmod(0o755)
        if output.exists():
            shutil.rmtree(output)
        folder.rename(output)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def make_folder(output: str | Path, key: str, write: Callable[[Path], None], what: str = "result") -> bool:
    """Fill ``output`` by ``write`` unless it already holds the same thing.

    Args:
        output: the folder. It appears when it is complete.
        key: of all that its bytes depend on.
        write: fills the folder that it is given.
        what: what the folder holds, for the messages.

    Returns:
        False if ``output`` held it already and was left as it is.

    Raises:
        InputError: ``output`` holds something else.
    """
    output = Path(os.path.abspath(output))
    if _holds(output, key, what):
        return False
    output.parent.mkdir(parents=True, exist_ok=True)
    with locked(output.with_name(f".{output.name}.lock"), lambda seconds: None):
        if _holds(output, key, what):  # another process has made it meanwhile
            return False
        for left in output.parent.glob(f".{output.name}.*"):  # of killed runs
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
        with whole_folder(output, key) as folder:
            write(folder)
    return True


def _holds(output: Path, key: str, what: str) -> bool:
    if not os.path.lexists(output):
        return False
    if not output.is_dir():
        raise InputError(f"{output} is not a folder: choose another output")
    found = read_key(output / NOTE)
    if found == key:
        return True
    if found is not None:
        raise InputError(f"{output} holds a {what} of another size, seed or version: remove it or choose another")
    if any(output.iterdir()):
        raise InputError(f"{output} is not empty and not a {what}: choose another output or empty it")
    return False
