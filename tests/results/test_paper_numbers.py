"""egs/librispeech_sem/conf/tables.yaml against the paper itself."""

import re
from pathlib import Path

import pytest

from espnet_ext.results.config import load_tables
from espnet_ext.results.plan import decodings_needed, select, systems_needed

ROOT = Path(__file__).parents[2]
PAPER = ROOT.parent / "shared" / "papers" / "001_7f7e2fc9ee916dcb.txt"
TABLES = load_tables(ROOT / "egs" / "librispeech_sem" / "conf" / "tables.yaml")
COLUMNS = ["test-clean", "test-other", "average"]


@pytest.fixture(scope="module")
def paper() -> str:
    if not PAPER.is_file():
        pytest.skip(f"the paper's text is not at {PAPER}")
    return PAPER.read_text(encoding="utf-8")


def test_numbers_are_those_of_the_paper(paper: str):
    found = {column: [] for column in COLUMNS}
    for line in paper.splitlines():
        name, *cells = line.split("\t")
        if name in COLUMNS and cells:
            found[name].append([float(cell.removesuffix("%")) for cell in cells])
    assert [len(found[column]) for column in COLUMNS] == [5, 5, 5]
    for column in COLUMNS:
        ours = [[row.paper[column] for row in TABLES.tables[table].rows] for table in "12345"]
        assert ours == found[column]


def test_rows_are_the_columns_of_the_paper(paper: str):
    heads = [line.split("\t")[1:] for line in paper.splitlines() if re.match(r"η_[ab]\t", line)]
    assert len(heads) == 2
    for table, head in zip("12", heads, strict=True):
        assert [row.name for row in TABLES.tables[table].rows] == [cell.replace(" ", "") for cell in head]
    weights = next(line for line in paper.splitlines() if "lambda_{" in line and "\t" in line).split("\t")[1:]
    ours = [TABLES.decodings[row.decoding]["lm_weight"] for row in TABLES.tables["5"].rows]
    assert ours == [float(weight) for weight in weights]


@pytest.mark.parametrize("table", "12345")
def test_average_is_the_mean_of_the_test_sets(table: str):
    for row in TABLES.tables[table].rows:
        mean = (row.paper["test-clean"] + row.paper["test-other"]) / 2
        assert abs(row.paper["average"] - mean) < 0.01, row.name


def test_rows_are_the_systems_they_say():
    """The row's name gives the changed end of eta ~ U(eta_a, eta_b) (P2, eq. 6), or the dropout rate."""
    ends = {"1": lambda x: (-80.0, x), "2": lambda x: (x, 0.0), "3": lambda x: (x, x)}
    for table, expected in ends.items():
        for row in TABLES.tables[table].rows:
            overrides = TABLES.systems[row.system].overrides
            if row.name == "baseline":
                assert row.system == "baseline" and not overrides
            else:
                conf = overrides["normalize_conf"]
                assert overrides["normalize"] == "sem_global_mvn"
                assert (conf["eta_min"], conf["eta_max"]) == expected(float(row.name.removesuffix("dB")))
    for row in TABLES.tables["4"].rows[1:]:
        conf = {"dropout_rate": float(row.name.removeprefix("r="))}
        assert TABLES.systems[row.system].overrides == {"normalize": "dropout_global_mvn", "normalize_conf": conf}
    for row in TABLES.tables["5"].rows:
        conf = {"lm_weight": float(row.name.removeprefix("lm=")), "prior_weight": 0.003}
        assert row.system == "sem_m80_0" and TABLES.decodings[row.decoding] == conf


def test_a_system_of_several_tables_is_trained_once():
    systems = [system.name for system in systems_needed(TABLES, select(TABLES, None))]
    assert len(systems) == len(set(systems)) == len(TABLES.systems) == 15
    configs = [str(TABLES.systems[name].overrides) for name in systems]
    assert len(set(configs)) == 15
    assert sum(system == "sem_m80_0" for system, _ in decodings_needed(select(TABLES, None))) == 5
