"""``results/SHA256SUMS``: the sums of all that a recipe keeps, as ``sha256sum`` writes and checks them."""

import hashlib
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write, files_below

SUMS = "SHA256SUMS"


def sums_text(results: Path) -> str:
    """The contents of ``SHA256SUMS`` for a folder: a line for each file below it, in the order of their names."""
    paths = sorted(path.relative_to(results) for path in files_below(results) if path.name != SUMS)
    return "".join(
        f"{hashlib.sha256((results / path).read_bytes()).hexdigest()}  {path.as_posix()}\n" for path in paths
    )


def write_sums(results: Path) -> None:
    """Write ``SHA256SUMS`` for a folder."""
    text = sums_text(results)
    with atomic_write(results / SUMS) as file:
        file.write(text)


def check_sums(results: Path) -> None:
    """Refuse a folder whose files are not those of its ``SHA256SUMS``.

    Raises:
        InputError: the first file that is changed, missing or not listed, or no ``SHA256SUMS``.
    """
    path = results / SUMS
    if not path.is_file():
        raise InputError(f"{path}: no such file; `espnet-ext table results` writes it")
    listed, found = (_by_file(text) for text in (path.read_text(encoding="utf-8"), sums_text(results)))
    for name in sorted({*listed, *found}):
        if name not in found:
            raise InputError(f"{results / name}: is in {path}, but not there")
        if name not in listed:
            raise InputError(f"{results / name}: not in {path}; keep it with `espnet-ext table results`")
        if listed[name] != found[name]:
            raise InputError(f"{results / name}: changed since it was kept: its sum is not that in {path}")


def _by_file(text: str) -> dict[str, str]:
    return {name: total for total, _, name in (line.partition("  ") for line in text.splitlines())}
