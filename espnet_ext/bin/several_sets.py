"""Commands that make several sets in one process, so that what they import and load is loaded once."""

import argparse
import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write

HELP = "file with a set's own options in each line, besides those given here; sets that are made already are left alone"


def split_sets(argv: Sequence[str]) -> list[list[str]]:
    """The command lines of the sets that ``--sets FILE`` lists, or the one there is without it.

    Raises:
        InputError: a file that cannot be read, holds no set, or has a line whose quotes do not close.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--sets", type=Path)
    known, common = parser.parse_known_args(argv)
    if known.sets is None:
        return [common]
    try:
        lines = [shlex.split(line) for line in known.sets.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"--sets {known.sets}: {error}: give a file with the options of a set in each line") from None
    if not any(lines):
        raise InputError(f"--sets {known.sets}: it lists no set: give the options of one in each line")
    return [[*common, *line] for line in lines if line]


def make_once(
    output: Path, settings: Mapping[str, Any], files: Iterable[str | Path], last: str, make: Callable[[], None]
) -> bool:
    """Call ``make`` unless ``output`` is what it made before of the same settings and files. Returns whether it did.

    Args:
        output: the set's folder, which gets a note of what it is made from, ``.made``.
        settings: what can be written as JSON.
        files: their contents count; those that are missing do not, since ``make`` will say so.
        last: the file in ``output`` without which the set is not made, whatever the note says.
    """
    digests = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in files if Path(path).is_file()]
    key = hashlib.sha256(json.dumps([settings, digests], sort_keys=True, default=str).encode()).hexdigest()
    note = output / ".made"
    if (output / last).is_file() and note.is_file() and note.read_text(encoding="utf-8") == key:
        return False
    note.unlink(missing_ok=True)
    make()
    with atomic_write(note) as file:
        file.write(key)
    return True
