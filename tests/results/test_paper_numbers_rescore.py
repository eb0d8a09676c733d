"""egs/librispeech_rescore/conf/tables.yaml against the paper itself."""

import re
from pathlib import Path

import pytest

from espnet_ext.results.config import load_tables
from espnet_ext.results.plan import select, systems_needed
from espnet_ext.results.render import reduction

ROOT = Path(__file__).parents[2]
PAPER = ROOT.parent / "shared" / "papers" / "002_cdfbc89553b16bf5.txt"
TABLES = load_tables(ROOT / "egs" / "librispeech_rescore" / "conf" / "tables.yaml")
ROWS = TABLES.tables["1"].rows
# the paper's lines in the order of our rows: model and loss
LINES = {
    "first pass": ("Whisper [19]", "-"),
    "GPT-2 CE": ("GPT-2", "CE"),
    "BERT CE": ("BERT [2]", "CE"),
    "GPT-2 MWER": ("GPT-2", "MWER"),
    "GPT-2 MWER+CE": ("GPT-2", "MWER + CE"),
    "BERT MWER": ("BERT", "MWER"),
    "BERT MWER+CE": ("BERT", "MWER + CE"),
    "RescoreGPT": ("RescoreGPT", "MWER"),
    "RescoreGPT attention": ("with Attn. pooling", "MWER"),
    "RescoreBERT": ("RescoreBERT [5]", "MWER"),
    "RescoreBERT attention": ("with Attn. pooling", "MWER"),
    "10-best oracle": ("10-best Oracle", "-"),
}


@pytest.fixture(scope="module")
def paper() -> list[list[str]]:
    """The lines of Table 1 as lists of cells."""
    if not PAPER.is_file():
        pytest.skip(f"the paper's text is not at {PAPER}")
    lines = PAPER.read_text(encoding="utf-8").splitlines()
    begin = lines.index("Model\tLoss\tLatency [ms]\ttest-clean\ttest-other") + 1
    return [line.split("\t") for line in lines[begin : begin + len(ROWS)]]


def number(cell: str) -> float | None:
    found = re.match(r"[\d.]+", cell)
    return float(found[0]) if found else None


def test_numbers_are_those_of_the_paper(paper: list[list[str]]):
    assert [row.name for row in ROWS] == list(LINES)
    assert [tuple(line[:2]) for line in paper] == list(LINES.values())
    for row, line in zip(ROWS, paper, strict=True):
        assert [row.paper[name] for name in ("latency", "test-clean", "test-other")] == [number(c) for c in line[2:]]


def test_reductions_are_those_of_the_paper(paper: list[list[str]]):
    first = ROWS[0].paper
    for row, line in zip(ROWS[1:], paper[1:], strict=True):
        for name, cell in zip(("test-clean", "test-other"), line[3:], strict=True):
            said = float(re.search(r"\((.*)%\)", cell)[1])
            # 13.35 % of the first pass would be 11.16, not the 11.60 that stand there
            slip = (row.name, name) == ("RescoreGPT attention", "test-other")
            assert (reduction(row.paper[name], first[name]) == pytest.approx(said, abs=0.1)) != slip


def test_every_row_is_a_system_of_its_own_that_does_what_its_name_says():
    systems = {row.name: TABLES.systems[row.system] for row in ROWS}
    assert len(systems_needed(TABLES, select(TABLES, None))) == len(TABLES.systems) == 12
    for name, system in systems.items():
        options = system.overrides
        assert list(system.train) == ["train-clean-100", "train-clean-360", "train-other-500"]
        if name in ("first pass", "10-best oracle"):
            assert not options
            continue
        assert options["lm"] == ("gpt2" if "GPT" in name else "bert-base-cased")
        if name.startswith("Rescore"):
            pooling = "attention" if "attention" in name else {"gpt2": "last", "bert-base-cased": "cls"}[options["lm"]]
            assert (options["scorer"], options["pooling"]) == ("pooled", pooling)
        else:
            assert options["scorer"] == ("causal" if "GPT" in name else "pll") and "pooling" not in options
        assert options.get("ce_weight", 0.0) == (0.01 if name.endswith("+CE") else 0.0)
        assert system.config == ("conf/lm_adapt.yaml" if name.endswith(" CE") else "conf/mwer.yaml")


def test_claims_hold_for_the_numbers_of_the_paper():
    for claim in TABLES.tables["1"].claims:
        for column in claim.columns:
            better, worse = (TABLES.row(side).paper[column.name] for side in (claim.better, claim.worse))
            assert better < worse, (claim.text, column.name)
