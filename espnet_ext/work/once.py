"""Do work once: by a key of all that a result depends on, a note, a lock, a rename.

The note has the key, and stands beside the result; the rename is atomic.

Steps of recipes (:mod:`espnet_ext.recipe.steps`), shards
(:mod:`espnet_ext.work.shards`) and synthetic corpora use it.
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
from espnet_ext.work.files import list_files_below, write_json

NOTE = ".made.json"
POLL_SECONDS = 10.0


def fingerprint(*values: Any, files: Iterable[str | Path] = ()) -> str:
    """Return a hash of JSON values and of the contents of files.

    That a file is missing also counts.

    >>> fingerprint({"a": 1, "b": (2, 3)}) == fingerprint({"b": [2, 3], "a": 1})
    True
    """
    contents = [[str(path), hash_content(path)] for path in files]
    # Sorted, as the order of keys in a mapping says nothing.
    text = json.dumps([values, contents], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_content(path: str | Path) -> str | None:
    """Return the SHA-256 of a file's content, or None if there is no such file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None


def stamp_folders(*folders: Path) -> str:
    """Return a hash of the absolute names, sizes and times of all files below folders.

    It changes when a file does, but no file need be read: a corpus has terabytes.
    """
    stamps: list[list[Any]] = []
    for folder in folders:
        for path in list_files_below(folder):
            stamp = None  # of a broken link
            if path.exists():
                status = path.stat()
                stamp = (status.st_size, status.st_mtime_ns)
            stamps.append([os.path.abspath(path), stamp])
    return fingerprint(stamps)


def read_note(note: str | Path) -> dict[str, Any]:
    """Return what a note holds; nothing if there is no note or it cannot be read."""
    try:
        found = json.loads(Path(note).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_key(note: str | Path) -> str | None:
    """Return the key in a note; None if there is no note or it cannot be read."""
    return read_note(note).get("key")


def write_note(note: str | Path, key: str, **more: Any) -> None:
    """Write a note with the key of a result, completely or not at all.

    ``more`` says what the key is made of, and whose it is.
    """
    write_json(note, {"key": key, **more})


@contextmanager
def hold_lock(path: str | Path, on_wait: Callable[[float], None]) -> Iterator[None]:
    """Hold a lock on the file ``path``.

    The system releases it when this process ends, also if it is killed. ``on_wait`` is
    called with 0 if another process holds the lock, and then every ten seconds with the
    seconds waited; with NaN if the file system has no locks: then nothing is locked.
    """
    lock = FileLock(path)
    waited = 0.0
    while not lock.is_locked:
        try:
            lock.acquire(timeout=POLL_SECONDS if waited else 0, poll_interval=0.1)
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
def replace_folder(output: str | Path, key: str, note: str = NOTE) -> Iterator[Path]:
    """Yield a new folder beside ``output``, which it replaces on success.

    The key is noted in it. After an error or a kill ``output`` is unchanged. Each
    caller has its own folder, so a worker that was considered dead and still writes
    does no harm.
    """
    output = Path(os.path.abspath(output))
    output.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}."))
    try:
        yield folder
        write_note(folder / note, key)
        # mkdtemp lets only the owner read.
        folder.chmod(0o755)
        # A folder that is not empty cannot be replaced by a rename.
        if output.exists():
            shutil.rmtree(output)
        folder.rename(output)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def make_folder(
    output: str | Path, key: str, write: Callable[[Path], None], what: str = "result"
) -> bool:
    """Fill ``output`` with ``write``, unless it holds the result of this key already.

    Returned is False if it did, and was left unchanged. The folder appears when it is
    complete. ``what`` names the result in messages.
    """
    output = Path(os.path.abspath(output))
    if _holds_result(output, key, what):
        return False
    output.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(output.with_name(f".{output.name}.lock"), lambda seconds: None):
        # Another process may have made it meanwhile.
        if _holds_result(output, key, what):
            return False
        # With the lock held, folders of this name are of killed runs.
        for left in output.parent.glob(f".{output.name}.*"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
        with replace_folder(output, key) as folder:
            write(folder)
    return True


def _holds_result(output: Path, key: str, what: str) -> bool:
    """Return whether a folder holds a result; InputError if it holds anything else."""
    if not os.path.lexists(output):
        return False
    if not output.is_dir():
        raise InputError(f"{output} is not a folder: choose another output")
    found = read_key(output / NOTE)
    if found not in (key, None):
        raise InputError(
            f"{output} holds a {what} of another size, seed or version: remove it "
            "or choose another"
        )
    if found is None and any(output.iterdir()):
        raise InputError(
            f"{output} is not empty and not a {what}: choose another output or empty it"
        )
    return found == key
