"""Archives of packed models: unpacked from anybody."""

import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.work.once import hash_content, make_folder

ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz")
MOST_MEMBERS = 10_000  # files and folders; a model has some ten
LARGEST = 64 << 30  # bytes that the files of an archive may take
RATIO = 200  # times the size of the archive; weights are hardly compressed


def unpack(archive: Path, models: Path) -> Path:
    """Unpack an archive into a folder of ``models``, named by its content.

    One that is there already is used. Only regular files are unpacked, and their names
    are checked here: the filters of Python's modules had holes (CVE-2025-4517). Raises
    InputError: a damaged archive, a file that would be written elsewhere, or more data
    than a model has.
    """
    key = str(hash_content(archive))
    folder = models / key[:20]

    def extract(target: Path) -> None:
        try:
            _extract(archive, target)
        except InputError:
            raise
        # tarfile, zipfile and their decompressors have no common class of errors.
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"{archive}: cannot be unpacked ({reason}): copy or download it again"
            ) from error

    make_folder(folder, key, extract, "packed model")
    return folder


def _extract(archive: Path, target: Path) -> None:
    # Regular files: name, size in bytes, what opens it.
    members: list[tuple[str, int, Callable[[], Any]]]
    with (
        zipfile.ZipFile(archive)
        if archive.suffix == ".zip"
        else tarfile.open(archive) as opened
    ):
        if isinstance(opened, zipfile.ZipFile):
            members = [
                (info.filename, info.file_size, partial(opened.open, info))
                for info in _list_entries(archive, opened.infolist())
                if not info.is_dir()
            ]
        else:
            members = [
                (info.name, info.size, partial(opened.extractfile, info))
                for info in _list_entries(archive, opened)
                if info.isreg()
            ]
        largest = min(LARGEST, RATIO * archive.stat().st_size)
        if sum(size for _, size, _ in members) > largest:
            raise InputError(
                f"{archive}: would take more than {largest / 1e9:.1f} GB: no "
                "archive of a model: do not use it"
            )
        for name, size, file in members:
            path = PurePosixPath(name)
            leads_out = path.is_absolute() or ".." in path.parts
            # A backslash separates folders on Windows.
            if leads_out or "\\" in name or "\0" in name:
                raise InputError(
                    f"{archive}: holds {name!r}, outside of the model: do not use it"
                )
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            # "x": a name that comes twice would replace what was checked
            with file() as source, open(target / path, "xb") as copy:
                shutil.copyfileobj(source, copy)
                # sizes are added up before anything is written, so they must be true
                if copy.tell() != size:
                    raise InputError(
                        f"{archive}: {name} is not of the size that is written in "
                        "it: download it again"
                    )


def _list_entries[T](archive: Path, entries: Iterable[T]) -> list[T]:
    """List the files and folders of an archive, of which a model has few."""
    # A tar file is read no further: its members are found one by one.
    found = list(islice(entries, MOST_MEMBERS + 1))
    if len(found) > MOST_MEMBERS:
        raise InputError(
            f"{archive}: holds more than {MOST_MEMBERS:,} files and folders: no "
            "archive of a model: do not use it"
        )
    return found
