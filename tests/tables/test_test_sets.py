"""Tables on test sets of the user's own."""

from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.plan import list_needed_sets
from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.test_sets import replace_test_sets

EGS = Path(__file__).parents[2] / "egs"


def columns(recipe: str, table: str, *names: str) -> list[str]:
    tables = replace_test_sets(load_tables(EGS / recipe / "conf/tables.yaml"), names)
    found = tables.tables[table]
    assert all(set(row.paper.values()) == {None} for row in found.rows)
    assert all(
        list(row.paper) == [each.name for each in found.columns] for row in found.rows
    )
    assert not tables.claims and not tables.designs
    needed = list_needed_sets(tables, [found])
    assert all(sets == list(names) for sets in needed.values()) and needed
    return [column.name for column in found.columns]


def test_columns_have_the_names_of_the_folders():
    assert columns("librispeech_sem", "1", "calls") == ["calls"]
    assert columns("librispeech_sem", "1", "calls", "talks")[-1] == "average"
    assert columns("asru2019_cs", "1", "x")[:3] == ["x All", "x CH", "x EN"]
    assert columns("librispeech_rescore", "1", "x")[:2] == ["x", "latency"]


def test_a_set_that_is_called_as_another_column_is_refused():
    with pytest.raises(InputError, match="test set latency"):
        columns("librispeech_rescore", "1", "x", "latency")


def test_reductions_are_of_the_average_or_the_only_set():
    tables = load_tables(EGS / "librispeech_sem" / "conf/tables.yaml")
    for names, last in ((("a",), "a"), (("a", "b"), "average")):
        table = replace_test_sets(tables, names).tables["1"]
        assert [column.name for column in table.reductions] == [last]


def test_a_figure_has_a_curve_for_each_test_set():
    tables = load_tables(EGS / "spotify_longctx" / "conf/tables.yaml", "smoke")
    made = replace_test_sets(tables, ("x", "y")).tables
    names = [row.name for row in made["figure1"].rows]
    assert names == ["x at 2.5 s", "x at 10 s", "y at 2.5 s", "y at 10 s"]
    curves = dict.fromkeys(row.curve for row in made["figure2"].rows)
    old = dict.fromkeys(row.curve for row in tables.tables["figure2"].rows)
    assert list(curves) == [f"{curve} on {name}" for name in "xy" for curve in old]


def test_a_figure_that_is_made_for_these_sets_stays_as_it_is():
    path = EGS / "spotify_longctx" / "conf/tables.yaml"
    tables = load_tables(path, "mini_rooms")
    made = replace_test_sets(tables, ("quiet", "seen", "unseen"))
    assert made.tables["figurerooms"] == tables.tables["figurerooms"]
    assert made.tables["figure1"] != tables.tables["figure1"]
    assert {claim.table for claim in made.claims.values()} == {"figurerooms"}
    scales = {design.scale for design in made.designs}
    assert scales == {"mini_rooms", "mini_rooms_again"}
