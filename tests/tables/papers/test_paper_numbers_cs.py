"""egs/asru2019_cs/conf/tables.yaml against the numbers that P1 prints."""

import pytest

from espnet_ext.tables.plan import list_needed_systems, select
from espnet_ext.tables.reading import Table, Tables
from espnet_ext.tables.result import compute_reduction

RECIPE, PAPER = "asru2019_cs", "p1"

COLUMNS = ["dev All", "dev CH", "dev EN", "test All", "test CH", "test EN"]
DATA = {"CS": "200h CS", "CS+CH": "+ 500h CH", "CS+EN": "+ 460h EN", "CS+CH+EN": "All"}
MODELS = {
    "baseline": "baseline",
    "reweight": "score re-weight",
    "shared": "attention share",
    "separate": "attention not share",
}


def of_the_paper(tables: Tables) -> list[Table]:
    """Table 5 is not of the paper."""
    return [table for name, table in tables.tables.items() if name != "5"]


def test_numbers_are_those_of_the_paper(tables: Tables, paper: dict):
    for table, lines in zip(of_the_paper(tables), paper["tables"], strict=True):
        assert [column.name for column in table.columns] == COLUMNS
        assert [list(row.paper.values()) for row in table.rows] == [
            line[-6:] for line in lines
        ]


def test_rows_are_those_of_the_paper_and_the_systems_they_say(
    tables: Tables, paper: dict
):
    lines = paper["tables"]
    assert [MODELS[row.name] for row in tables.tables["1"].rows] == [
        line[0] for line in lines[0]
    ]
    for row in tables.tables["1"].rows:
        check_system(tables, row.system, row.name, "CS")
    for table, model in (("2", "baseline"), ("3", "shared"), ("4", "separate")):
        printed_lines = lines[int(table) - 1]
        assert printed_lines[0][0] == MODELS[model]
        assert [DATA[row.name] for row in tables.tables[table].rows] == [
            line[1] for line in printed_lines
        ]
        for row in tables.tables[table].rows:
            check_system(tables, row.system, model, row.name)


def check_system(tables: Tables, name: str, mode: str, data: str) -> None:
    system = tables.systems[name]
    assert system.overrides == (
        {} if mode == "baseline" else {"decoder_conf": {"mode": mode}}
    )
    parts = {
        "CS": ["train-cs"],
        "CH": ["train-zh"],
        "EN": ["train-clean-100", "train-clean-360"],
    }
    assert list(system.data) == [
        part for part_name in data.split("+") for part in parts[part_name]
    ]


@pytest.mark.parametrize(("wanted", "number"), [(["1", "2", "3", "4"], 13), (None, 20)])
def test_systems_none_trained_twice(
    tables: Tables, wanted: list[str] | None, number: int
):
    systems = list_needed_systems(tables, select(tables, wanted))
    assert (
        len({(str(system.overrides), system.data) for system in systems})
        == len(systems)
        == number
    )
    assert len(tables.systems) == 20


def test_what_is_beyond_the_paper_is_said_so_and_repeats_its_numbers(tables: Tables):
    for row in tables.tables["5"].rows:
        same = [
            other
            for table in of_the_paper(tables)
            for other in table.rows
            if other.system == row.system
        ]
        known = same[0].paper if same else dict.fromkeys(COLUMNS)
        assert row.paper == known, row.name


@pytest.mark.parametrize("test_set", ["dev", "test"])
def test_all_is_the_mean_of_both_languages_weighted_by_one_share_of_english(
    tables: Tables, test_set: str
):
    """What the mixed error rate asserts (scoring/mixed.py) holds for the paper's
    numbers, up to their rounding.
    """
    least, most = 0.0, 1.0
    for table in of_the_paper(tables):
        for row in table.rows:
            total, han, english = (
                row.paper[f"{test_set} {measure}"] for measure in ("All", "CH", "EN")
            )
            least = max(least, (total - han - 0.01) / (english - han + 0.01))
            most = min(most, (total - han + 0.01) / (english - han - 0.01))
    assert 0.10 < least <= most < 0.12


def test_reductions_are_those_that_the_text_speaks_of(tables: Tables, paper: dict):
    for table, said in zip("24", paper["reductions"].values(), strict=True):
        (column,) = tables.tables[table].reductions
        base = tables.rows[tables.tables[table].baseline].paper[column.name]
        assert (
            round(
                compute_reduction(
                    tables.rows[f"{table}/CS+CH+EN"].paper[column.name], base
                ),
                2,
            )
            == said
        )
