"""How many claims hold, by recipe, corpus and scale: the papers' and, apart from them, our own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tabulate import tabulate

from espnet_ext.tables.claims.counts import DAGGER, NOT_RUN, VERDICTS, Counts, claims_of, count_verdicts

STATISTICS = "[docs/statistics.md](../../docs/statistics.md)"
MARKED = f"{DAGGER}: with seeds that were added after a look, with which the claim had read undecided."


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


def count_claims(results: Sequence[Mapping[str, Any]], *, own: bool = False) -> list[ClaimCount]:
    """Count the paper's claims in results, or our own, in their order; corpora of which none was run are left out."""
    return [
        ClaimCount(*key, claim_cells(count_verdicts(group, own=own), _seeds(group, own)))
        for key, group in _with_a_run(results, own).items()
    ]


def _with_a_run(results: Sequence[Mapping[str, Any]], own: bool) -> dict[tuple[str, str, str], list[Mapping[str, Any]]]:
    """The results of each recipe, corpus and scale at which rows of at least one claim were run."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["recipe"], result["meta"]["corpus"], result["scale"]), []).append(result)
    counts = {key: count_verdicts(group, own=own) for key, group in groups.items()}
    return {key: group for key, group in groups.items() if counts[key].total > counts[key].number(NOT_RUN)}


def _seeds(results: Sequence[Mapping[str, Any]], own: bool) -> list[int]:
    claims = claims_of(results, own=own)
    return [len(test["seeds"]) for claim in claims for test in claim["tests"].values() if test]


def claim_cells(counts: Counts, seeds: Sequence[int]) -> list[str]:
    """All claims, those of each verdict, and how many seeds their tests have.

    >>> claim_cells(Counts({("holds", "†"): 1, ("undecided", ""): 4}), [3, 1, 2])
    ['5', '0 + 1†', '0', '4', '0', '1 to 3']
    """
    ends = " to ".join(dict.fromkeys((str(min(seeds)), str(max(seeds))))) if seeds else "-"
    return [str(counts.total), *map(counts.cell, VERDICTS), ends]


def verdicts_of_recipe(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The counts of one recipe as lines of Markdown, a row for each corpus and scale; empty if there are no claims.

    The paper's claims come first, then our own.
    """
    lines = []
    for own, whose in ((False, "the paper's claims"), (True, "our own claims, which the paper does not make")):
        if counted := count_claims(results, own=own):
            rows = [[f"{each.corpus}, scale {each.scale}", *each.cells] for each in counted]
            lines += [f"Of {whose}, tested as {STATISTICS} says:", "", _table(["results", *HEADS], rows), ""]
            lines += _note(count_verdicts(results, own=own))
    return lines


def verdicts_of_recipes(results: Sequence[Mapping[str, Any]], *, own: bool = False) -> str:
    """The counts of all recipes as a table in Markdown, for a page at the root; the last row adds them up."""
    rows = [
        [f"[`{each.recipe}`](egs/{each.recipe}/RESULTS.md)", f"{each.corpus}, {each.scale}", *each.cells]
        for each in count_claims(results, own=own)
    ]
    total = count_verdicts(chain.from_iterable(_with_a_run(results, own).values()), own=own)
    sums = [f"**{cell}**" for cell in claim_cells(total, [])[:-1]]
    table = _table(["recipe", "corpus, scale", *HEADS], [*rows, ["**all**", "", *sums, ""]])
    return "\n".join([table, "", *_note(total)]).rstrip("\n")


def _note(counts: Counts) -> list[str]:
    """What a dagger means, if there is one."""
    return [MARKED, ""] if counts.has_marks else []


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    align = ["left"] * (len(heads) - len(HEADS)) + ["right"] * (len(HEADS) - 1) + ["left"]
    return tabulate(rows, heads, tablefmt="pipe", colalign=align, disable_numparse=True)
