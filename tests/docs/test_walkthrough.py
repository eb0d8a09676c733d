"""docs/walkthrough.md: the files and functions that it names are there, and they are
few.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
LIMITS = {"A FLAC": 35, "N-best lists": 20, "A recording": 15}


def path_of(name: str, section: str) -> Path:
    found = [
        path for path in (ROOT / name, ROOT / "espnet_ext" / name) if path.is_file()
    ]
    return (
        found[0]
        if found
        else next((ROOT / "espnet_ext").rglob(name), Path(f"{section}: {name}"))
    )


def test_every_file_and_function_is_there():
    for section in TEXT.split("\n## ")[1:]:
        for name in re.findall(r"`([\w/]+\.py)`", section):
            assert path_of(name, section[:20]).is_file(), name
        for name, function in re.findall(
            r"`([\w/]+\.py)` (?:\||\()\s*`(\w+)`", section
        ):
            source = path_of(name, section[:20]).read_text(encoding="utf-8")
            assert re.search(
                rf"^(?:def|class|async def) {function}\b", source, re.MULTILINE
            ), f"{name}: {function}"


def test_each_way_is_short_and_enters_each_file_once():
    assert len(TEXT.splitlines()) <= 60
    sections = TEXT.split("\n## ")[1:]
    for section in sections:
        names = re.findall(r"`([\w/]+\.py)`", section)
        limit = next(
            limit for begins, limit in LIMITS.items() if section.startswith(begins)
        )
        assert len(names) == len(set(names)) <= limit
    assert len(sections) == len(LIMITS)
