"""The pages: the recipes' have the same sections in the same order, and what a page
points to is there.
"""

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
    *(recipe / "README.md" for recipe in RECIPES),
    *sorted(ROOT.glob("tests/**/*.md")),
    ROOT / "espnet_ext" / "upstream" / "README.md",
]
# In this order; only some recipes have stages of their own. Between "Data" and "From
# the paper to the code" a recipe may have sections that no other has.
SECTIONS = [
    "Commands for each table",
    "Stages",
    "Data",
    "What mini showed",
    "From the paper to the code",
    "What the paper leaves open, and deviations",
    "Without the recipe",
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_recipes_have_the_same_sections(recipe):
    found = re.findall(r"^## (.+)$", (recipe / "README.md").read_text(), flags=re.M)
    assert [each for each in found if each in SECTIONS] == [
        section for section in SECTIONS if section != "Stages" or section in found
    ]
    own = [place for place, section in enumerate(found) if section not in SECTIONS]
    assert all(
        found.index("Data") < place < found.index("From the paper to the code")
        for place in own
    )


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


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_files_that_a_paper_is_traced_to_are_there(recipe):
    """A file of espnet_ext stands with its path; one that follows it may leave out what
    both have in common.
    """
    text = (recipe / "README.md").read_text()
    section = text.split("## From the paper to the code\n")[1].split("\n## ")[0]
    for row in section.splitlines():
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
    section = text.split("## Commands for each table\n")[1].split("\n## ")[0]
    numbers = re.findall(
        r'^  "?(\w+)"?:$',
        (recipe / "conf" / "tables.yaml").read_text().split("\ntables:")[1],
        re.M,
    )
    assert numbers
    for number in numbers:
        assert re.search(rf"`\./run\.sh --(?:table|figure) {number}\b", section), (
            f"no command for {number}"
        )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_values_in_the_table_of_deviations_are_those_of_the_config(recipe):
    """The last column has them as ``section.key: value``."""
    section = (
        (recipe / "README.md")
        .read_text()
        .split("## What the paper leaves open, and deviations\n")[1]
    )
    table = [
        line for line in section.split("\n## ")[0].splitlines() if line.startswith("|")
    ]
    stated = re.findall(
        r"`([\w.]+): ([^`]+)`", " ".join(line.rsplit("|", 2)[1] for line in table)
    )
    assert table[0].endswith("| config at `full` |") and stated
    for path, value in stated:
        found = load_scale(recipe, "full")
        for key in path.split("."):
            found = found[key]
        assert found == yaml.safe_load(value), path
