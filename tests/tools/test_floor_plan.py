"""Who imports whom: a paper's folder imports the ground and no other paper; the ground
imports no paper.
"""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "espnet_ext"
PAPERS = ("codeswitch", "sem", "rescore", "stitch", "longform")
GROUND = (
    "audio",
    "corpora",
    "fast_search",
    "kaldi",
    "nbest",
    "scoring",
    "synthetic",
    "tables",
    "text",
    "upstream",
    "whisper",
    "work",
)


def imported_rooms(file: Path) -> set[str]:
    """The folders of the package that a file imports from."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    ours = [name.split(".") for name in names if name.startswith("espnet_ext.")]
    return {parts[1] for parts in ours}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_imports_no_other(paper):
    others = set(PAPERS) - {paper}
    for file in (PACKAGE / paper).rglob("*.py"):
        assert not imported_rooms(file) & others, file


@pytest.mark.parametrize("room", GROUND)
def test_the_ground_imports_no_paper(room):
    files = list((PACKAGE / room).rglob("*.py"))
    assert files
    for file in files:
        assert not imported_rooms(file) & set(PAPERS), file
