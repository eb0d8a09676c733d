"""egs/spotify_longctx/conf/tables.yaml against the paper itself."""

import re
from pathlib import Path

import pytest

from espnet_ext.results.config import RowRef, load_tables
from espnet_ext.results.plan import systems_needed, train_config

ROOT = Path(__file__).parents[2]
PAPER = ROOT.parent / "shared" / "papers" / "004_6f022f03bde17f1a.txt"
TABLES = load_tables(ROOT / "egs" / "spotify_longctx" / "conf" / "tables.yaml", "full")


@pytest.fixture(scope="module")
def paper() -> str:
    if not PAPER.is_file():
        pytest.skip(f"the paper's text is not at {PAPER}")
    return " ".join(PAPER.read_text(encoding="utf-8").split())


def test_the_contexts_are_the_papers(paper):
    listed = re.search(r"are used for the investigations: ([\d, ]+) and (\d+)\.", paper)
    contexts = [int(number) for number in [*listed[1].split(", "), listed[2]]]
    assert [row.x for row in TABLES.tables["figure1"].rows if row.curve == "Rev16"] == contexts
    config = train_config(TABLES, "base_1311", scale="full")
    assert config["chunk_conf"]["max_seconds"] == 1311


def test_rates_of_the_baseline(paper):
    rates = re.search(r"has a WER of ([\d.]+)%, ([\d.]+)% and ([\d.]+)% on Earnings-22, Tedlium and Rev16", paper)
    table = TABLES.tables["figure1"]
    names = [f"{curve} at 10 s" for curve in ("Earnings-22", "TED-LIUM", "Rev16")]
    ours = [TABLES.row(RowRef("figure1", name)).paper for name in names]
    assert [list(rate.values()) for rate in ours] == [[float(rate)] for rate in rates.groups()]
    assert all(value is None for row in table.rows if row.x != 10 for value in row.paper.values())


def test_largest_reductions(paper):
    assert "with up to a 12.2% WERR from the 10s baseline" in paper
    assert TABLES.tables["figure1"].figure.largest == {"Earnings-22": 12.2}
    assert "The largest WERR of 14.5% was seen from the 9L model" in paper
    assert TABLES.tables["figure4"].figure.largest["deep"] == 14.5
    assert train_config(TABLES, "deep_10", scale="full")["encoder_conf"]["num_blocks"] == 9


def test_table_1(paper):
    lines = PAPER.read_text(encoding="utf-8").splitlines()
    for name, (without, flash) in {
        "Conformer": TABLES.tables["1"].rows[:2], "FastConformer": TABLES.tables["1"].rows[2:]
    }.items():  # fmt: skip
        cells = next(line for line in lines if line.startswith(f"{name}\t")).split("\t")
        minutes = [row.paper["minutes"] for row in (without, flash)]
        speeds = [row.paper["frames_per_second"] for row in (without, flash)]
        assert cells[1] == " / ".join(f"{value:g}" for value in minutes)
        assert cells[2] == " / ".join(f"{value:,.0f}" for value in speeds)


def test_figures_share_their_systems():
    """The model of 6 layers stands in figures 1 to 4, that of 9 layers in 4 and 5; each is trained once."""
    names = [system.name for system in systems_needed(TABLES, list(TABLES.tables.values()))]
    assert len(names) == len(set(names)) == 11 * 10
