"""What a page points to is there: files, tables, values of configs."""

import re
from pathlib import Path

import pytest
import yaml

from espnet_ext.tables.plan import load_scale

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted(path.parent for path in ROOT.glob("egs/*/run.sh"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/*.md")),
    *(
        recipe / page
        for recipe in RECIPES
        for page in ("README.md", "RESULTS.md")
        if (recipe / page).exists()
    ),
    *(
        path
        for folder in ("contrib", "espnet_ext", "examples", "tests")
        for path in sorted(ROOT.glob(f"{folder}/**/*.md"))
        if "build" not in path.parts
    ),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = [
        link.partition("#")
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text())
        if "://" not in link
    ]
    missing = [
        path for path, _, _ in links if path and not (page.parent / path).exists()
    ]
    assert not missing
    for path, _, heading in links:
        if heading:
            text = ((page.parent / path) if path else page).read_text()
            headings = [
                re.sub(r"[^\w -]", "", found).lower().replace(" ", "-")
                for found in re.findall(r"^#+ (.+)$", text, re.M)
            ]
            assert heading in headings, f"{path} has no heading {heading}"


def test_folders_of_tests_are_those_of_their_page():
    page = (ROOT / "tests" / "README.md").read_text()
    folders = re.findall(r"`((?:\w+/)+)`", page)
    missing = [
        folder
        for folder in folders
        if not (ROOT / "tests" / folder).is_dir() and not (ROOT / folder).is_dir()
    ]
    assert folders and not missing


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_files_that_a_paper_is_traced_to_are_there(recipe):
    """A file of espnet_ext stands with its path; one that follows it may leave out what
    both have in common.
    """
    rows = re.findall(r"^\|.*", (recipe / "README.md").read_text(), re.M)
    assert rows
    for row in rows:
        folders = [ROOT, ROOT / "espnet_ext", recipe, recipe / "conf"]
        for name in re.findall(r"`([\w/]+\.(?:py|yaml|sh))`", row):
            place = next(
                (
                    folder / name
                    for folder in reversed(folders)
                    if (folder / name).exists()
                ),
                None,
            )
            assert place, f"{recipe.name}: README.md names {name}, which is not there"
            folders.append(place.parent)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_each_table_has_its_command(recipe):
    text = (recipe / "README.md").read_text()
    numbers = re.findall(
        r'^  "?(\w+)"?:$',
        (recipe / "conf" / "tables.yaml").read_text().split("\ntables:")[1],
        re.M,
    )
    assert numbers
    for number in numbers:
        assert re.search(rf"`\./run\.sh --(?:table|figure) {number}\b", text), (
            f"no command for {number}"
        )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_values_in_the_table_of_deviations_are_those_of_the_config(recipe):
    """The last column has them as ``section.key: value``."""
    page = (recipe / "README.md").read_text()
    table = re.search(r"^\|.* config at `full` \|\n(?:\|.*\n)+", page, re.M)[0]
    last_cells = " ".join(line.rsplit("|", 2)[1] for line in table.splitlines())
    stated = re.findall(r"`([\w.]+): ([^`]+)`", last_cells)
    assert stated
    for path, value in stated:
        found = load_scale(recipe, "full")
        for key in path.split("."):
            found = found[key]
        assert found == yaml.safe_load(value), path
