"""The site: `make -C tools docs` builds it from the pages of the repository and from
docstrings.

The folder of the sources is the root of the repository, so that links between pages
hold on the site as in a checkout.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from espnet_ext import __version__  # noqa: E402

project = "espnet_ext"
author = "The espnet_ext developers"
copyright = "2026, the espnet_ext developers"
release = __version__

root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "examples/*.ipynb",
    "examples/*/README.md",
    "egs/*/README.md",
    "egs/*/RESULTS.md",
    "egs/*/results/*/tables.md",
    "tests/README.md",
    "tests/benchmarks/README.md",
    "espnet_ext/*/README.md",
    "contrib/*/README.md",
]
exclude_patterns = ["tools/venv", "tools/.bootstrap", "site"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]
# Pages that people also read in the repository: headings may begin at the second level.
# The lexer of notebooks has no commands of the shell that go on in the next line.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
# Outputs are those that the notebooks hold; tests/docs/test_first_pages.py runs them.
nb_execution_mode = "off"

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"espnet_ext {release}"
html_show_sphinx = False
linkcheck_timeout = 20
