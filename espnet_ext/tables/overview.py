"""All that has run in a recipe, run by run, with the user's own systems."""

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev

from tabulate import tabulate

from espnet_ext.errors import InputError
from espnet_ext.scoring.formatting import NOTHING, format_value
from espnet_ext.tables.score_table import META, Score, Scores, read_scores


def list_result_folders(recipe: str | Path) -> list[Path]:
    """Return the folders of the results of all runs in a recipe's ``exp``."""
    return sorted(path.parent for path in Path(recipe).glob(f"exp/*/results/{META}"))


def summarise_runs(recipe: str | Path) -> str:
    """Write the error rates of all runs of a recipe.

    Each decoding of each system has a line, each test set a column. Raises InputError:
    nothing has run, or results cannot be read.
    """
    folders = list_result_folders(recipe)
    if not folders:
        raise InputError(
            f"{recipe}: no results in exp: run the recipe first (./run.sh)"
        )
    parts = []
    for folder in folders:
        scores, meta = read_scores(folder)
        title = f"{folder.parent}: {meta.corpus}, scale {meta.scale}, errors in %"
        parts.append(f"{title}\n\n{_tabulate_rates(scores)}\n")
    return "\n".join(parts)


def _tabulate_rates(scores: Scores) -> str:
    """Write the rates of one run, in the order of its tables."""
    sets = list(dict.fromkeys(key.test_set for key in scores.rates))
    # Only some recipes have measures besides the rate itself.
    has_measures = any(key.measure for key in scores.rates)
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    seeds: dict[tuple[str, ...], set[int]] = {}
    for key, by_seed in scores.rates.items():
        names: tuple[str, ...] = (key.system, key.decoding)
        if has_measures:
            names = (*names, key.measure or "")
        cells.setdefault(names, {})[key.test_set] = _format_mean(by_seed.values())
        seeds.setdefault(names, set()).update(by_seed)
    rows = []
    for names, by_set in cells.items():
        rates = [by_set.get(test_set, NOTHING) for test_set in sets]
        rows.append([*names, len(seeds[names]), *rates])
    heads = ["system", "decoding"]
    if has_measures:
        heads.append("measure")
    heads += ["seeds", *sets]
    return tabulate(rows, heads, "simple", disable_numparse=True)


def _format_mean(scores: Iterable[Score]) -> str:
    """Write the mean rate over seeds, with its spread if there are several."""
    values = [score.value for score in scores]
    spread = stdev(values) if len(values) > 1 else None
    return format_value(fmean(values), spread)
