"""``RESULTS.md`` of a recipe, and the rendered sections of its ``README.md`` and of the repository's pages."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.tables.adding import add_results
from espnet_ext.tables.kept.keeping import keep_results
from espnet_ext.tables.kept.pictures import digest, drawn_part, stamp_of
from espnet_ext.tables.kept.reproductions import keep_reproduction, read_reproductions
from espnet_ext.tables.kept.result_files import kept_folders, kept_name, natural, read_results, some_result_files
from espnet_ext.tables.kept.sums import write_sums
from espnet_ext.tables.pages.alike import markdown_spread, spread_of
from espnet_ext.tables.pages.render import called, has_run, markdown_table
from espnet_ext.tables.pages.reproductions import reproductions_section
from espnet_ext.tables.pages.summary import verdicts_of_recipe, verdicts_of_recipes
from espnet_ext.tables.pages.templates import (
    FACTS,
    names_of_recipe,
    names_of_repository,
    render_sections,
    render_template,
)
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.plans.tables import Alike
from espnet_ext.work.files import atomic_write

NOTES = Path("conf") / "results_notes.md"
REPORT = "RESULTS.md"
PAGES = ("README.md", "docs/*.md", "contrib/*/README.md", "tests/benchmarks/README.md")  # not of a recipe
MACHINES = (
    "The same command and seed may give other numbers on another machine, which is part of the spread between "
    "trainings: [docs/reproducibility.md](../../docs/reproducibility.md)."
)


def results_report(
    results: Sequence[Mapping[str, Any]],
    notes: str | None = None,
    reproductions: Sequence[Mapping[str, Any]] = (),
    alike: Alike | None = None,
) -> str:
    """Markdown of several tables' results, with one heading per corpus and scale, in the given order.

    The verdicts are counted first, those on the paper's claims and those on our own. ``notes`` is Markdown on what
    differs from the paper; it follows. Tables without any result are only named. The spread of trainings that are
    ``alike`` comes first for each corpus and scale.
    """
    lines = [
        f"# Results of {results[0]['recipe']}",
        "",
        f"Paper: {results[0]['paper']}",
        "",
        f"Written by `espnet-ext table results` from the files in `results/` and `{NOTES}`; do not edit.",
        "",
        MACHINES,
        "",
        *verdicts_of_recipe(results),
    ]
    if notes:
        lines += ["## What differs from the paper", "", notes.strip(), ""]
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["meta"]["corpus"], result["scale"]), []).append(result)
    for (corpus, scale), group in groups.items():
        lines += [f"## {corpus}, scale {scale}", ""]
        if spread := spread_of(alike, group):
            lines += markdown_spread(spread)
        ordered = sorted(group, key=lambda result: natural(result["table"]))
        pictures = f"results/{kept_name(group[0])}/"
        lines += [markdown_table(result, heading="###", pictures=pictures) for result in ordered if has_run(result)]
        if missing := [called(result) for result in ordered if not has_run(result)]:
            lines += [f"Not run: {', '.join(missing)}.", ""]
    lines += reproductions_section(results, reproductions)
    return "\n".join(lines).rstrip("\n") + "\n"


def read_kept(recipe_dir: str | Path) -> list[dict[str, Any]]:
    """All results that a recipe keeps.

    Raises:
        InputError: nothing is kept, results of different recipes, or one table twice for a corpus and scale.
    """
    kept = Path(recipe_dir) / "results"
    folders = kept_folders(kept)
    if not folders:
        raise InputError(f"{kept}: nothing is kept there yet: give a run's folder with --results")
    paths = [path for folder in folders for path in some_result_files(folder)]
    results = [read_results(path) for path in paths]
    seen: dict[tuple[str, str, str], Path] = {}
    for path, result in zip(paths, results, strict=True):
        if result["recipe"] != results[0]["recipe"]:
            raise InputError(
                f"{path}: belongs to the recipe {result['recipe']}, but {paths[0]} to {results[0]['recipe']}"
            )
        key = (result["meta"]["corpus"], result["scale"], result["table"])
        if key in seen:
            raise InputError(f"{path}: table {key[2]} of {key[0]}, scale {key[1]}, is also in {seen[key]}; name one")
        seen[key] = path
    return results


def recipe_pages(recipe_dir: str | Path) -> dict[Path, str]:
    """The pages of a recipe as what it keeps gives them: ``RESULTS.md``, and ``README.md`` if it is there.

    Raises:
        InputError: as :func:`read_kept`, or a template that names what is not kept.
    """
    recipe_dir = Path(recipe_dir)
    names = names_of_recipe(recipe_dir)
    notes, readme = recipe_dir / NOTES, recipe_dir / "README.md"
    text = render_template(notes, names) if notes.is_file() else None
    tables = recipe_dir / "conf" / "tables.yaml"
    alike = load_tables(tables).alike if tables.is_file() else None
    report = results_report(read_kept(recipe_dir), text, read_reproductions(recipe_dir / "results"), alike)
    pages = {recipe_dir / REPORT: report}
    return pages | ({readme: render_sections(readme, names)} if readme.is_file() else {})


def repository_pages(root: str | Path) -> dict[Path, str]:
    """The pages of a repository that are not a recipe's, with their rendered sections made again."""
    root = Path(root)
    kept = [result for recipe in sorted(root.glob("egs/*/results")) for result in read_kept(recipe.parent)]
    names = names_of_repository(root) | {
        "verdicts_of_recipes": lambda own=False: verdicts_of_recipes(kept, own=own),
        "kept": kept,
    }
    return {path: render_sections(path, names) for pages in PAGES for path in sorted(root.glob(pages))}


