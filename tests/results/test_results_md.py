"""RESULTS.md of every recipe is what its kept results give."""

from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.results.results_md import write_recipe_report

EGS = Path(__file__).parents[2] / "egs"
RECIPES = sorted(path.parent.name for path in EGS.glob("*/results"))


@pytest.mark.parametrize("recipe", RECIPES)
def test_results_are_rendered_from_what_is_kept(recipe: str, tmp_path: Path):
    output, tables = write_recipe_report(EGS / recipe, output=tmp_path / "RESULTS.md")
    assert tables == len(
        [*(EGS / recipe).glob("results/*/table*.json"), *(EGS / recipe).glob("results/*/figure*.json")]
    )
    assert output.read_text() == (EGS / recipe / "RESULTS.md").read_text()


def test_five_recipes_keep_results():
    assert len(RECIPES) == 5


def test_nothing_to_report(tmp_path: Path):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        write_recipe_report(tmp_path / "nowhere")
    with pytest.raises(InputError, match="results: nothing is kept there yet"):
        write_recipe_report(tmp_path)
