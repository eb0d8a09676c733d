"""egs/spotify_longctx/conf/tables.yaml against the numbers that P5 prints."""

from collections.abc import Callable

import pytest

from espnet_ext.results.plans.plan import load_scale, system_config, systems_needed
from espnet_ext.results.plans.tables import RowRef, Tables


@pytest.fixture(scope="module")
def tables(recipe_tables: Callable[..., Tables]) -> Tables:
    return recipe_tables("spotify_longctx", "full")


@pytest.fixture(scope="module")
def paper(printed: Callable[[str], dict]) -> dict:
    return printed("p5")


@pytest.fixture(scope="module")
def full(tables: Tables) -> dict:
    return load_scale(tables.recipe_dir, "full")


def test_the_contexts_are_the_papers(tables: Tables, paper: dict, full: dict):
    rows = [row for row in tables.tables["figure1"].rows if row.curve == "Rev16"]
    assert [row.x for row in rows] == paper["contexts"]
    configs = [system_config(full, tables.systems[row.system]) for row in rows]
    assert [config["chunk_conf"]["max_seconds"] for config in configs] == paper["contexts"]


def test_rates_of_the_baseline(tables: Tables, paper: dict):
    names = [f"{curve} at 10 s" for curve in ("Earnings-22", "TED-LIUM", "Rev16")]
    ours = [tables.row(RowRef("figure1", name)).paper for name in names]
    assert ours == [{test_set: rate} for test_set, rate in paper["rates_at_10_s"].items()]
    rows = tables.tables["figure1"].rows
    assert all(value is None for row in rows if row.x != 10 for value in row.paper.values())


def test_largest_reductions(tables: Tables, paper: dict, full: dict):
    largest = paper["largest_reductions"]
    assert tables.tables["figure1"].figure.largest == {"Earnings-22": largest["base"]}
    assert tables.tables["figure4"].figure.largest == largest
    assert system_config(full, tables.systems["deep_10"])["encoder_conf"]["num_blocks"] == 9


def test_table_1(tables: Tables, paper: dict):
    rows = iter(tables.tables["1"].rows)
    for name, (minutes, minutes_flash, speed, speed_flash) in paper["1"].items():
        without, flash = next(rows), next(rows)
        assert (without.name, flash.name) == (name, f"{name} with flash")
        assert without.paper == {"minutes": minutes, "frames_per_second": speed}
        assert flash.paper == {"minutes": minutes_flash, "frames_per_second": speed_flash}
    assert not list(rows) and systems_needed(tables, [tables.tables["1"]]) == []


def test_figures_share_their_systems(tables: Tables):
    """The model of 6 layers stands in figures 1 to 4, that of 9 layers in 4 and 5; each is trained once."""
    names = [system.name for system in systems_needed(tables, list(tables.tables.values()))]
    assert len(names) == len(set(names)) == 11 * 10
