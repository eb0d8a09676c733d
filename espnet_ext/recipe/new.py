"""A new recipe from the template beside this file."""

import re
import shutil
from pathlib import Path

from espnet_ext.errors import InputError

TEMPLATE = Path(__file__).parent / "template"
PLACEHOLDER = "NAME"


def new_recipe(name: str, parent: Path) -> Path:
    """Write and return ``parent/name``: a recipe that runs, with a baseline and one other system on LibriSpeech.

    ``parent`` is the folder ``egs`` of a checkout, since run.sh uses ``../../utils`` and ``../../conf``.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise InputError(f"{name!r}: a recipe is named in lower-case letters, digits and _, such as librispeech_sem")
    if not (parent.parent / "utils" / "parse_options.sh").is_file():
        raise InputError(f"{parent}: give the folder egs of a checkout, which has utils/ beside it")
    folder = parent / name
    if folder.exists():
        raise InputError(f"{folder} is there already: choose another name")
    shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            path.write_text(path.read_text(encoding="utf-8").replace(PLACEHOLDER, name), encoding="utf-8")
    return folder
