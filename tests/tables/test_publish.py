"""Tables of a run, results that a recipe keeps, and their pages."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.publish import (
    keep_results,
    read_results,
    verify_pages,
    write_pages,
    write_tables,
)
from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.score_table import SCORES, read_meta, read_scores, write_scores

EGS = Path(__file__).parents[2] / "egs"
RECIPES = sorted({path.parents[2] for path in EGS.glob("*/results/*/meta.json")})

PAGE = """\
| row | clean, paper | ours | other, paper | ours | average, paper | ours \
| against base row, paper | ours | seeds |
| -1dB | 4.00 | 4.17 ± 1.18 [3.27, 5.06] | 10.00 | 20.00 [20.00, 20.00] \
| 7.00 | 12.50 | 44.0% | - | 1 2 |
| base row | 5.00 | 10.00 ± 0.00 [10.00, 10.00] | 20.00 | - | 12.50 | - | 0.0% | - \
| 1 2 |
"""


@pytest.fixture
def write(toy: Path, exp: Path) -> Callable[..., Path]:
    """Write tables of the toy's run."""
    tables = load_tables(toy)
    return lambda *names: write_tables(
        tables,
        [tables.tables[name] for name in names],
        None,
        exp,
        scale="mini",
        corpus="c",
        command="./run.sh",
    )


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")]


def test_the_toys_tables(toy: Path, write: Callable, capsys: pytest.CaptureFixture):
    folder = write("1")
    printed = capsys.readouterr().out
    assert (
        "Table 1. New against base: WER (%), c, scale mini" in printed
        and "4.17 ± 1.18 [" in printed
    )
    assert (
        "new is better (against base row)" in printed and "c, mini: not run" in printed
    )
    lines = (
        (folder / "tables.md")
        .read_text()
        .replace("average against", "against")
        .splitlines()
    )
    start = lines.index("## Table 1. New against base: WER (%)") + 2
    shown = [lines[start], *lines[start + 2 : start + 4]]
    assert [cells(line) for line in shown] == [
        cells(line) for line in PAGE.splitlines()
    ]
    assert "./run.sh" in lines[-1]


def test_earlier_tables_stay_and_runs_are_listed(toy: Path, write: Callable):
    write("2")
    folder = write("1")
    meta = read_meta(folder)
    assert (
        meta.tables == ("1", "2") and len(meta.runs) == 1
    )  # the same command and commit
    assert [result.table.id for result in read_results(folder, toy.parents[1])] == [
        "1",
        "2",
    ]


def test_kept_results_give_the_pages(toy: Path, write: Callable):
    recipe = toy.parents[1]
    (toy.parent / "notes.md").write_text("- Quoted.\n\n## Notes\n\nSmall.\n")
    kept = keep_results(write("1", "2"), recipe)
    assert kept == recipe / "results" / "mini-c"
    assert (
        write_pages(recipe) == [recipe / "RESULTS.md", kept / "tables.md"]
        and write_pages(recipe) == []
    )
    assert verify_pages(recipe) == [recipe / "RESULTS.md", kept / "tables.md"]
    text = (recipe / "RESULTS.md").read_text()
    assert (
        text.endswith("## Notes\n\nSmall.\n")
        and text.index("Quoted") < text.index("every design")
        and "### Table 1. New against base" in text
    )


def test_rows_of_own_systems_stay_wherever_results_are_read(toy: Path, exp: Path):
    """Also where they are kept, and with test sets of the user's own."""
    tables = load_tables(toy)
    table = tables.tables["1"]
    blank = dict.fromkeys(table.rows[0].paper)
    row = replace(table.rows[0], name="mine", system="mine", paper=blank)
    shown = replace(table, rows=(*table.rows, row))
    shutil.copytree(exp / table.rows[0].system, exp / "mine")
    folder = write_tables(
        replace(tables, tables={**tables.tables, "1": shown}),
        [shown],
        None,
        exp,
        scale="mini",
        corpus="c",
        own_systems=["mine"],
    )
    [result] = read_results(folder, toy.parents[1])
    first, own = result.rows[0], result.rows[-1]
    assert own.name == "mine" and [each.name for each in result.rows].count("mine") == 1
    ours = [cell.here for cell in own.cells.values()]
    assert any(ours) and ours == [cell.here for cell in first.cells.values()]
    kept = keep_results(folder, toy.parents[1])
    write_pages(toy.parents[1])
    assert "| mine " in (kept / "tables.md").read_text()
    meta = read_meta(folder)
    gone = meta.own_rows[0].model_copy(update={"columns": ("gone",)})
    scores, _ = read_scores(folder)
    write_scores(folder, scores, meta.model_copy(update={"own_rows": (gone,)}))
    with pytest.raises(InputError, match=r"meta\.json: .*mine"):
        read_results(folder, toy.parents[1])


def test_no_number_of_the_paper_stands_beside_those_of_another_corpus(
    toy: Path, write: Callable
):
    """There, test sets have names of their own, and so have claims' effects."""
    toy.write_text(
        toy.read_text().replace(
            "systems:", "names: {c*: {clean: clean (made up)}}\nsystems:", 1
        )
    )
    tables = load_tables(toy)
    folder = write("1")
    assert (
        "paper" in (folder / "tables.md").read_text()
    )  # written with tables of before
    result, _ = read_results(write("1", "2"), toy.parents[1])
    assert {cell.paper for row in result.rows for cell in row.cells.values()} == {None}
    assert [column.heading for column in result.table.columns][0] == "clean (made up)"
    assert result.claims[0].tests[0].column.heading == "clean (made up)"
    assert result.claims[0].tests[0].paper == 1.0  # of its own corpus
    assert tables.choose_names("d") is None


def test_a_corpus_in_the_layout_of_the_papers_is_told_by_its_speakers(
    toy: Path, write: Callable
):
    text = toy.read_text()
    for speakers, is_of_paper in ((60, True), (40, False)):
        toy.write_text(
            text.replace(
                "metric: WER (%)}", f"metric: WER, speakers: {{clean: {speakers}}}}}"
            )
        )
        [result] = read_results(write("1"), toy.parents[1])
        papers = [cell.paper for row in result.rows for cell in row.cells.values()]
        assert all((paper is not None) == is_of_paper for paper in papers)


def test_results_of_other_tables_are_refused(toy: Path, write: Callable):
    folder = write("1", "2")
    text = toy.read_text()
    toy.write_text(text[: text.index('  "2":')])
    with pytest.raises(
        InputError, match=r"meta\.json: table 2 is not in .*tables\.yaml"
    ):
        read_results(folder, toy.parents[1])
    toy.write_text(text.replace("recipe: toy", "recipe: other"))
    with pytest.raises(InputError, match=r"meta\.json: of the recipe toy"):
        read_results(folder, toy.parents[1])
    with pytest.raises(InputError, match="no such folder, so nothing has run"):
        write_tables(
            load_tables(toy), [], None, toy.parent / "none", scale="mini", corpus="c"
        )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_the_pages_of_a_recipe_are_what_its_scores_give(recipe: Path):
    _, *folders = verify_pages(recipe)
    assert all((path.parent / SCORES).is_file() for path in folders)
