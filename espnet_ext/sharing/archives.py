"""Archives of packed models: written by us, and unpacked from anybody."""

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write
from espnet_ext.work.once import digest, make_folder

ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz")
LARGEST = 64 << 30  # bytes that the files of an archive may take
RATIO = 200  # times the size of the archive; weights are hardly compressed


def write_archive(folder: Path, output: Path) -> None:
    """Write the files of a folder as an archive of one of the kinds in ``ARCHIVES``, completely or not at all."""
    files = [(path, str(path.relative_to(folder))) for path in sorted(folder.rglob("*")) if path.is_file()]
    with atomic_write(output, "wb") as packed:
        if output.suffix == ".zip":
            with zipfile.ZipFile(packed, "w") as archive:
                for path, name in files:
                    archive.write(path, name)
        else:
            with tarfile.open(fileobj=packed, mode="w" if output.suffix == ".tar" else "w:gz") as opened:
                for path, name in files:
                    opened.add(path, name)


def unpack(archive: Path, models: Path) -> Path:
    """Unpack an archive into a folder of ``models``, named by its content. One that is there already is used.

    Only regular files are unpacked, and their names are checked here: the filters of Python's modules had holes
    (CVE-2025-4517).

    Raises:
        InputError: a damaged archive, a file that would be written elsewhere, or more data than a model has.
    """
    key = str(digest(archive))
    folder = models / key[:20]

    def extract(target: Path) -> None:
        try:
            _extract(archive, target)
        except InputError:
            raise
        except Exception as error:  # tarfile, zipfile and their decompressors have no common class
            raise InputError(
                f"{archive}: cannot be unpacked ({str(error).partition(chr(10))[0]}): copy or download it again"
            ) from error

    make_folder(folder, key, extract, "packed model")
    return folder


def _extract(archive: Path, target: Path) -> None:
    with _members(archive) as found:
        members = list(found)
        largest = min(LARGEST, RATIO * archive.stat().st_size)
        if sum(size for _, size, _ in members) > largest:
            raise InputError(
                f"{archive}: would take more than {largest / 1e9:.1f} GB: no archive of a model: do not use it"
            )
        for name, size, file in members:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
                raise InputError(f"{archive}: holds {name!r}, outside of the model: do not use it")
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            with file() as source, open(target / path, "xb") as copy:
                shutil.copyfileobj(source, copy)
                if copy.tell() != size:
                    raise InputError(f"{archive}: {name} is not of the size that is written in it: download it again")


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[tuple]]:
    """Open an archive: its regular files as (name, size in bytes, a function that opens it)."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            yield (
                (info.filename, info.file_size, lambda info=info: opened.open(info))
                for info in opened.infolist()
                if not info.is_dir()
            )
    else:
        with tarfile.open(archive) as opened_tar:
            yield (
                (info.name, info.size, lambda info=info: _tar_file(opened_tar, info))
                for info in opened_tar
                if info.isreg()
            )


def _tar_file(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(info)
    assert file is not None  # a regular file
    return file
