"""Columns with a quantity of the system itself, and several relative reductions."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.pages.render import plain_table
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.plans.tables import Column
from espnet_ext.tables.table_results import collect

TOY = """
recipe: toy
paper: {id: P0, title: A title, authors: A. Author, year: 2020, metric: WER (%)}
test_sets: [clean, other]
quantities: {latency: ms}
systems:
  base: {kind: train, config: train, data: train}
  new: {kind: train, config: train, data: train}
tables:
  "1":
    caption: Faster
    columns: [latency, clean, other]
    baseline: base
    reduction: [clean, other]
    rows:
      - {name: base, system: base, paper: [null, 5.0, 20.0]}
      - {name: new, system: new, paper: [49, 4.0, 15.0]}
    claims:
      - {text: new is better, better: new, worse: base}
"""


@pytest.fixture
def quantities(toy: Path) -> Path:
    toy.write_text(TOY)
    return toy


def test_a_quantity_has_a_cell_and_is_in_no_claim(quantities: Path, tmp_path: Path, scored: Callable, meta: dict):
    scored("base", 1, "clean", [2] * 30)
    scored("new", 1, "clean", [1] * 30)
    exp = tmp_path / "exp"
    (exp / "new" / "latency.json").write_text(json.dumps({"value": 12.5, "unit": "ms", "device": "a processor"}))
    tables = load_tables(quantities)
    table = tables.tables["1"]
    assert collect(tables, table, exp, "s", "c", meta)["metric"] == "WER (%)"
    assert table.columns[0] == Column("latency", None, unit="ms") and table.reductions == ("clean", "other")
    assert [column.name for column in table.claims[0].columns] == ["clean", "other"]
    result = collect(tables, table, exp, "s", "c", meta)
    base, new = result["rows"]
    assert base["cells"]["latency"] == {"paper": None, "here": None}
    assert new["cells"]["latency"]["paper"] == 49.0 and new["cells"]["latency"]["here"]["value"] == 12.5
    lines = [line.split() for line in plain_table(result).splitlines()]
    heads = ["latency", "clean", "other", *["reduction", "of", "clean", "reduction", "of", "other"], "seeds"]
    assert ["row", *heads] in lines
    row = next(line for line in lines if line[:1] == ["new"])
    assert row[1:3] == ["49.00", "12.50"] and row[-5:] == ["20.0%", "50.0%", "25.0%", "-", "1"]
    assert "reduction: relative to base" in plain_table(result)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{}", "not a quantity"), ("12.5", "not a quantity"), ('{"value": 1, "unit": "s"}', "in s, but the table has ms")],
)
def test_a_file_that_is_no_such_quantity_is_refused(quantities: Path, tmp_path: Path, meta: dict, text, message):
    path = tmp_path / "exp" / "new" / "latency.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    tables = load_tables(quantities)
    with pytest.raises(InputError, match=f"latency.json: .*{message}"):
        collect(tables, tables.tables["1"], tmp_path / "exp", "s", "c", meta)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("reduction: [clean, other]", "reduction: latency", "unknown column 'latency'; known are clean, other"),
        ("worse: base}", "worse: base, columns: [latency]}", "unknown column 'latency'; known are clean, other"),
        ("quantities: {latency: ms}", "quantities: {latency: [ms]}", "quantities.latency: must be one line of text"),
    ],
)
def test_a_quantity_is_no_error_rate(quantities: Path, old: str, new: str, message: str):
    quantities.write_text(TOY.replace(old, new))
    with pytest.raises(InputError, match=message):
        load_tables(quantities)


def test_a_table_of_quantities_says_what_they_are(quantities: Path, tmp_path: Path, meta: dict):
    text = TOY.replace("columns: [latency, clean, other]", "columns: [latency]").split("    baseline:")[0]
    rows = "    rows:\n      - {name: base, system: base, paper: [49]}\n"
    quantities.write_text(text + rows)
    tables = load_tables(quantities)
    result = collect(tables, tables.tables["1"], tmp_path / "exp", "s", "c", meta)
    assert plain_table(result).startswith("Table 1. Faster: latency (ms), c, scale s\n")