def write_recipe_report(
    recipe_dir: str | Path, results: Sequence[str | Path] = (), by: str = "", address: str = "", *, add: bool = False
) -> list[Path]:
    """Keep results of runs in a recipe's ``results/``, and write the pages that show what is kept.

    Figures are drawn again where their data have changed, and ``results/SHA256SUMS`` is written.

    If the recipe is in ``egs/`` of a repository, the repository's own pages are written too.

    Args:
        recipe_dir: the recipe's folder.
        results: folders with a run's ``table*.json``.
        by, address: who has run them, if they are kept as somebody else's, beside the recipe's own.
        add: add their seeds and rows to those that are kept (:func:`add_results`).

    Returns:
        The pages whose text has changed.

    Raises:
        InputError: no such folder, nothing kept yet, or what :func:`keep_results` and the pages refuse.
    """
    recipe_dir = Path(recipe_dir)
    if not recipe_dir.is_dir():
        raise InputError(f"{recipe_dir}: no such folder; give the recipe's")
    for folder in results:
        if by:
            keep_reproduction(Path(folder), recipe_dir / "results", by, address)
        elif add:
            add_results(folder, recipe_dir)
        else:
            keep_results(folder, recipe_dir / "results")
    _draw_figures(recipe_dir / "results")
    write_sums(recipe_dir / "results")
    pages = recipe_pages(recipe_dir)
    if root := repository_of(recipe_dir):
        pages |= repository_pages(root)
        if (root / FACTS).is_dir():
            write_sums(root / FACTS)
    changed = [path for path, text in pages.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in changed:
        with atomic_write(path) as file:
            file.write(pages[path])
    return changed


def _draw_figures(kept: Path) -> None:
    """Draw the figures whose pictures are missing, or were drawn from other data."""
    for path in sorted(kept.glob("*/figure*.json")):
        result, picture = read_results(path), path.with_suffix(".png")
        if not has_run(result) or (picture.is_file() and stamp_of(picture) == digest(drawn_part(result))):
            continue
        from espnet_ext.tables.pages.figures import draw
        from espnet_ext.work.plot_style import save_png  # matplotlib takes a second to import

        save_png(draw(result), picture, data=drawn_part(result))


def recipes_with_results() -> list[Path]:
    """The recipes with kept results in the ``egs`` of the current folder, or of the nearest one above it.

    Raises:
        InputError: there are none.
    """
    here = Path.cwd()
    for root in (here, *here.parents):
        if found := sorted(path.parent for path in root.glob("egs/*/results")):
            return [Path(os.path.relpath(path, here)) for path in found]
    raise InputError(f"{here}: no egs/*/results here or above: name a recipe with --recipe")


def repository_of(recipe_dir: Path) -> Path | None:
    """The repository in whose ``egs/`` a recipe is; None if it is elsewhere."""
    egs = recipe_dir.resolve().parent
    return egs.parent if egs.name == "egs" and (egs.parent / "README.md").is_file() else None
