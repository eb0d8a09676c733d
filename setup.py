"""All metadata but the description are in pyproject.toml: README.md links to files of
the repository, and a package index needs addresses.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REPOSITORY = PROJECT["project"]["urls"]["Repository"]
# the target of a Markdown link or image that is neither an address nor a heading
LINK = re.compile(r"(!?\[[^\]]*\]\()(?!https?://|#|mailto:)([^)\s]+)\)")


def with_addresses(text: str) -> str:
    """Return Markdown whose links to files are addresses in the repository."""

    def address(link: re.Match[str]) -> str:
        kind = "raw" if link[1].startswith("!") else "blob"
        return f"{link[1]}{REPOSITORY}/{kind}/main/{link[2]})"

    return LINK.sub(address, text)


setup(
    long_description=with_addresses((ROOT / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
