"""The spread of trainings that are alike, against numbers that are counted by hand."""

import re
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.pages.alike import spread_of
from espnet_ext.tables.pages.results_md import recipe_pages, write_recipe_report
from espnet_ext.tables.plans.plan import select
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.table_results import collect, write_tables

ALIKE = """
alike:
  text: Nothing differs
  rows: [1/-1dB, 1/base row, 2/lm]
"""


def test_each_training_counts_once(toy: Path, tmp_path: Path, scored: Callable, meta: dict):
    toy.write_text(toy.read_text() + ALIKE)
    for system, seed, errors in (("base", 1, 1), ("base", 2, 2), ("new", 1, 4)):
        scored(system, seed, "clean", [errors] * 20)  # of 10 words each
    tables = load_tables(toy)
    results = [collect(tables, table, tmp_path / "exp", "mini", "toy", meta) for table in tables.tables.values()]
    spread = spread_of(tables.alike, [*results, {**results[0], "table": "9"}])
    deviation = statistics.stdev([10, 20, 40])
    assert spread.rows == (("clean", "3", "10.00", "40.00", "23.33", f"{deviation:.2f}"),)
    assert set(spread.systems) == {"base", "new"} and spread.text == "Nothing differs"
    assert spread_of(tables.alike, results[1:]) is None  # nothing of table 2 has run
    assert spread_of(None, results) is None


def test_the_page_shows_it(toy: Path, tmp_path: Path, scored: Callable, capsys: pytest.CaptureFixture):
    toy.write_text(toy.read_text() + ALIKE)
    scored("base", 1, "clean", [1] * 20)
    scored("base", 2, "clean", [3] * 20)
    tables = load_tables(toy)
    write_tables(tables, select(tables, ["1"]), None, tmp_path / "exp", scale="mini", corpus="toy")
    recipe = toy.parents[1]
    write_recipe_report(recipe, [tmp_path / "exp" / "results"])
    page = recipe_pages(recipe)[recipe / "RESULTS.md"]
    assert "### Trainings that differ by chance alone\n\nNothing differs: base. " in page
    assert re.search(r"\| clean +\| +2 \| +10\.00 \| +30\.00 \| +20\.00 \| +14\.14 \|", page)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("[1/base row, 3/lm]", "alike.rows: unknown table '3'; known are 1, 2"),
        ("[1/base row, 1/lm]", "alike.rows: unknown row of table 1 'lm'; known are -1dB, base row"),
        ("[1/base row]", "alike.rows"),
    ],
)
def test_rows_that_are_not_there(toy: Path, rows: str, message: str):
    toy.write_text(toy.read_text() + ALIKE.replace("[1/-1dB, 1/base row, 2/lm]", rows))
    with pytest.raises(InputError, match=message):
        load_tables(toy)
