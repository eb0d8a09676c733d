"""egs/librispeech_sem/conf/tables.yaml against the numbers that P2 prints."""

import pytest

from espnet_ext.tables.plan import (
    list_needed_sets,
    list_needed_systems,
    load_scale,
    merge_system_config,
    select,
)
from espnet_ext.tables.reading import Tables

RECIPE, PAPER = "librispeech_sem", "p2"

COLUMNS = ["test-clean", "test-other", "average"]


def test_numbers_are_those_of_the_paper(tables: Tables, paper: dict):
    printed = paper["tables"]
    assert list(tables.tables) == [*printed, "r"]  # one that the paper does not have
    for name in printed:
        assert [column.name for column in tables.tables[name].columns] == COLUMNS
        for column in COLUMNS:
            assert [row.paper[column] for row in tables.tables[name].rows] == printed[
                name
            ][column], (name, column)


def test_rows_are_the_columns_of_the_paper(tables: Tables, paper: dict):
    heads = {name: table["head"] for name, table in paper["tables"].items()}
    for name in "1234":
        assert [row.name for row in tables.tables[name].rows] == [
            cell.replace(" ", "") for cell in heads[name]
        ]
    ours = [
        tables.decodings[row.decoding]["lm_weight"] for row in tables.tables["5"].rows
    ]
    assert ours == heads["5"]


@pytest.mark.parametrize("table", "12345")
def test_average_is_the_mean_of_the_test_sets(tables: Tables, table: str):
    for row in tables.tables[table].rows:
        clean, other, average = row.paper.values()
        assert abs(average - (clean + other) / 2) < 0.01, row.name


def test_rows_are_the_systems_they_say(tables: Tables):
    """The row's name gives the changed end of eta ~ U(eta_a, eta_b) (P2, eq. 6), or the
    dropout rate.
    """
    ends = {"1": lambda x: (-80.0, x), "2": lambda x: (x, 0.0), "3": lambda x: (x, x)}
    for table, expected in ends.items():
        for row in tables.tables[table].rows:
            overrides = tables.systems[row.system].overrides
            if row.name == "baseline":
                assert row.system == "baseline" and not overrides
            else:
                conf = overrides["normalize_conf"]
                assert overrides["normalize"] == "sem_global_mvn"
                assert (conf["eta_min"], conf["eta_max"]) == expected(
                    float(row.name.removesuffix("dB"))
                )
    for row in tables.tables["4"].rows[1:]:
        conf = {"dropout_rate": float(row.name.removeprefix("r="))}
        assert tables.systems[row.system].overrides == {
            "normalize": "dropout_global_mvn",
            "normalize_conf": conf,
        }
    for row in tables.tables["5"].rows:
        conf = {"lm_weight": float(row.name.removeprefix("lm=")), "prior_weight": 0.003}
        assert row.system == "sem_m80_0" and tables.decodings[row.decoding] == conf


def test_a_system_of_several_tables_is_trained_once(tables: Tables):
    needed = list_needed_systems(tables, select(tables, None))
    names = [system.name for system in needed]
    assert len(names) == len(set(names)) == len(tables.systems) == 17
    sections = load_scale(tables.recipe_dir, "full")
    assert len({str(merge_system_config(sections, system)) for system in needed}) == 17
    assert (
        sum(
            system == "sem_m80_0"
            for system, _ in list_needed_sets(tables, select(tables, None))
        )
        == 5
    )
