"""egs/libricss_stitch/conf/tables.yaml against the numbers that P4 prints."""

from espnet_ext.stitch.recogniser.mixture_plan import UNITS
from espnet_ext.tables.plan import list_needed_systems
from espnet_ext.tables.reading import Row, Tables

RECIPE, PAPER = "libricss_stitch", "p4"

MIXTURES = ("dev-short", "dev-long", "test-short", "test-long")
CONDITIONS = (
    "libricss 0S",
    "libricss 0L",
    "libricss 10",
    "libricss 20",
    "libricss 30",
    "libricss 40",
    "libricss",
)
# the paper's method of each of our rows
METHODS = {
    "No segmentation": "No segmentation",
    "Block-wise inference": "Block-wise inference",
    "Overlapping inference": "Overlapping inference",
    "Stitcher alignment": "Stitcher (alignment-based)",
    "Stitcher WC": "Stitcher (serialized, WC)",
    "Stitcher WCOE": "Stitcher (serialized, WCO/E)",
}
CUTS = {"whole": "-", "windows0": "0%", "windows25": "25%", "windows50": "50%"}


# rows beyond the paper, which has no numbers for them
OURS = {
    "2": [
        "Time-aware overlapping inference",
        *(f"Stitcher {style} guarded" for style in ("alignment", "WC", "WCOE")),
    ],
    "3": ["Time-aware 25 %", "25 % guarded"],
    "4": ["Time-aware overlapping inference", "Stitcher WCOE guarded"],
}


def papers_rows(tables: Tables, name: str) -> list[Row]:
    """The rows of a table that the paper has; the others are named in ``OURS``, and
    last.
    """
    rows = tables.tables[name].rows
    count = len(rows) - len(OURS[name])
    assert [row.name for row in rows[count:]] == OURS[name]
    assert all(value is None for row in rows[count:] for value in row.paper.values())
    return list(rows[:count])


def test_table_2(tables: Tables, paper: dict):
    rows = papers_rows(tables, "2")
    assert [row.name for row in rows] == list(METHODS) and tuple(
        tables.tables["2"].rates
    ) == MIXTURES
    for row, line in zip(rows, paper["2"], strict=True):
        overlap = CUTS[tables.systems[row.system].windows]
        assert [METHODS[row.name], overlap, *row.paper.values()] == line


def test_table_3(tables: Tables, paper: dict):
    assert tuple(tables.tables["3"].rates) == MIXTURES
    for row, line in zip(papers_rows(tables, "3"), paper["3"], strict=True):
        system = tables.systems[row.system]
        assert [CUTS[system.windows], *row.paper.values()] == line[1:]
        assert row.name.replace(" ", "") == line[1] and system.method == "wco_wce"


def test_table_4(tables: Tables, paper: dict):
    rows = {
        METHODS[row.name]: list(row.paper.values()) for row in papers_rows(tables, "4")
    }
    assert rows == paper["4"] and tuple(tables.tables["4"].rates) == CONDITIONS


def test_table_1(tables: Tables, paper: dict):
    order = ("train", "dev short", "dev long", "test short", "test long")
    quantities = {
        "samples": "# of samples",
        "mean_words": "Avg. words.",
        "mean_seconds": "Avg. dur. (sec)",
        "hours": "Total dur. (hr)",
    }
    rows = tables.tables["1"].rows
    assert tuple(row.name for row in rows) == order and tables.file.quantities == UNITS
    for place, row in enumerate(rows):
        wanted = {name: paper["1"][key][place] for name, key in quantities.items()} | {
            "overlap": None
        }
        assert row.paper == wanted
        assert row.system == f"mixtures_{tables.systems[row.system].data[0]}"
    assert list_needed_systems(tables, [tables.tables["1"]]) == []


def test_systems_are_what_their_rows_say(tables: Tables):
    for row in papers_rows(tables, "2"):
        system = tables.systems[row.system]
        untrained = {
            "No": "no",
            "Block-wise": "block",
            "Overlapping": "overlapping",
        }.get(row.name.split()[0])
        style = {"alignment": "alignment", "WC": "wc", "WCOE": "wco_wce"}.get(
            row.name.split()[-1]
        )
        assert (system.kind, system.method) == (
            ("merge", untrained) if untrained else ("train", style)
        )
        section = {None: None, "alignment": "stitcher_alignment"}.get(style, "stitcher")
        assert system.config == section
    assert {row.system for row in papers_rows(tables, "4")} == {
        "no_segmentation",
        "stitcher_wco_wce_windows50",
    }
