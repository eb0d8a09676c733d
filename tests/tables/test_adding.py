"""Seeds and rows that are added to kept results."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.adding import add_results
from espnet_ext.tables.kept.keeping import keep_results
from espnet_ext.tables.kept.result_files import read_results
from espnet_ext.tables.pages.render import meta_line
from espnet_ext.tables.pages.results_md import write_recipe_report
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.table_results import write_tables
from espnet_ext.tables.verify import verify_recipe
from espnet_ext.work.files import write_json


def write(toy: Path, expdir: Path, numbers: str, command: str) -> Path:
    tables = load_tables(toy)
    selected = [tables.tables[number] for number in numbers]
    write_tables(tables, selected, None, expdir, scale="mini", corpus="toy", command=command)
    return expdir / "results"


@pytest.fixture
def both(toy: Path, exp: SimpleNamespace, scored: Callable, tmp_path: Path) -> SimpleNamespace:
    """Table 1 kept with its seeds; a second run, in another folder, of seed 3 of both systems."""
    first = tmp_path / "first"
    exp.folder.rename(first)
    keep_results(write(toy, first, "1", "./run.sh --seed 1,2"), toy.parents[1] / "results")
    scored("base", 3, "clean", [2] * 60)
    scored("new", 3, "clean", [1] * 60)
    scored("new", 3, "clean", [0] * 60, decoding="lm")
    results = write(toy, exp.folder, "12", "./run.sh --seed 3")
    return SimpleNamespace(recipe=toy.parents[1], run=results, place=toy.parents[1] / "results" / "mini-toy")


def test_tables_are_those_of_both_runs(both: SimpleNamespace):
    before = read_results(both.place / "table1.json")
    assert add_results(both.run, both.recipe) == [both.place / "table1.json", both.place / "table2.json"]
    after = read_results(both.place / "table1.json")
    assert [row["seeds"] for row in before["rows"]] == [[1, 2], [1, 2]]
    assert [row["seeds"] for row in after["rows"]] == [[1, 2, 3], [1, 2, 3]]
    old, new = (result["rows"][0]["cells"]["clean"]["here"]["values"] for result in (before, after))
    assert new == {**old, "3": 10.0}
    assert {claim["tests"]["clean"]["seeds"][-1] for claim in after["claims"]} == {3}
    write_recipe_report(both.recipe)
    assert all(table.recomputed for table in verify_recipe(both.recipe))


def test_a_table_says_which_runs_it_comes_from(both: SimpleNamespace):
    add_results(both.run, both.recipe)
    meta = read_results(both.place / "table1.json")["meta"]
    assert meta["command"] == "./run.sh --seed 3"
    assert [run["command"] for run in meta["earlier"]] == ["./run.sh --seed 1,2"]
    assert "`./run.sh --seed 3`" in meta_line(meta)
    assert "Added to results of an earlier run: command: `./run.sh --seed 1,2`" in meta_line(meta)
    # Table 2 has the reference of table 1, and one row, which is the new run's alone.
    assert "earlier" not in read_results(both.place / "table2.json")["meta"]


def test_adding_twice_changes_nothing(both: SimpleNamespace):
    add_results(both.run, both.recipe)
    before = {path.name: path.read_bytes() for path in both.place.iterdir()}
    assert add_results(both.run, both.recipe) == []
    assert {path.name: path.read_bytes() for path in both.place.iterdir()} == before


def test_tables_without_scores_stay_and_cannot_be_added_to(both: SimpleNamespace, toy: Path):
    older = {**read_results(both.place / "table1.json"), "scores": None}
    write_json(both.place / "table1.json", older)
    with pytest.raises(InputError, match=r"table1.json: its scores are not kept, so that nothing can be added to it"):
        add_results(both.run, both.recipe)
    (both.run / "table1.json").unlink()
    assert add_results(both.run, both.recipe) == [both.place / "table2.json"]
    assert read_results(both.place / "table1.json") == older


def test_other_test_sets_are_refused_and_nothing_is_written(both: SimpleNamespace, toy: Path, scored: Callable, exp):
    for system in ("base", "new"):
        scored(system, 3, "clean", [1] * 50)
    scored("new", 3, "clean", [0] * 50, decoding="lm")
    write(toy, exp.folder, "12", "./run.sh --seed 3")
    before = {path.name: path.read_bytes() for path in both.place.iterdir()}
    with pytest.raises(InputError, match=r"holds other utterances, references or speakers of clean than the run"):
        add_results(both.run, both.recipe)
    assert {path.name: path.read_bytes() for path in both.place.iterdir()} == before


def test_there_must_be_something_to_add_to(both: SimpleNamespace):
    for path in both.place.iterdir():
        path.unlink()
    with pytest.raises(InputError, match=r"no scores.json.gz there to add to; keep the results without --add"):
        add_results(both.run, both.recipe)
