"""egs/asru2019_cs/conf/tables.yaml against the paper itself."""

import re
from pathlib import Path

import pytest

from espnet_ext.results.config import Change, load_tables, rows_of
from espnet_ext.results.plan import select, systems_needed
from espnet_ext.results.render import reduction

ROOT = Path(__file__).parents[2]
PAPER = ROOT.parent / "shared" / "papers" / "000_ead1e621fb8a4a93.txt"
TABLES = load_tables(ROOT / "egs" / "asru2019_cs" / "conf" / "tables.yaml")
COLUMNS = ["dev All", "dev CH", "dev EN", "test All", "test CH", "test EN"]
DATA = {"CS": "200h CS", "CS+CH": "+ 500h CH", "CS+EN": "+ 460h EN", "CS+CH+EN": "All"}
MODELS = {
    "baseline": "baseline",
    "reweight": "score re-weight",
    "shared": "attention share",
    "separate": "attention not share",
}


@pytest.fixture(scope="module")
def paper() -> list[list[list[str]]]:
    """The lines of each table that end in a number, as lists of cells."""
    if not PAPER.is_file():
        pytest.skip(f"the paper's text is not at {PAPER}")
    tables: list[list[list[str]]] = []
    for line in PAPER.read_text(encoding="utf-8").splitlines():
        if re.match(r"Table \d: ", line):
            tables.append([])
        elif re.search(r"\t\d+\.\d\d$", line):
            tables[-1].append(line.split("\t"))
    return tables


def test_numbers_are_those_of_the_paper(paper: list[list[list[str]]]):
    assert [len(table) for table in paper] == [4, 4, 4, 4]
    for table, lines in zip(TABLES.tables.values(), paper, strict=True):
        assert [column.name for column in table.columns] == COLUMNS
        ours = [[f"{row.paper[column]:.2f}" for column in COLUMNS] for row in table.rows]
        assert ours == [line[-6:] for line in lines], table.id


def test_rows_are_those_of_the_paper_and_the_systems_they_say(paper: list[list[list[str]]]):
    assert [MODELS[row.name] for row in TABLES.tables["1"].rows] == [line[0] for line in paper[0]]
    for row in TABLES.tables["1"].rows:
        check_system(row.system, row.name, "CS")
    for table, model in (("2", "baseline"), ("3", "shared"), ("4", "separate")):
        lines = paper[int(table) - 1]
        assert lines[0][0] == MODELS[model]
        assert [DATA[row.name] for row in TABLES.tables[table].rows] == [line[1] for line in lines]
        for row in TABLES.tables[table].rows:
            check_system(row.system, model, row.name)


def check_system(name: str, mode: str, data: str) -> None:
    system = TABLES.systems[name]
    assert system.overrides == ({} if mode == "baseline" else {"decoder_conf": {"mode": mode}})
    parts = {"CS": ["train-cs"], "CH": ["train-zh"], "EN": ["train-clean-100", "train-clean-360"]}
    assert list(system.train) == [part for name in data.split("+") for part in parts[name]]


def test_thirteen_systems_none_trained_twice():
    systems = systems_needed(TABLES, select(TABLES, None))
    assert len(systems) == len(TABLES.systems) == 13
    assert len({(str(system.overrides), system.train) for system in systems}) == 13


@pytest.mark.parametrize("test_set", ["dev", "test"])
def test_all_is_the_mean_of_both_languages_weighted_by_one_share_of_english(test_set: str):
    """What the mixed error rate asserts (scoring/mixed.py) holds for the paper's numbers, up to their rounding."""
    least, most = 0.0, 1.0
    for table in TABLES.tables.values():
        for row in table.rows:
            total, han, english = (row.paper[f"{test_set} {measure}"] for measure in ("All", "CH", "EN"))
            least = max(least, (total - han - 0.01) / (english - han + 0.01))
            most = min(most, (total - han + 0.01) / (english - han - 0.01))
    assert 0.10 < least <= most < 0.12


def test_claims_hold_for_the_numbers_of_the_paper():
    claims = [claim for table in TABLES.tables.values() for claim in table.claims]
    assert sum(isinstance(claim.better, Change) for claim in claims) == 5
    for claim in claims:
        for column in claim.columns:
            better, worse = (value(side, column.name) for side in (claim.better, claim.worse))
            assert better < worse, (claim.text, column.name)


def value(side, column: str) -> float:
    values = [TABLES.row(ref).paper[column] for ref in rows_of(side)]
    return values[0] if len(values) == 1 else values[1] - values[0]


def test_reductions_are_those_that_the_text_speaks_of(paper: list[list[list[str]]]):
    text = PAPER.read_text(encoding="utf-8")
    for table, row, said in (("2", "CS+CH+EN", "7.01%"), ("4", "CS+CH+EN", "17.12%")):
        rows = {row.name: row for row in TABLES.tables[table].rows}
        base = TABLES.row(TABLES.tables[table].baseline)
        (column,) = TABLES.tables[table].reductions
        assert f"{reduction(rows[row].paper[column], base.paper[column]):.2f}%" == said
        assert said in text
