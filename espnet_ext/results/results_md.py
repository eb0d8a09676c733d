"""``RESULTS.md`` of a recipe: written from the results that the recipe keeps, never by hand."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.results.render import has_run, markdown_table
from espnet_ext.results.table_results import read_results
from espnet_ext.results.tables import PREFIX
from espnet_ext.work.files import atomic_write, write_json


def results_report(results: Sequence[Mapping[str, Any]], notes: str | None = None) -> str:
    """Markdown of several tables' results, with one heading per corpus and scale, in the given order.

    ``notes`` is Markdown on what differs from the paper, written by hand; it comes first, unchanged. Tables without any
    result are only named.
    """
    lines = [
        f"# Results of {results[0]['recipe']}",
        "",
        f"Paper: {results[0].get('paper', 'the paper')}",
        "",
        "Written by `espnet-ext table results` from the files in `results/`; do not edit.",
        "",
    ]
    if notes:
        lines += ["## What differs from the paper", "", notes.strip(), ""]
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["meta"]["corpus"], result["scale"]), []).append(result)
    for (corpus, scale), group in groups.items():
        lines += [f"## {corpus}, scale {scale}", ""]
        ordered = sorted(group, key=lambda result: _natural(result["table"]))
        pictures = f"results/{kept_name(group[0])}/"
        lines += [markdown_table(result, heading="###", pictures=pictures) for result in ordered if has_run(result)]
        if missing := [called(result) for result in ordered if not has_run(result)]:
            lines += [f"Not run: {', '.join(missing)}.", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def called(result: Mapping[str, Any]) -> str:
    """``table 1``, or ``figure 1``."""
    return f"figure {result['table'].removeprefix(PREFIX)}" if "figure" in result else f"table {result['table']}"


def kept_name(result: Mapping[str, Any]) -> str:
    """The folder of kept results of one scale and corpus."""
    return f"{result['scale']}-{result['meta']['corpus']}"


def keep_results(folder: str | Path, kept: str | Path) -> list[Path]:
    """Copy a run's ``table*.json``, ``figure*.json`` and pictures to ``<kept>/<scale>-<corpus>/``.

    Earlier results of the same tables are replaced.

    Raises:
        InputError: a folder without results, or a file that holds none.
    """
    copies = []
    for path in _result_files(Path(folder)):
        result = read_results(path)
        copies.append(Path(kept) / kept_name(result) / path.name)
        write_json(copies[-1], result)
        picture = path.with_suffix(".png")
        if picture.is_file():
            with atomic_write(copies[-1].with_suffix(".png"), "wb") as file:
                file.write(picture.read_bytes())
    return copies


def write_report(folders: Sequence[str | Path], output: str | Path, notes: str | Path | None = None) -> int:
    """Write ``RESULTS.md`` from all ``table*.json`` and ``figure*.json`` in the folders; return how many it holds.

    Raises:
        InputError: a folder without results, results of different recipes, or one table twice for a corpus and scale.
        FileNotFoundError: ``notes`` is not there.
    """
    paths = [path for folder in folders for path in _result_files(Path(folder))]
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
    text = results_report(results, None if notes is None else Path(notes).read_text(encoding="utf-8"))
    with atomic_write(output) as file:
        file.write(text)
    return len(results)


def write_recipe_report(
    recipe_dir: str | Path,
    results: Sequence[str | Path] = (),
    output: str | Path | None = None,
    notes: str | Path | None = None,
) -> tuple[Path, int]:
    """Keep results of runs in a recipe's ``results/``, and write its ``RESULTS.md`` from all that are kept.

    Args:
        recipe_dir: the recipe's folder.
        results: folders with a run's ``table*.json``.
        output: the file to write (default: ``RESULTS.md`` in the recipe's folder).
        notes: Markdown on what differs from the paper (default: ``conf/results_notes.md``, where the recipe has it).

    Returns:
        The file, and the number of tables in it.

    Raises:
        InputError: no such folder, nothing kept yet, or what :func:`keep_results` and :func:`write_report` refuse.
    """
    recipe_dir = Path(recipe_dir)
    if not recipe_dir.is_dir():
        raise InputError(f"{recipe_dir}: no such folder; give the recipe's")
    kept = recipe_dir / "results"
    for folder in results:
        keep_results(folder, kept)
    folders = sorted(path for path in kept.glob("*") if path.is_dir())
    if not folders:
        raise InputError(f"{kept}: nothing is kept there yet: give a run's folder with --results")
    own = recipe_dir / "conf" / "results_notes.md"
    output = Path(output) if output else recipe_dir / "RESULTS.md"
    return output, write_report(folders, output, notes or (own if own.is_file() else None))


def result_files(folder: Path) -> list[Path]:
    """The results of tables and figures in a folder, in the order of their names; empty where there are none."""
    return sorted([*folder.glob("figure*.json"), *folder.glob("table*.json")], key=lambda path: _natural(path.name))


def _result_files(folder: Path) -> list[Path]:
    paths = result_files(folder)
    if not paths:
        raise InputError(f"{folder}: no table*.json there; run the tables first (./run.sh --table all)")
    return paths


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key by which table 10 comes after table 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", name)]
