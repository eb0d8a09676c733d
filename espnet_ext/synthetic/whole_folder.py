"""A generated folder that is either whole or absent, and that knows what it was made from."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.work.files import write_json

MARKER = ".mini_corpus.json"


@contextmanager
def whole_folder(output: str | Path, parameters: dict[str, Any]) -> Iterator[Path | None]:
    """Yield a folder to fill, which is renamed to ``output`` on success; or None if ``output`` has these parameters.

    After an error or a kill ``output`` is as it was; what a killed run left is cleared by the next.

    Raises:
        InputError: ``output`` holds something else, or another process is making it.
    """
    output = Path(os.path.abspath(output))
    if is_finished(output, parameters):
        yield None
        return
    with _locked(output.with_name(f".{output.name}.partial")) as partial:
        if is_finished(output, parameters):  # by another process, meanwhile
            shutil.rmtree(partial)
            yield None
            return
        try:
            _clear(partial)
            yield partial
            write_json(partial / MARKER, parameters)
            os.replace(partial, output)  # takes the place of an empty folder too
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def make_whole(output: str | Path, parameters: dict[str, Any], write: Callable[[Path], None]) -> bool:
    """Make a mini corpus: fill a folder by ``write``, which then becomes ``output``.

    Args:
        output: The corpus's folder. It appears when it is complete.
        parameters: What decides its bytes, and nothing else: its size, its seed, but not how many processes write it.
        write: Fills the folder that it is given.

    Returns:
        False if ``output`` already held this corpus, and was left as it is.

    Raises:
        InputError: ``output`` holds something else, or another process is making it, or espeak-ng is missing.
    """
    with whole_folder(output, parameters) as folder:
        if folder is None:
            return False
        write(folder)
    return True


def is_finished(output: Path, parameters: dict[str, Any]) -> bool:
    """True if ``output`` was made with ``parameters``, False if it is absent or empty.

    Raises:
        InputError: It holds something else.
    """
    if not os.path.lexists(output):
        return False
    if not output.is_dir():
        raise InputError(f"{output} is not a folder: choose another output")
    marker = output / MARKER
    if not marker.is_file():
        if any(output.iterdir()):
            raise InputError(f"{output} is not empty and not a mini corpus: choose another output or empty it")
        return False
    # Parameters as they come back from JSON, where tuples are lists.
    if json.loads(marker.read_text(encoding="utf-8")) != json.loads(json.dumps(parameters)):
        raise InputError(f"{output} holds a mini corpus of another size, seed or version: remove it or choose another")
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Make ``folder`` if it is missing, and hold a lock on it, which the system drops when this process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another process is writing {folder}: wait until it has finished") from None
        # The process that held it may have renamed or removed the folder since we opened it.
        folder.mkdir(exist_ok=True)
        yield folder
    finally:
        os.close(lock)


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
