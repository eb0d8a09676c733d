"""Add the seeds and rows of a run to those that a recipe keeps already."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.tables.claims.verdicts import correct
from espnet_ext.tables.kept.kept_scores import kept_scores, merge, read_scores_file, write_scores
from espnet_ext.tables.kept.result_files import (
    SCORES_FILE,
    keep_result,
    kept_name,
    read_results,
    result_files,
    some_result_files,
)
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.table_results import collect_from

_OF_A_RUN = ("command", "git", "date", "hardware")


def add_results(folder: str | Path, recipe_dir: str | Path) -> list[Path]:
    """Add a run's scores to ``results/<scale>-<corpus>/`` of its recipe, and compute all tables there from both.

    So a run on another machine, or a year later, needs only the seeds or rows that are missing. A score that is there
    already is replaced. ``meta.earlier`` of a table says how its other numbers were made.

    Returns:
        The tables whose numbers have changed.

    Raises:
        InputError: the run has no scores, or others are kept there: without scores, or of other utterances.
    """
    folder, recipe_dir = Path(folder), Path(recipe_dir)
    new = [read_results(path) for path in some_result_files(folder)]
    if len(names := sorted({kept_name(result) for result in new})) > 1:
        raise InputError(
            f"{folder}: results of {' and '.join(names)}; give a folder with those of one scale and corpus"
        )
    place = recipe_dir / "results" / names[0]
    if not (place / SCORES_FILE).is_file():
        raise InputError(f"{place}: no {SCORES_FILE} there to add to; keep the results without --add")
    scores = read_scores_file(folder / SCORES_FILE)
    merged = _merge_same_sets(place / SCORES_FILE, scores)
    kept = {path.name: read_results(path) for path in result_files(place)}
    added = {_file_name(result): result for result in new}
    if lacking := [name for name in added if name in kept and not kept[name]["scores"]]:
        raise InputError(f"{place / lacking[0]}: its scores are not kept, so that nothing can be added to it")
    write_scores(place / SCORES_FILE, merged)
    return _recompute(recipe_dir, place, kept, added)


def _merge_same_sets(path: Path, scores: Mapping[str, Any]) -> dict[str, Any]:
    old = read_scores_file(path)
    sets = {(each["test_set"], each["measure"]): each for each in old["sets"]}
    for each in scores["sets"]:
        if sets.get((each["test_set"], each["measure"]), each) != each:
            raise InputError(
                f"{path}: holds other utterances, references or speakers of {each['test_set']} than the run; "
                "results on different test sets cannot be added: keep the run without --add"
            )
    return merge(old, scores)


def _recompute(
    recipe_dir: Path, place: Path, kept: Mapping[str, dict[str, Any]], new: Mapping[str, dict[str, Any]]
) -> list[Path]:
    """Write all tables of a folder from the scores there; return those whose rows have changed."""
    source, results, changed = kept_scores(place / SCORES_FILE), [], []
    some = next(iter(new.values()))
    tables = load_tables(recipe_dir / "conf" / "tables.yaml", some["scale"])
    for name in dict.fromkeys((*kept, *new)):
        if name in kept and not kept[name]["scores"]:  # of an older run; nothing is added to it
            results.append((place / name, kept[name]))
            continue
        number = (new.get(name) or kept[name])["table"]
        if number not in tables.tables:
            raise InputError(f"{tables.path}: has no table {number}, which {place / name} is of")
        meta = new.get(name, some)["meta"]
        made = collect_from(tables, tables.tables[number], source, some["scale"], meta["corpus"], meta)
        if name in kept and kept[name]["rows"] == made["rows"]:
            made["meta"] = kept[name]["meta"]
        else:
            changed.append(place / name)
            if name not in new or made["rows"] != new[name]["rows"]:
                made["meta"] = {**made["meta"], "earlier": _earlier(made, kept.get(name), kept.values())}
        results.append((place / name, made))
    for (path, _), result in zip(results, correct([made for _, made in results]), strict=True):
        keep_result(path, result)
    return changed


def _earlier(
    made: Mapping[str, Any], before: Mapping[str, Any] | None, kept: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The earlier runs behind a table, latest first: those of the table, or of others with its systems."""
    systems = _systems(made)
    runs: dict[str, dict[str, Any]] = {}
    for result in [before] if before else [other for other in kept if systems & _systems(other)]:
        meta = result["meta"]
        for run in ({key: meta[key] for key in _OF_A_RUN}, *meta.get("earlier", [])):
            runs.setdefault(f"{run['date']} {run['command']}", run)
    return [runs[key] for key in sorted(runs, reverse=True)]


def _systems(result: Mapping[str, Any]) -> set[str]:
    """The systems with a result in a table."""
    return {row["system"] for row in result["rows"] if any(cell["here"] for cell in row["cells"].values())}


def _file_name(result: Mapping[str, Any]) -> str:
    return f"{result['table']}.json" if "figure" in result else f"table{result['table']}.json"
