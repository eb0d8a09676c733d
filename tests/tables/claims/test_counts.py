"""Verdicts are counted by whose claims they are on, and apart where seeds were added after a look."""

from espnet_ext.tables.claims.counts import DAGGER, Counts, count_verdicts
from espnet_ext.tables.pages.summary import MARKED, verdicts_of_recipe, verdicts_of_recipes


def claim(verdict: str, **marks: object) -> dict:
    return {"verdict": verdict, "tests": {"clean": {"seeds": [1, 2, 3]}}, **marks}


def result(*claims: dict, scale: str = "mini") -> dict:
    return {"recipe": "toy", "scale": scale, "meta": {"corpus": "synthetic"}, "claims": list(claims)}


RESULTS = [
    result(claim("holds"), claim("holds", extended=3), claim("undecided", extended=3), claim("holds", own=True)),
    result(claim("contradicted", own=True, extended=3), claim("undecided"), claim("not run"), scale="mini_long"),
    result(claim("not run"), claim("not run", own=True), scale="idle"),  # on no page
]


def test_the_papers_claims_and_ours_are_counted_apart():
    papers, ours = count_verdicts(RESULTS), count_verdicts(RESULTS, own=True)
    assert (papers.total, ours.total) == (6, 3)
    assert papers.parts == [("holds", "", 1), ("holds", DAGGER, 1), ("undecided", "", 2), ("not run", "", 2)]
    assert ours.parts == [("holds", "", 1), ("contradicted", DAGGER, 1), ("not run", "", 1)]


def test_a_verdict_after_a_look_is_of_the_same_number_but_stands_apart():
    papers = count_verdicts(RESULTS)
    assert (papers.number("holds"), papers.number("holds", ""), papers.number("holds", DAGGER)) == (2, 1, 1)
    assert (papers.cell("holds"), papers.cell("undecided"), papers.cell("contradicted")) == ("1 + 1†", "2", "0")
    assert papers.has_marks and not Counts({("holds", ""): 1}).has_marks


def test_the_page_of_a_recipe_has_a_table_of_each_kind():
    text = "\n".join(verdicts_of_recipe(RESULTS))
    papers, _, ours = text.partition("Of our own claims, which the paper does not make")
    assert papers.startswith("Of the paper's claims")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in papers.splitlines() if "scale" in line]
    assert rows[0] == ["synthetic, scale mini", "3", "1 + 1†", "0", "1", "0", "3"]
    assert rows[1][:2] == ["synthetic, scale mini_long", "2"] and "0 + 1†" in ours
    assert len(rows) == 2 and "idle" not in ours  # nothing was run there
    assert papers.count(MARKED) == ours.count(MARKED) == 1


def test_a_recipe_without_claims_of_its_own_has_one_table():
    lines = verdicts_of_recipe([result(claim("holds"))])
    assert "own claims" not in "\n".join(lines) and MARKED not in lines
    assert verdicts_of_recipe([result()]) == []


def test_the_last_row_of_all_recipes_adds_up():
    papers, ours = (verdicts_of_recipes(RESULTS, own=own) for own in (False, True))
    sums = [line for table in (papers, ours) for line in table.splitlines() if "**all**" in line]
    cells = [[cell.strip() for cell in line.split("|")[3:-2]] for line in sums]
    assert cells == [
        ["**5**", "**1 + 1†**", "**0**", "**2**", "**1**"],
        ["**2**", "**1**", "**0 + 1†**", "**0**", "**0**"],
    ]
