"""What a recipe's folders hold: runs with their tables, trainings, decodings and figures, and results that are kept.

A *run* is what ``run.sh`` calls ``--expdir``, such as ``exp/mini``:

    results/meta.json, scores.csv.gz and figure<F>.png
    <system>/seed<N>/log/train.log, or training.json of a training by this package
    <system>/seed<N>/decode_<decoding>/<test set>/score.json, alignment.txt
    lm/log/train.log, lm/seed<N>/<name>/training.json
    **/*.png
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.tables.publish import kept_folders
from espnet_ext.tables.reading import Tables, load_tables
from espnet_ext.tables.score_table import META

TABLES = "conf/tables.yaml"
# Pictures that are not results: ESPnet's own curves and attention plots of every epoch, and those beside logs. Pictures
# in the tables' folder are shown with their tables.
_NO_FIGURES = {"images", "att_ws", "tensorboard", "log", "stats", "results"}
_ADVICE = "give a recipe's folder of experiments, egs/<recipe>/exp"
_SEED = re.compile(r"seed(\d+)")


@dataclass(frozen=True)
class ScoredDecoding:
    """One test set decoded by one system, and scored.

    Attributes:
        folder: with ``score.json``.
    """

    folder: Path
    system: str
    seed: int
    decoding: str
    test_set: str


@dataclass(frozen=True)
class Training:
    """One training's log. ``seed`` is None where there is only one."""

    path: Path
    system: str
    seed: int | None


@dataclass(frozen=True)
class ShownRun:
    """A run: its folder, whose name is the run's, and the folder of its data dirs, which may be missing."""

    folder: Path
    data: Path

    @property
    def name(self) -> str:
        """``mini`` of ``exp/mini``."""
        return self.folder.name


@dataclass(frozen=True)
class ShownRecipe:
    """A recipe and what the pages show of it.

    Attributes:
        folder: the recipe's folder; None for a run that lies elsewhere.
        tables: its ``conf/tables.yaml``; None likewise.
        kept: folders of results that the recipe keeps, ``results/<scale>-<corpus>``.
    """

    name: str
    folder: Path | None
    tables: Tables | None
    runs: tuple[ShownRun, ...]
    kept: tuple[Path, ...]


def find_recipes(folders: Sequence[str | Path], data: str | Path | None = None) -> list[ShownRecipe]:
    """The recipes that ``folders`` belong to, in order; a folder is a recipe's, its ``exp``, or a run in that.

    ``data`` is the folder of the data dirs of a single run; by default those of ``exp/mini`` are in ``data/mini``.

    A recipe without results is included if another one has something to show.

    Raises:
        InputError: no such folder, a folder that is not a run and does not belong to a recipe, nothing to show, or
            ``data`` with several runs.
    """
    recipes: dict[tuple[str, Path | None], dict[Path, ShownRun]] = {}
    kept: dict[tuple[str, Path | None], tuple[Path, ...]] = {}
    for folder in map(Path, folders):
        home, runs = _runs(folder)
        key = (home.name if home else folder.absolute().name, home)
        found = recipes.setdefault(key, {})
        kept[key] = tuple(kept_folders(home)) if home else ()
        if not home and not runs:
            raise InputError(f"{folder}: no results and no recipe: {_ADVICE}")
        for run in runs:
            found[run.absolute()] = ShownRun(run, Path(data) if data else (home or run) / "data" / run.name)
    if not any(recipes.values()) and not any(kept.values()):
        raise InputError(f"{folders[0]}: nothing has run here: run the recipe first (./run.sh)")
    if data is not None and sum(map(len, recipes.values())) != 1:
        raise InputError("--datadir belongs to a single run: give only that run, such as egs/librispeech_sem/exp/mini")
    return [
        ShownRecipe(name, home, load_tables(home / TABLES) if home else None, tuple(runs.values()), kept[name, home])
        for (name, home), runs in recipes.items()
    ]


def _runs(folder: Path) -> tuple[Path | None, list[Path]]:
    """The recipe that a folder belongs to, and the runs in it."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder: {_ADVICE}")
    place = folder.absolute()
    home = next((path for path in (place, *place.parents[:2]) if (path / TABLES).is_file()), None)
    if home == place:
        folder = folder / "exp"
    if _is_run(folder):
        return home, [folder]
    return home, sorted(path for path in folder.glob("*") if _is_run(path))


def _is_run(folder: Path) -> bool:
    return (folder / "results" / META).is_file() or any(folder.glob("*/seed*"))


def decodings(run: ShownRun) -> Iterator[ScoredDecoding]:
    """The scored test sets of a run, sorted by test set, system, seed and decoding."""
    found = []
    for path in run.folder.glob("*/seed*/decode_*/*/score.json"):
        folder = path.parent
        if match := _SEED.fullmatch(folder.parents[1].name):
            decoding = folder.parent.name.removeprefix("decode_")
            found.append(ScoredDecoding(folder, folder.parents[2].name, int(match[1]), decoding, folder.name))
    return iter(sorted(found, key=lambda each: (each.test_set, each.system, each.seed, each.decoding)))


def trainings(run: ShownRun) -> list[Training]:
    """The trainings of a run: its systems by name and seed, then its language models."""
    patterns = ("*/seed*/log/train.log", "*/seed*/training.json", "lm/log/train.log", "lm/seed*/*/training.json")
    found: dict[Training, bool] = {}
    for path in (path for pattern in patterns for path in run.folder.glob(pattern)):
        parts = path.relative_to(run.folder).parts
        seed = next((int(match[1]) for part in parts if (match := _SEED.fullmatch(part))), None)
        is_lm = parts[0] == "lm"
        names = [part for part in parts[: -2 if path.suffix == ".log" else -1] if not _SEED.fullmatch(part)]
        found[Training(path, "/".join(names), seed)] = is_lm
    return sorted(found, key=lambda each: (found[each], each.system, each.seed or 0))


def figures(recipe: ShownRecipe) -> list[tuple[str, Path]]:
    """Pictures of a recipe: those that it keeps, then those of its runs, with names that say where they come from."""
    found = []
    if recipe.folder:
        found += [(path.stem, path) for path in sorted((recipe.folder / "results").glob("*.png"))]
    for run in recipe.runs:
        for top, folders, names in os.walk(run.folder):
            folders[:] = sorted(name for name in folders if name not in _NO_FIGURES and not name.startswith("."))
            paths = (Path(top) / name for name in sorted(names) if name.endswith(".png"))
            found += [(" / ".join(path.relative_to(run.folder.parent).with_suffix("").parts), path) for path in paths]
    return found
