"""Trained systems by name and seed, for the scripts here that look into them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.scoring.significance import CrossedTest


def checkpoint(folder: Path, name: str | None) -> Path:
    """A system's checkpoint: the one called ``name``, or the recipe's only average over epochs in its folder."""
    if name:
        return folder / name
    found = [*folder.glob("best*.ave.pth"), *folder.glob("last*.ave.pth")]
    if len(found) != 1:
        raise InputError(f"{folder}: {len(found)} averages over epochs (best<N>.ave.pth): name one by --model")
    return found[0]


def by_name(folders: Sequence[Path]) -> dict[str, dict[str, Path]]:
    """System -> seed -> folder: ``separate_cs`` and ``1`` of ``exp/mini/separate_cs/seed1``.

    Another folder is a system by itself, with its own name and no seed.

    Raises:
        InputError: two folders are the same system and seed.
    """
    found: dict[str, dict[str, Path]] = {}
    for folder in folders:
        name, seed = folder.name, ""
        if folder.name.startswith("seed"):
            name, seed = folder.resolve().parent.name, folder.name.removeprefix("seed")
        if seed in found.setdefault(name, {}):
            raise InputError(f"{folder}: there is another system {name} {seed}: rename its folder")
        found[name][seed] = folder
    return found


def facts_of(test: CrossedTest) -> dict[str, Any]:
    """A test over seeds and speakers as a file of facts has it."""
    return {
        "lower_by": test.difference,
        "ci95": test.ci95 and list(test.ci95),
        "p_value": test.p_value,
        "seeds": test.seeds,
        "speakers": test.units,
    }
