"""Rows to paste: what a LaTeX or Markdown reader gets is what the table says."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.tables.pages.paste import paste_row, paste_table, shown_columns
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.table_results import collect


@pytest.fixture
def result(toy: Path, exp: SimpleNamespace, meta: dict) -> dict:
    tables = load_tables(toy)
    return collect(tables, tables.tables["1"], exp.folder, "mini", "toy corpus", meta)


def latex_cells(line: str) -> list[str]:
    """The cells of a LaTeX row, with what is escaped read back."""
    plain = re.sub(r"\\([&%$#_{}])", lambda found: f"\\x{ord(found[1]):02x}", line.removesuffix(r" \\"))
    cells = [cell.strip() for cell in plain.split("&")]
    return [re.sub(r"\\x(..)", lambda found: chr(int(found[1], 16)), cell).replace(r"$\pm$", "±") for cell in cells]


def markdown_cells(line: str) -> list[str]:
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_both_say_the_same(result: dict):
    row = result["rows"][0]
    columns = shown_columns(result)
    assert columns == ["clean", "other", "average", "reduction of average"]
    latex = latex_cells(paste_row(result, row, columns, "latex"))
    assert latex == markdown_cells(paste_row(result, row, columns, "markdown"))
    assert latex[:4] == ["-1dB", "4.00", "4.17 ± 1.18", latex[3]] and latex[-3:] == ["44.0%", "-", "1 2"]


def test_names_that_latex_reads_otherwise(result: dict):
    row = {**result["rows"][0], "name": "50 % & a_b | ${x}"}
    assert latex_cells(paste_row(result, row, ["clean"], "latex"))[0] == row["name"]
    assert markdown_cells(paste_row(result, row, ["clean"], "markdown"))[0] == row["name"]


def test_a_table(result: dict):
    text = paste_table(result, "latex", ["base row"], ["clean"])
    assert [line for line in text.splitlines() if line.startswith("\\")] == [
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert latex_cells(text.splitlines()[4]) == ["base row", "5.00", "10.00 ± 0.00", "[10.00, 10.00]", "1 2"]
    lines = paste_table(result, "markdown").splitlines()
    assert len(lines) == 2 + len(result["rows"])
    with pytest.raises(InputError, match="no row 'base'; known are -1dB, base row"):
        paste_table(result, "latex", ["base"])
    with pytest.raises(InputError, match="no column 'dirty'; known are clean, other, average, reduction of average"):
        paste_table(result, "latex", None, ["dirty"])


def test_the_command(capsys: pytest.CaptureFixture, pytestconfig: pytest.Config):
    show = ["table", "show", "--recipe", str(pytestconfig.rootpath / "egs" / "librispeech_sem"), "--table"]
    call([*show, "1", "--rows", "0dB,baseline", "--columns", "test-other"])
    rows = [markdown_cells(line) for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows[:1] + rows[2:]] == ["row", "0dB", "baseline"]
    with pytest.raises(InputError, match="no table 'table9'"):
        call([*show, "9"])
