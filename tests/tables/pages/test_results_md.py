"""The pages of every recipe, and the repository's own, are what kept results give."""

import shutil
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.pages.results_md import recipe_pages, repository_pages, write_recipe_report
from espnet_ext.tables.pages.templates import names_of_recipe, render_template
from espnet_ext.tables.plans.reading import load_tables

ROOT = Path(__file__).parents[3]
RECIPES = sorted(path.parent.name for path in ROOT.glob("egs/*/results"))


@pytest.mark.parametrize("recipe", RECIPES)
def test_pages_are_rendered_from_what_is_kept(recipe: str):
    pages = recipe_pages(ROOT / "egs" / recipe)
    assert [path.name for path in pages] == ["RESULTS.md", "README.md"]
    for path, text in pages.items():
        assert path.read_text() == text


def test_pages_of_the_repository_are_rendered_from_what_is_kept():
    for path, text in repository_pages(ROOT).items():
        assert path.read_text() == text


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("figure2.json", '"verdict": "undecided"', '"verdict": "holds"', "the claims behind music are undecided"),
        ("figure1.json", '"verdict": "undecided"', '"verdict": "holds"', "no gain on Rev16"),
        ("figurenames.json", "48.7404", "51.0", "chance in the control"),
    ],
)
def test_words_that_the_kept_results_no_longer_support_are_not_rendered(file, old, new, says, tmp_path):
    recipe = tmp_path / "egs" / "spotify_longctx"
    for name in ("conf", "results"):
        shutil.copytree(ROOT / "egs" / "spotify_longctx" / name, recipe / name)
    kept = recipe / "results" / "mini-synthetic" / file
    assert old in kept.read_text()
    kept.write_text(kept.read_text().replace(old, new))
    with pytest.raises(InputError, match=f"the text says '{says}', which its numbers do not"):
        render_template(recipe / "conf" / "results_notes.md", names_of_recipe(recipe))


@pytest.mark.parametrize("recipe", RECIPES)
def test_scales_of_looks_are_those_of_the_recipe(recipe: str):
    conf = ROOT / "egs" / recipe / "conf"
    claims = [claim for table in load_tables(conf / "tables.yaml").tables.values() for claim in table.claims]
    assert claims and all((conf / f"{scale}.yaml").is_file() for claim in claims for scale in claim.extended)


def test_five_recipes_keep_results():
    assert len(RECIPES) == 5


def test_nothing_to_report(tmp_path: Path):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        write_recipe_report(tmp_path / "nowhere")
    with pytest.raises(InputError, match="results: nothing is kept there yet"):
        write_recipe_report(tmp_path)
