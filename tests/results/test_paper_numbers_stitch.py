"""egs/libricss_stitch/conf/tables.yaml against the paper itself."""

from pathlib import Path

import pytest

from espnet_ext.multitalker.mixture_plan import UNITS
from espnet_ext.results.config import load_tables

ROOT = Path(__file__).parents[2]
PAPER = ROOT.parent / "shared" / "papers" / "003_bd5c03a71203692b.txt"
TABLES = load_tables(ROOT / "egs" / "libricss_stitch" / "conf" / "tables.yaml")
MIXTURES = ("dev-short", "dev-long", "test-short", "test-long")
CONDITIONS = ("libricss 0S", "libricss 0L", "libricss 10", "libricss 20", "libricss 30", "libricss 40", "libricss")
# the paper's method and overlap of each of our rows
LINES = {
    "No segmentation": ("No segmentation", "-"),
    "Block-wise inference": ("Block-wise inference", "0%"),
    "Overlapping inference": ("Overlapping inference", "50%"),
    "Stitcher alignment": ("Stitcher (alignment-based)", "50%"),
    "Stitcher WC": ("Stitcher (serialized, WC)", "50%"),
    "Stitcher WCOE": ("Stitcher (serialized, WCO/E)", "50%"),
}
CUTS = {"whole": "-", "windows0": "0%", "windows25": "25%", "windows50": "50%"}


@pytest.fixture(scope="module")
def paper() -> list[list[str]]:
    """The lines of the paper that are rows of tables, as lists of cells."""
    if not PAPER.is_file():
        pytest.skip(f"the paper's text is not at {PAPER}")
    lines = PAPER.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.split("|")] for line in lines if " | " in line]


def cut_of(system: str) -> str:
    (cut,) = TABLES.systems[system].train
    return CUTS[cut]


def test_table_2(paper):
    rows = {(line[0], line[1]): [float(cell) for cell in line[2:6]] for line in paper if line[1] in CUTS.values()}
    assert [row.name for row in TABLES.tables["2"].rows] == list(LINES)
    for row in TABLES.tables["2"].rows:
        assert [row.paper[name] for name in MIXTURES] == rows[LINES[row.name]]
        assert cut_of(row.system) == LINES[row.name][1]


def test_table_3(paper):
    rows = {line[1]: [float(cell) for cell in line[2:6]] for line in paper if line[0] == "Stitcher (serialized, WCO/E)"
            and line[1] in CUTS.values()}  # fmt: skip
    for row in TABLES.tables["3"].rows:
        overlap = row.name.replace(" ", "")
        assert [row.paper[name] for name in MIXTURES] == rows[overlap]
        assert cut_of(row.system) == overlap
        assert TABLES.systems[row.system].config == "conf/stitcher_wco_wce.yaml"


def test_table_4(paper):
    wide = [line for line in paper if len(line) >= 8 and line[0] in dict(LINES.values())]
    rows = {line[0]: [float(cell) for cell in line[1:8]] for line in wide}
    for row in TABLES.tables["4"].rows:
        assert [row.paper[name] for name in CONDITIONS] == rows[LINES[row.name][0]]


def test_table_1(paper):
    counts = {line[0]: line[1:] for line in paper}
    order = ("train", "dev short", "dev long", "test short", "test long")
    quantities = {
        "samples": "# of samples",
        "mean_words": "Avg. words.",
        "mean_seconds": "Avg. dur. (sec)",
        "hours": "Total dur. (hr)",
    }
    rows = TABLES.tables["1"].rows
    assert tuple(row.name for row in rows) == order and TABLES.quantities == UNITS
    for place, row in enumerate(rows):
        printed = {name: float(counts[key][place].replace(",", "")) for name, key in quantities.items()}
        assert row.paper == printed | {"overlap": None}
        assert row.system == f"mixtures_{TABLES.systems[row.system].train[0]}"


def test_systems_are_what_their_rows_say():
    for row in TABLES.tables["2"].rows:
        kind = {"No": "no", "Block-wise": "block", "Overlapping": "overlapping"}.get(row.name.split()[0])
        style = {"alignment": "alignment", "WC": "wc", "WCOE": "wco_wce"}.get(row.name.split()[-1])
        assert TABLES.systems[row.system].config == f"conf/{kind or f'stitcher_{style}'}.yaml"
    assert {row.system for row in TABLES.tables["4"].rows} == {"no_segmentation", "stitcher_wco_wce"}


def test_claims_hold_for_the_numbers_of_the_paper():
    for table in TABLES.tables.values():
        for claim in table.claims:
            for column in claim.columns:
                better, worse = (TABLES.row(side).paper[column.name] for side in (claim.better, claim.worse))
                assert better < worse, (claim.text, column.name)
