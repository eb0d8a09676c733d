"""egs/spotify_longctx/conf/tables.yaml against the numbers that P5 prints."""

import pytest

from espnet_ext.tables.plan import list_needed_systems, load_scale, merge_system_config
from espnet_ext.tables.reading import Tables

RECIPE, SCALE, PAPER = "spotify_longctx", "full", "p5"


@pytest.fixture(scope="module")
def full(tables: Tables) -> dict:
    return load_scale(tables.recipe_dir, "full")


def test_the_contexts_are_the_papers(tables: Tables, paper: dict, full: dict):
    rows = [row for row in tables.tables["figure1"].rows if row.curve == "Rev16"]
    assert [row.x for row in rows] == paper["contexts"]
    configs = [merge_system_config(full, tables.systems[row.system]) for row in rows]
    assert [config["chunk_conf"]["max_seconds"] for config in configs] == paper[
        "contexts"
    ]


def test_published_numbers_round_to_those_of_the_text(tables: Tables, paper: dict):
    """The means of the published files against what section 4 prints: rates at 10 s and
    largest reductions.
    """
    for curve, test_set in (
        ("Earnings-22", "earnings22"),
        ("TED-LIUM", "tedlium"),
        ("Rev16", "rev16"),
    ):
        printed = paper["rates_at_10_s"][test_set]
        assert tables.rows[f"figure1/{curve} at 10 s"].paper[test_set] == pytest.approx(
            printed, abs=0.0501
        )
    for curve, printed in paper["largest_reductions"].items():
        rates = [
            row.paper["earnings22"]
            for row in tables.tables["figure4"].rows
            if row.curve == curve
        ]
        assert 100 * (1 - min(rates) / rates[0]) == pytest.approx(printed, abs=0.1)


def test_figures_have_the_published_numbers(tables: Tables):
    """At all contexts, but for what was not published: rotary 10k beyond 328 s, and
    plain sinusoids.
    """
    for number in range(1, 6):
        missing = {
            row.name
            for row in tables.tables[f"figure{number}"].rows
            if None in row.paper.values()
        }
        assert all(name.startswith(("rotary 10k", "sinusoidal")) for name in missing), (
            missing
        )
    assert tables.rows["figure2/-7.5 dB at 3600 s"].paper == {"rev16": 50.61}


def test_largest_reductions(tables: Tables, paper: dict, full: dict):
    largest = paper["largest_reductions"]
    assert tables.tables["figure1"].figure.largest == {"Earnings-22": largest["base"]}
    assert tables.tables["figure4"].figure.largest == largest
    assert (
        merge_system_config(full, tables.systems["deep_10"])["encoder_conf"][
            "num_blocks"
        ]
        == 9
    )


def test_table_1(tables: Tables, paper: dict):
    rows = iter(tables.tables["1"].rows)
    for name, (minutes, minutes_flash, speed, speed_flash) in paper["1"].items():
        without, flash = next(rows), next(rows)
        assert (without.name, flash.name) == (name, f"{name} with flash")
        assert tuple(without.paper.values()) == (minutes, speed)
        assert tuple(flash.paper.values()) == (minutes_flash, speed_flash)
    assert not list(rows) and list_needed_systems(tables, [tables.tables["1"]]) == []


def test_figures_share_their_systems(tables: Tables):
    """The model of 6 layers stands in figures 1 to 5, that of 9 layers in 4 and
    deepheads; each is trained once.
    """
    names = [
        system.name
        for system in list_needed_systems(tables, list(tables.tables.values()))
    ]
    assert len(names) == len(set(names)) == 14 * 10


def test_published_numbers_stand_beside_models_of_their_depth(
    tables: Tables, full: dict
):
    """By the authors' configurations, the models of Figure 5 have 6 layers; section 4.3
    says 9.
    """
    for figure, layers in (("figure5", 6), ("figuredeepheads", 9)):
        rows = [row for row in tables.tables[figure].rows if row.x == 10]
        configs = [
            merge_system_config(full, tables.systems[row.system])["encoder_conf"]
            for row in rows
        ]
        assert [(each["num_blocks"], each["attention_heads"]) for each in configs] == [
            (layers, heads) for heads in (6, 12, 24)
        ]
    rates = [row.paper for row in tables.tables["figure5"].rows if row.curve == "heads"]
    assert rates == [
        row.paper for row in tables.tables["figure1"].rows if row.curve == "Earnings-22"
    ]
    assert all(
        row.paper == {"earnings22": None}
        for row in tables.tables["figuredeepheads"].rows
    )
