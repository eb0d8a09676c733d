"""Download files that are checked against their published sum, and unpack archives inside their folder only."""

import errno
import hashlib
import http.client
import os
import shutil
import socket
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from espnet_ext.errors import InputError

_ATTEMPTS = 5


def download(url: str, path: str | Path, md5: str, pause: float = 2.0) -> Path:
    """Download ``url`` to ``path``, which appears when it is complete and its sum is right.

    An interrupted transfer stays as ``<path>.part``; this call or the next resumes it. If the file exists already, only
    its sum ``md5`` (hexadecimal) is checked. Before the second attempt are ``pause`` seconds, then twice as many.
    """
    path = Path(path)
    if path.is_file():
        if md5_of(path) != md5:
            raise InputError(f"{path}: its md5 is not the published {md5}: remove it to download it again")
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        problem = _transfer(url, part)
        if problem is None:
            break
    else:
        raise InputError(f"{url}: {problem} ({_ATTEMPTS} attempts): run it again to resume")
    found = md5_of(part)
    if found != md5:
        part.unlink()
        raise InputError(f"{url}: the md5 of the download is {found}, not the published {md5}: removed it; try again")
    os.replace(part, path)
    return path


def _transfer(url: str, part: Path) -> str | None:
    """Download what ``part`` lacks. Returns what went wrong, if trying again may help; None if the file is complete."""
    from lhotse.utils import resumable_download  # Lhotse imports torch

    try:
        with _timeout():
            # Lhotse takes a connection that breaks off for the end of the file, so the length is compared.
            with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as response:
                length = int(response.headers.get("Content-Length") or 0)
            if not part.is_file() or part.stat().st_size < length:
                resumable_download(url, part)
    except urllib.error.HTTPError as error:
        if error.code < 500:
            raise InputError(f"{url}: the server answers {error.code} {error.reason}: check the address") from error
        return f"{error.code} {error.reason}"
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        if isinstance(error, OSError) and (error.filename or error.errno == errno.ENOSPC):
            raise  # our own disk, not the network
        return str(getattr(error, "reason", None) or error) or type(error).__name__
    return "the transfer broke off" if part.stat().st_size < length else None


@contextmanager
def _timeout() -> Iterator[None]:
    """Give up connections without a byte for a minute; Lhotse's transfer would wait forever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(60.0)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def md5_of(path: str | Path) -> str:
    """Return the MD5 sum of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def unpack(archive: str | Path, folder: str | Path) -> None:
    """Unpack a tar archive into ``folder``, which must not exist; a folder of a half-unpacked archive is removed."""
    Path(folder).mkdir(parents=True)
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, tarfile.FilterError):
            what = f"refused to unpack it, as it reaches outside its folder: {error}"
            raise InputError(f"{archive}: {what}") from error
        if isinstance(error, (tarfile.TarError, EOFError, OSError)) and not getattr(error, "errno", None):
            raise InputError(f"{archive}: it cannot be unpacked ({error}): remove it to download it again") from error
        raise  # a full disk, and the like
