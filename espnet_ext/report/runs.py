"""What lies in a recipe's folders: runs with their tables, trainings, decodings and figures, and results that are kept.

A *run* is what ``run.sh`` calls ``--expdir``, such as ``exp/mini``:

    results/table<T>.json, figure<F>.json and figure<F>.png
    <system>/seed<N>/log/train.log, or training.json where the training is ours
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
from espnet_ext.results.config import load_old_or_new
from espnet_ext.results.tables import Tables
from espnet_ext.results.report import result_files

TABLES = "conf/tables.yaml"
# Pictures that are no result: ESPnet's own curves and attention plots of every epoch, and what lies beside logs. Those
# of the tables' folder stand beside their numbers.
_NO_FIGURES = {"images", "att_ws", "tensorboard", "log", "stats", "results"}
_ADVICE = "give a recipe's folder of experiments, egs/<recipe>/exp"
_SEED = re.compile(r"seed(\d+)")


@dataclass(frozen=True)
class Decoding:
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
class Run:
    """A run: its folder, which names it, and that of its data dirs, which need not be there."""

    folder: Path
    data: Path

    @property
    def name(self) -> str:
        """``mini`` of ``exp/mini``."""
        return self.folder.name


@dataclass(frozen=True)
class Recipe:
    """A recipe and what of it is shown.

    Attributes:
        folder: the recipe's folder; None for a run that lies elsewhere.
        tables: its ``conf/tables.yaml``; None likewise.
        kept: folders of results that the recipe keeps, ``results/<scale>-<corpus>``.
    """

    name: str
    folder: Path | None
    tables: Tables | None
    runs: tuple[Run, ...]
    kept: tuple[Path, ...]


def find_recipes(folders: Sequence[str | Path], data: str | Path | None = None) -> list[Recipe]:
    """The recipes that ``folders`` show, in their order; each is a recipe's folder, its ``exp``, or a run in that.

    ``data`` is where the data dirs of the one run lie; without it a run ``exp/mini`` has them in ``data/mini``.

    A recipe of which nothing has run is among them, as long as another one has something to show.

    Raises:
        InputError: no such folder, one that belongs to no recipe and is no run, nothing to show in any of them, or
            ``data`` with several runs.
    """
    recipes: dict[tuple[str, Path | None], dict[Path, Run]] = {}
    kept: dict[tuple[str, Path | None], tuple[Path, ...]] = {}
    for folder in map(Path, folders):
        home, runs = _runs(folder)
        key = (home.name if home else folder.absolute().name, home)
        found = recipes.setdefault(key, {})
        kept[key] = tuple(sorted(path for path in (home / "results").glob("*") if path.is_dir())) if home else ()
        if not home and not runs:
            raise InputError(f"{folder}: no results and no recipe: {_ADVICE}")
        for run in runs:
            found[run.absolute()] = Run(run, Path(data) if data else (home or run) / "data" / run.name)
    if not any(recipes.values()) and not any(kept.values()):
        raise InputError(f"{folders[0]}: nothing has run here: run the recipe first (./run.sh)")
    if data is not None and sum(map(len, recipes.values())) != 1:
        raise InputError("--datadir belongs to one run: name only that, such as egs/librispeech_sem/exp/mini")
    return [
        Recipe(name, home, load_old_or_new(home / TABLES) if home else None, tuple(runs.values()), kept[name, home])
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
    return bool(result_files(folder / "results")) or any(folder.glob("*/seed*"))


def decodings(run: Run) -> Iterator[Decoding]:
    """What of a run has been scored, by test set, system, seed and decoding."""
    found = []
    for path in run.folder.glob("*/seed*/decode_*/*/score.json"):
        folder = path.parent
        if match := _SEED.fullmatch(folder.parents[1].name):
            decoding = folder.parent.name.removeprefix("decode_")
            found.append(Decoding(folder, folder.parents[2].name, int(match[1]), decoding, folder.name))
    return iter(sorted(found, key=lambda each: (each.test_set, each.system, each.seed, each.decoding)))


def trainings(run: Run) -> list[Training]:
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


def figures(recipe: Recipe) -> list[tuple[str, Path]]:
    """Pictures of a recipe: those that it keeps, then those of its runs, with names that say where they are from."""
    found = []
    if recipe.folder:
        found += [(path.stem, path) for path in sorted((recipe.folder / "results").glob("*.png"))]
    for run in recipe.runs:
        for top, folders, names in os.walk(run.folder):
            folders[:] = sorted(name for name in folders if name not in _NO_FIGURES and not name.startswith("."))
            paths = (Path(top) / name for name in sorted(names) if name.endswith(".png"))
            found += [(" / ".join(path.relative_to(run.folder.parent).with_suffix("").parts), path) for path in paths]
    return found
