"""How far trainings lie apart that differ by chance alone: what a difference of two rows must be measured by."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabulate import tabulate

from espnet_ext.tables.plans.tables import Alike

HEADS = ("test set", "trainings", "lowest", "highest", "mean", "standard deviation")


@dataclass(frozen=True)
class Spread:
    """The trainings of rows that are alike.

    Attributes:
        text: why they are.
        systems: their names.
        rows: text of the cells under ``HEADS``, a row for each test set.
    """

    text: str
    systems: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def spread_of(alike: Alike | None, results: Sequence[Mapping[str, Any]]) -> Spread | None:
    """The spread of the trainings in the results of one corpus and scale; None with fewer than two of them.

    A training in several tables counts once.
    """
    if alike is None:
        return None
    found: dict[str, dict[tuple[str, int], float]] = {}
    tables = {result["table"]: {row["name"]: row for row in result["rows"]} for result in results}
    for ref in alike.rows:
        row = tables.get(ref.table, {}).get(ref.row)
        if row is None:
            continue
        for column, cell in row["cells"].items():
            if here := cell["here"]:
                values = here.get("values") or {str(row["seeds"][0]): here["value"]}
                by_training = found.setdefault(column, {})
                by_training |= {(row["system"], int(seed)): value for seed, value in values.items()}
    rows = tuple(_row(column, list(values.values())) for column, values in found.items() if len(values) > 1)
    systems = tuple(dict.fromkeys(system for values in found.values() for system, _ in values))
    return Spread(alike.text, systems, rows) if rows else None


def _row(column: str, values: Sequence[float]) -> tuple[str, ...]:
    numbers = (min(values), max(values), statistics.fmean(values), statistics.stdev(values))
    return column, str(len(values)), *(f"{number:.2f}" for number in numbers)


def markdown_spread(spread: Spread) -> list[str]:
    """The spread as lines of Markdown, below a heading."""
    align = ["left", *["right"] * (len(HEADS) - 1)]
    table = tabulate(spread.rows, HEADS, tablefmt="pipe", colalign=align, disable_numparse=True)
    return ["### Trainings that differ by chance alone", "", f"{introduction(spread)}", "", table, ""]


def introduction(spread: Spread) -> str:
    """What the table shows, in two sentences."""
    systems = ", ".join(spread.systems)
    return f"{spread.text}: {systems}. Error rates in percent; a difference of this size says nothing."
