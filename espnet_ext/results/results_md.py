"""``RESULTS.md`` of a recipe: written from the results that the recipe keeps, never by hand."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from espnet_ext.errors import InputError
from espnet_ext.results.claims import VERDICTS, correct, count_verdicts
from espnet_ext.results.kept_scores import merge, read_scores_file, write_scores
from espnet_ext.results.render import called, has_run, markdown_table
from espnet_ext.results.result_files import SCORES_FILE, keep_result, read_results
from espnet_ext.work.files import atomic_write


def results_report(results: Sequence[Mapping[str, Any]], notes: str | None = None) -> str:
    """Markdown of several tables' results, with one heading per corpus and scale, in the given order.

    The verdicts on the paper's claims are counted first. ``notes`` is Markdown on what differs from the paper, written
    by hand; it follows, unchanged. Tables without any result are only named.
    """
    lines = [
        f"# Results of {results[0]['recipe']}",
        "",
        f"Paper: {results[0]['paper']}",
        "",
        "Written by `espnet-ext table results` from the files in `results/`; do not edit.",
        "",
        *claims_summary(results),
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


def claims_summary(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many of the paper's claims hold, by corpus and scale, as lines of Markdown; empty if there are no claims."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        groups.setdefault(f"{result['meta']['corpus']}, scale {result['scale']}", []).append(result)
    rows = []
    for name, group in groups.items():
        counts = count_verdicts(group)
        if counts:
            rows.append([name, sum(counts.values()), *(counts.get(verdict, 0) for verdict in VERDICTS)])
    if not rows:
        return []
    table = tabulate(rows, ["results", "claims", *VERDICTS], tablefmt="pipe")
    text = "Of the paper's claims, tested as [docs/statistics.md](../../docs/statistics.md) says:"
    return [text, "", table, ""]


def kept_name(result: Mapping[str, Any]) -> str:
    """The folder of kept results of one scale and corpus."""
    return f"{result['scale']}-{result['meta']['corpus']}"


def keep_results(folder: str | Path, kept: str | Path) -> list[Path]:
    """Copy a run's ``table*.json``, ``figure*.json``, pictures and scores to ``<kept>/<scale>-<corpus>/``.

    Earlier results of the same tables are replaced. Claims are corrected for their number over all that is kept there.

    Raises:
        InputError: a folder without results, or a file that holds none.
    """
    copies = []
    scores = Path(folder) / SCORES_FILE
    for path in _result_files(Path(folder)):
        result = read_results(path)
        copies.append(Path(kept) / kept_name(result) / path.name)
        keep_result(copies[-1], result)
        picture = path.with_suffix(".png")
        if picture.is_file():
            with atomic_write(copies[-1].with_suffix(".png"), "wb") as file:
                file.write(picture.read_bytes())
    for place in dict.fromkeys(copy.parent for copy in copies):
        if scores.is_file():
            own = place / SCORES_FILE
            write_scores(own, merge(read_scores_file(own) if own.is_file() else None, read_scores_file(scores)))
        paths = result_files(place)
        for path, result in zip(paths, correct([read_results(path) for path in paths]), strict=True):
            keep_result(path, result)
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
