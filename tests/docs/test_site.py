"""The site's list of contents and the pages that the site is built from are the same:
Sphinx refuses a page that one of them lacks.
"""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def listed() -> set[Path]:
    """The pages that the trees of contents of docs/index.md name."""
    index = (ROOT / "docs" / "index.md").read_text()
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", index, re.MULTILINE | re.DOTALL)
    names = [
        line
        for tree in trees
        for line in tree.splitlines()
        if line and not line.startswith(":")
    ]
    return {
        path.resolve()
        for name in names
        for kind in (".md", ".ipynb")
        for path in (ROOT / "docs").glob(name + kind)
    }


def test_every_page_is_in_the_contents():
    patterns = runpy.run_path(str(ROOT / "docs" / "conf.py"))["include_patterns"]
    pages = {path.resolve() for pattern in patterns for path in ROOT.glob(pattern)}
    assert pages
    assert sorted(pages ^ listed()) == [ROOT / "docs" / "index.md"]
