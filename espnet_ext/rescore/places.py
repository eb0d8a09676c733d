"""Where language models and results lie; without torch and transformers, which take seconds to import."""

from collections.abc import Iterable
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.work.files import refuse_input

RESULTS = ("nbest.jsonl", "text", "ref", "interpolation.json", "curve.json", "curve.png")  # of a second pass
OLDER = RESULTS[:2]  # what folders hold that were written before there was a mark
MARK = ".rescored"


def check_place(name: str | Path) -> None:
    """Refuse a path that is no folder; a hub name is ``model`` or ``user/model``.

    Raises:
        InputError: names it.
    """
    text = str(name)
    is_path = text.startswith((".", "/", "~")) or text.count("/") > 1 or Path(text).is_file()
    if is_path and not Path(text).is_dir():
        raise InputError(f"{text}: no such folder of a language model: check the path")


def check_output(folder: Path, inputs: Iterable[Path | None]) -> None:
    """Refuse a folder in which a second pass would replace what it reads, or what it has not written.

    Raises:
        InputError: names the file or the folder.
    """
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise InputError(f"{folder}: is no folder: name one for the results")
    inputs = list(inputs)
    for path in (folder, *(folder / name for name in RESULTS)):
        refuse_input(path, inputs)
    other = next((folder / name for name in RESULTS if (folder / name).exists()), None)
    if other and not _is_ours(folder):
        raise InputError(f"{other}: was not written by rescore, and would be replaced: name another folder")


def begin_output(folder: Path) -> None:
    """Mark a folder as that of a second pass, and remove the results of an earlier one."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in RESULTS if _is_ours(folder) else ():
        (folder / name).unlink(missing_ok=True)
    (folder / MARK).touch()


def _is_ours(folder: Path) -> bool:
    return (folder / MARK).exists() or all((folder / name).exists() for name in OLDER)
