"""How many of the papers' claims hold, by recipe, corpus and scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabulate import tabulate

from espnet_ext.results.claims.verdicts import VERDICTS, count_verdicts

STATISTICS = "[docs/statistics.md](../../docs/statistics.md)"


HEADS = ("claims", *VERDICTS, "seeds")


@dataclass(frozen=True)
class ClaimCount:
    """The claims of one recipe, corpus and scale.

    Attributes:
        cells: the number of claims, of those with each verdict, and their seeds, as text.
    """

    recipe: str
    corpus: str
    scale: str
    cells: list[str]


def count_claims(results: Sequence[Mapping[str, Any]]) -> list[ClaimCount]:
    """Count the claims of results, in their order; corpora without claims are left out."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["recipe"], result["meta"]["corpus"], result["scale"]), []).append(result)
    return [
        ClaimCount(*key, claim_cells(count_verdicts(group), _seeds(group)))
        for key, group in groups.items()
        if count_verdicts(group)
    ]


def _seeds(results: Sequence[Mapping[str, Any]]) -> list[int]:
    claims = [claim for result in results for claim in result["claims"]]
    return [len(test["seeds"]) for claim in claims for test in claim["tests"].values() if test]


def claim_cells(counts: Mapping[str, int], seeds: Sequence[int]) -> list[str]:
    """All claims, those of each verdict, and how many seeds their tests have.

    >>> claim_cells({"holds": 1, "undecided": 4}, [3, 1, 2])
    ['5', '1', '0', '4', '0', '1 to 3']
    """
    ends = " to ".join(dict.fromkeys((str(min(seeds)), str(max(seeds))))) if seeds else "-"
    return [*map(str, (sum(counts.values()), *(counts.get(verdict, 0) for verdict in VERDICTS))), ends]


def verdicts_of_recipe(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The counts of one recipe as lines of Markdown, a row for each corpus and scale; empty if there are no claims."""
    counted = count_claims(results)
    if not counted:
        return []
    rows = [[f"{each.corpus}, scale {each.scale}", *each.cells] for each in counted]
    return [f"Of the paper's claims, tested as {STATISTICS} says:", "", _table(["results", *HEADS], rows), ""]


def verdicts_of_recipes(results: Sequence[Mapping[str, Any]]) -> str:
    """The counts of all recipes as a table in Markdown, for a page at the root; the last row adds them up."""
    counted = count_claims(results)
    rows = [
        [f"[`{each.recipe}`](egs/{each.recipe}/RESULTS.md)", f"{each.corpus}, {each.scale}", *each.cells]
        for each in counted
    ]
    total = count_verdicts(results)
    sums = [f"**{number}**" for number in (sum(total.values()), *(total.get(verdict, 0) for verdict in VERDICTS))]
    return _table(["recipe", "corpus, scale", *HEADS], [*rows, ["**all**", "", *sums, ""]])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    align = ["left"] * (len(heads) - len(HEADS)) + ["right"] * (len(HEADS) - 1) + ["left"]
    return tabulate(rows, heads, tablefmt="pipe", colalign=align, disable_numparse=True)
