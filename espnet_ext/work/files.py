"""Write files completely or not at all; JSON, and the files below a folder."""

import fcntl
import gzip
import io
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from espnet_ext.errors import InputError

_GZIP = b"\x1f\x8b"  # how such files begin
# How others begin, which are not unpacked.
_PACKED = {
    b"BZh91AY&SY": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
}


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO]:
    """Open a temporary file (text: UTF-8) beside ``path`` and rename it on success.

    An error leaves ``path`` alone. Of a link, its target is written. What is no regular
    file, such as a pipe or ``/dev/stdout``, is written to directly.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder: name a file")
    encoding = None if "b" in mode else "utf-8"
    if is_special(path):
        with open(path, mode, encoding=encoding) as file:
            yield file
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, as only within a file system a rename is atomic.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, mode, encoding=encoding) as file:
            yield file
            # On the disk before it has the name, or after a power cut the name might
            # stand for an empty file.
            file.flush()
            os.fsync(file.fileno())
        # mkstemp lets only the owner read. The mask can only be read by setting
        # another.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        # A full disk: name what could not be written.
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


def is_special(path: Path) -> bool:
    """Return whether a path leads to a pipe, a device or a file that is open."""
    # /dev/stdout may be a regular file that others write to as well: it must stay.
    if path.is_absolute() and path.parts[1:2] in (("dev",), ("proc",)):
        return True
    return path.exists() and not path.is_file()


@contextmanager
def open_scratch_folder(output: Path) -> Iterator[Path]:
    """Yield a temporary folder beside what is to be written, locked by this process.

    Those of killed runs are removed.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{output.name}.espnet_ext."
    # A lock ends with its process: what can be locked is nobody's any more.
    for left in output.parent.glob(f"{escape(prefix)}*"):
        with suppress(OSError), _lock_folder(left):
            shutil.rmtree(left, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(dir=output.parent, prefix=prefix) as name,
        _lock_folder(name),
    ):
        yield Path(name)


@contextmanager
def _lock_folder(folder: str | Path) -> Iterator[None]:
    """Hold a lock on a folder; an OSError says that another process has it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


@contextmanager
def open_unpacked(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes, unpacked if it is gzipped, whatever its name.

    Raises InputError: it is packed in another way, or broken.
    """
    with open(path, "rb") as file:
        # By peek, so that nothing is lost of a pipe, which cannot go back.
        for begin, packer in _PACKED.items():
            if file.peek(len(begin))[: len(begin)] == begin:
                raise InputError(
                    f"{path}: packed with {packer}, which is not read: unpack it, or "
                    "pack it with gzip"
                )
        if file.peek(2)[:2] != _GZIP and Path(path).suffix != ".gz":
            yield file
            return
        try:
            with gzip.open(file) as content:
                yield cast(BinaryIO, content)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(
                f"{path}: cannot be read as gzip ({error}): write or download it again"
            ) from None


@contextmanager
def atomic_write_text(path: str | Path) -> Iterator[IO[str]]:
    """Write text as :func:`atomic_write` does, gzipped if it is called .gz.

    The same text gives the same bytes.
    """
    if Path(path).suffix != ".gz":
        with atomic_write(path) as file:
            yield file
        return
    # Gzip's header has a name and a time; both are left out.
    with (
        atomic_write(path, "wb") as packed,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as stream,
        io.TextIOWrapper(stream, encoding="utf-8") as file,
    ):
        yield file


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON, completely or not at all."""
    with atomic_write(path) as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def parse_json(
    text: str, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Parse JSON, with a ValueError for all that cannot be read or written again.

    What is nested too deeply is such, and half of a surrogate pair. A whole number
    beyond the range of a float is read as infinity, like ``1e999``.
    """
    try:
        value = json.loads(
            text, parse_int=_parse_int, object_pairs_hook=object_pairs_hook
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    # Only an escape \ud800 to \udfff can make one, and texts with one are rare.
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError(
                "half of a surrogate pair, which is no character"
            ) from None
    return value


def refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that comes twice in an object, as a hook of :func:`parse_json`.

    Python takes the last in silence.
    """
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        raise InputError(
            f"{max(keys, key=keys.count)} comes twice in one object: keep one"
        )
    return table


def _parse_int(digits: str) -> int | float:
    # As a float first: int() takes the square of the digits' number in time, and Python
    # refuses more than 4,300 of them.
    number = float(digits)
    return number if abs(number) == float("inf") else int(digits)


def refuse_input(
    output: str | Path | None, inputs: Iterable[str | Path | None]
) -> None:
    """Refuse a file to write that is one of those to read."""
    read = {Path(path).resolve() for path in inputs if path is not None}
    if output is not None and Path(output).resolve() in read:
        raise InputError(
            f"{output}: is named twice, and would be replaced: name another file "
            "or folder to write"
        )


def is_utf8(path: str | Path) -> bool:
    """Return whether the bytes of a path are text, which files can be written with."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def expand_home(value: str | Path) -> Path:
    """Return a path as a user writes it, with the home folder for ``~``.

    A shell leaves the ``~`` in ``--output=~/x`` as it is. Raises InputError: no such
    user.
    """
    path = Path(value)
    first = path.parts[0] if path.parts else ""
    if not first.startswith("~") or os.path.lexists(first):
        return path
    try:
        return path.expanduser()
    except RuntimeError:
        raise InputError(
            f"{value}: there is no user {first[1:]!r}: write the whole path, or "
            f"./{value} for a folder of this name"
        ) from None


def list_files_below(
    folder: str | Path, unreadable: Callable[[OSError], None] | None = None
) -> Iterator[Path]:
    """List all files below ``folder``, in the same order on every machine.

    There are no files if the folder is not there. Links to folders are followed, since
    large parts of a corpus are often elsewhere, but not one to a folder above it. A
    broken link counts as a file. A folder that cannot be read raises InputError, or
    ``unreadable`` gets its error.
    """

    onerror = unreadable or _refuse_unreadable
    for parent, folders, names in os.walk(folder, followlinks=True, onerror=onerror):
        # In place: os.walk goes into what is left in the list, in its order.
        folders[:] = sorted(
            name for name in folders if not _leads_back(Path(parent, name))
        )
        for name in sorted(names):
            yield Path(parent, name)


def _refuse_unreadable(error: OSError) -> None:
    """Refuse a folder that cannot be read, other than one that is not there."""
    if not isinstance(error, FileNotFoundError):
        raise InputError(
            f"{error.filename}: cannot be read ({error.strerror}): give yourself "
            "permission, or name others"
        )


def _leads_back(path: Path) -> bool:
    """Return whether a path is a link to a folder above it."""
    if not path.is_symlink():
        return False
    return path.parent.resolve().is_relative_to(path.resolve())
