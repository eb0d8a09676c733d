"""Facts: numbers outside of the tables that pages quote, each with how it was measured, in ``results/<name>.json``.

The data of a picture are facts too: ``attention.json`` lies beside ``attention.png``.
"""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import StrictStr, ValidationError

from espnet_ext.errors import InputError
from espnet_ext.tables.kept.result_files import ResultGit, ResultHardware
from espnet_ext.work.files import write_json
from espnet_ext.work.provenance import collect_meta
from espnet_ext.work.settings import StrictMapping, fault, known

VERSION = 1


class FactFile(StrictMapping):
    """All of a file of facts.

    Attributes:
        about: what the numbers are, with their units, in a sentence.
        command, git, versions, date, hardware: how they were made, as results have it.
        values: numbers, texts, lists and mappings of these.
    """

    version: Literal[1]
    about: StrictStr
    command: StrictStr
    git: ResultGit | None
    versions: dict[StrictStr, StrictStr | None]
    date: StrictStr
    hardware: ResultHardware
    values: dict[StrictStr, Any]


def write_facts(path: str | Path, about: str, command: str, values: dict[str, Any]) -> None:
    """Write a file of facts, with the commit, versions and hardware of now."""
    meta = collect_meta(command, Path(__file__).parent)
    write_json(path, {"version": VERSION, "about": about, **meta, "values": values})


def read_facts(path: str | Path) -> dict[str, Any]:
    """Read a file of facts.

    Raises:
        InputError: no such file, not JSON, or keys and values that it cannot have.
    """
    path = Path(path)
    if not path.is_file():
        there = sorted(each.stem for each in path.parent.glob("*.json"))
        raise InputError(f"{path}: no such file of facts; {known(there)}")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        FactFile.model_validate(facts)
    except ValidationError as error:
        raise InputError(f"{path}: not a file of facts: {fault(facts, error)}; write it again") from error
    except ValueError as error:
        raise InputError(f"{path}: not a file of facts ({error}); write it again") from error
    return facts
