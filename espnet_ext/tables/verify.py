"""Recompute kept tables and claims from the scores that are kept beside them, and compare them digit by digit."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.tables.claims.verdicts import correct
from espnet_ext.tables.kept.facts import read_facts
from espnet_ext.tables.kept.kept_scores import KeptScores, kept_scores
from espnet_ext.tables.kept.pictures import check_picture
from espnet_ext.tables.kept.result_files import SCORES_FILE, kept_folders, read_results, result_files
from espnet_ext.tables.kept.sums import check_sums
from espnet_ext.tables.pages.render import called
from espnet_ext.tables.pages.results_md import recipe_pages, repository_of, repository_pages
from espnet_ext.tables.pages.templates import FACTS
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.table_results import collect_from


@dataclass(frozen=True)
class Verified:
    """A kept table: what it is called, its file, and whether it was recomputed (otherwise only its schema is right)."""

    name: str
    path: Path
    recomputed: bool


def verify_recipe(recipe_dir: str | Path) -> list[Verified]:
    """Recompute all tables and claims that a recipe keeps.

    Tables without kept scores cannot be recomputed; their schema, and that their means, spreads and counts fit each
    other, is checked. ``RESULTS.md``, and the rendered sections of the recipe's and the repository's other pages, must
    be what the kept files give.

    Raises:
        InputError: nothing is kept, a file that is not as its schema has it, or the first number that differs; with
            file and place.
    """
    recipe_dir = Path(recipe_dir)
    folders = kept_folders(recipe_dir / "results")
    if not any(result_files(folder) for folder in folders):
        raise InputError(f"{recipe_dir / 'results'}: nothing is kept there; give the folder of a recipe with results")
    found = [each for folder in folders for each in _verify_folder(recipe_dir, folder)]
    for picture in sorted((recipe_dir / "results").rglob("*.png")):
        check_picture(picture)
    pages = recipe_pages(recipe_dir)
    if root := repository_of(recipe_dir):
        pages |= repository_pages(root)
    _verify_pages(pages, f"espnet-ext table results --recipe {recipe_dir}")
    for facts in sorted((recipe_dir / "results").glob("*.json")):
        read_facts(facts)
    check_sums(recipe_dir / "results")
    if root and (root / FACTS).is_dir():
        check_sums(root / FACTS)
    return found


def _verify_folder(recipe_dir: Path, folder: Path) -> list[Verified]:
    paths = result_files(folder)
    kept = [read_results(path) for path in paths]
    source = kept_scores(folder / SCORES_FILE) if any(result["scores"] for result in kept) else None
    made = correct([_recomputed(recipe_dir, result, source) for result in kept])
    for path, old, new in zip(paths, kept, made, strict=True):
        if difference := first_difference(old, new):
            what = "its scores give" if old["scores"] else "the tables beside it give"
            raise InputError(f"{path}: {difference[0]} is {difference[1]}, but {what} {difference[2]}")
    return [
        Verified(called(result), path, result["scores"] is not None) for path, result in zip(paths, kept, strict=True)
    ]


def _recomputed(recipe_dir: Path, result: dict[str, Any], source: KeptScores | None) -> dict[str, Any]:
    if not result["scores"] or source is None:
        return result
    tables = load_tables(recipe_dir / "conf" / "tables.yaml", result["scale"])
    if result["table"] not in tables.tables:
        raise InputError(f"{tables.path}: has no {called(result)}, which is kept in {recipe_dir / 'results'}")
    meta = result["meta"]
    return collect_from(tables, tables.tables[result["table"]], source, result["scale"], meta["corpus"], meta)


def _verify_pages(pages: Mapping[Path, str], command: str) -> None:
    """Pages must be what ``table results`` writes."""
    for path, made in pages.items():
        if not path.is_file():
            raise InputError(f"{path}: no such file; write it with `{command}`")
        old, new = (text.split("\n") for text in (path.read_text(encoding="utf-8"), made))
        for number in range(max(len(old), len(new))):
            if old[number : number + 1] != new[number : number + 1]:
                raise InputError(
                    f"{path}: line {number + 1} is not what the kept results give; write it with `{command}`"
                )


def first_difference(old: Any, new: Any, place: str = "") -> tuple[str, Any, Any] | None:
    """The first place where two JSON values differ, with both values; None if they are equal.

    >>> first_difference({"rows": [{"a": 1}]}, {"rows": [{"a": 2}]})
    ('rows[0].a', 1, 2)
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            where = f"{place}.{key}" if place else str(key)
            if key not in old or key not in new:
                return where, old.get(key, "missing"), new.get(key, "missing")
            if found := first_difference(old[key], new[key], where):
                return found
        return None
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return place, f"{len(old)} items", f"{len(new)} items"
        pairs = enumerate(zip(old, new, strict=True))
        return next((found for i, pair in pairs if (found := first_difference(*pair, f"{place}[{i}]"))), None)
    return None if old == new else (place, old, new)
