"""Download files that are checked against their published sum, and unpack archives inside their folder only.

``lhotse.utils.resumable_download`` is not used: it takes a connection that breaks off for the end of the file, and
appends the whole file to the part that is there if the server does not know ranges.
"""

import hashlib
import http.client
import os
import shutil
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from espnet_ext.errors import InputError

_BLOCK = 1 << 20  # bytes
_ATTEMPTS = 5
_TIMEOUT = 60.0  # seconds without a byte


def download(url: str, path: str | Path, md5: str, pause: float = 2.0) -> Path:
    """Download ``url`` to ``path``, which appears when it is whole and its sum is right.

    What has come of a broken transfer stays as ``<path>.part``, and this call or the next goes on from there.

    Args:
        url: Where the file is.
        path: Where it goes. If it is there already, only its sum is checked.
        md5: The published sum, in hexadecimal.
        pause: Seconds before the first new attempt; each later one waits twice as long.

    Raises:
        InputError: The server cannot be reached or refuses, or the file's sum is another.
    """
    path = Path(path)
    if path.is_file():
        if md5_of(path) != md5:
            raise InputError(f"{path}: its md5 is not the published {md5}: remove it to download it again")
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    for attempt in range(_ATTEMPTS):
        try:
            if _fetch(url, part):
                break
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise InputError(f"{url}: the server answers {error.code} {error.reason}: check the address") from error
            problem = f"{error.code} {error.reason}"
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            if isinstance(error, OSError) and error.filename:
                raise  # our own disk, not the network
            problem = str(getattr(error, "reason", None) or error) or type(error).__name__
        else:
            problem = "the transfer broke off"
        if attempt + 1 == _ATTEMPTS:
            raise InputError(f"{url}: {problem} ({_ATTEMPTS} attempts): run it again to go on where it broke off")
        time.sleep(pause * 2**attempt)
    found = md5_of(part)
    if found != md5:
        part.unlink()
        raise InputError(f"{url}: the md5 of what came is {found}, not the published {md5}: it was removed; try again")
    os.replace(part, path)
    return path


def _fetch(url: str, part: Path) -> bool:
    """Get what ``part`` lacks. Returns True if it is whole, False if the transfer broke off."""
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return True  # nothing is missing, unless the sum says otherwise
        raise
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            have = 0  # the server knows no ranges and sends the whole file
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with (
            open(part, "ab" if have else "wb") as file,
            tqdm(desc=part.stem, total=total, initial=have, unit="B", unit_scale=True, mininterval=5) as progress,
        ):
            while block := response.read(_BLOCK):
                file.write(block)
                progress.update(len(block))
    return total is None or part.stat().st_size == total


def md5_of(path: str | Path) -> str:
    """The MD5 sum of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def unpack(archive: str | Path, folder: str | Path) -> None:
    """Unpack a tar archive into ``folder``, which must not exist: it is there whole, or not at all.

    Raises:
        InputError: The archive cannot be read, or has a member that would lie outside ``folder``, or is no plain file,
            folder or link inside it.
    """
    folder = Path(folder)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(partial, filter="data")
        os.rename(partial, folder)
    except tarfile.FilterError as error:
        raise InputError(f"{archive}: refused to unpack it, as it reaches outside its folder: {error}") from error
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise  # a full disk, and the like
        raise InputError(f"{archive}: it cannot be unpacked ({error}): remove it to download it again") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
