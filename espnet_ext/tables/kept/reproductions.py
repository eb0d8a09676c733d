"""What other people got with a recipe: ``results/reproductions/<name>.json``, one file for each of their runs.

A file holds tables as a run writes them, with command, commit and hardware, but only the rows that have results.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import StrictStr, ValidationError

from espnet_ext.errors import InputError
from espnet_ext.tables.kept.result_files import REPRODUCTIONS, check_result, read_results, some_result_files
from espnet_ext.work.files import write_json
from espnet_ext.work.settings import StrictMapping, fault

VERSION = 1


class ReproductionFile(StrictMapping):
    """A run of somebody else.

    Attributes:
        by: a name, as its owner wants to be called.
        address: a page or an e-mail address for questions; may be empty.
        results: tables and figures, each as ``table<T>.json`` has it.
    """

    version: Literal[1]
    by: StrictStr
    address: StrictStr
    results: list[dict[StrictStr, Any]]


def keep_reproduction(folder: Path, kept: Path, by: str, address: str = "") -> Path:
    """Write the results of a run as those of ``by``; return the file. An earlier one of the same run is replaced.

    Args:
        folder: a run's ``results``.
        kept: ``results`` of the recipe.

    Raises:
        InputError: no name, no results, or results without a command or a commit, which nobody could repeat.
    """
    name = "-".join(re.findall(r"\w+", by.lower()))
    if not name:
        raise InputError(f"--by {by!r}: give the name under which the results shall stand")
    results = [_with_results(read_results(path)) for path in some_result_files(folder)]
    results = [result for result in results if result["rows"]]
    if not results:
        raise InputError(f"{folder}: no row has a result: run the recipe first")
    value = {"version": VERSION, "by": by.strip(), "address": address, "results": results}
    first = results[0]
    path = kept / REPRODUCTIONS / f"{name}-{first['scale']}-{first['meta']['corpus']}.json"
    check_reproduction(value, path)
    write_json(path, value)
    return path


def _with_results(result: Mapping[str, Any]) -> dict[str, Any]:
    rows = [row for row in result["rows"] if any(cell["here"] for cell in row["cells"].values())]
    return {**result, "rows": rows, "scores": None}


def read_reproductions(kept: Path) -> list[dict[str, Any]]:
    """All reproductions of a recipe, in the order of their files' names.

    Raises:
        InputError: a file that :func:`check_reproduction` refuses.
    """
    found = []
    for path in sorted((kept / REPRODUCTIONS).glob("*.json")):
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path}: not JSON ({error}): write it with espnet-ext table results --by") from error
        check_reproduction(value, path)
        found.append(value)
    return found


def check_reproduction(value: Any, path: Path) -> None:
    """Refuse a file that is not as its version has it, or that nobody could repeat.

    Raises:
        InputError: an unknown or missing key, a table that is not one of results, rows without results, results of
            another recipe, or no command or commit.
    """
    try:
        file = ReproductionFile.model_validate(value)
    except ValidationError as error:
        raise InputError(f"{path}: not a reproduction: {fault(value, error)}") from error
    recipe = path.resolve().parents[2].name
    for result in file.results:
        check_result(result, path)
        where = f"{path}: table {result['table']}"
        if result["recipe"] != recipe:
            raise InputError(f"{where}: of the recipe {result['recipe']}, in the folder of {recipe}")
        if not all(any(cell["here"] for cell in row["cells"].values()) for row in result["rows"]) or not result["rows"]:
            raise InputError(f"{where}: a row without a result: leave it out")
        if not result["meta"]["command"] or result["meta"]["git"] is None:
            raise InputError(f"{where}: no command or no commit: run the recipe's run.sh in a git checkout")


def by_table(reproductions: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    """Table -> the names and results of those who have it."""
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for reproduction in reproductions:
        for result in reproduction["results"]:
            found.setdefault(result["table"], []).append((reproduction["by"], result))
    return found
