"""What is found in a recipe's folders."""

import pytest

from espnet_ext.errors import InputError
from espnet_ext.pages.runs import decodings, figures, find_recipes, trainings


@pytest.mark.parametrize("place", ["", "exp", "exp/mini"])
def test_a_recipe_its_experiments_and_a_run_show_the_same(toy_recipe, place):
    folder = toy_recipe()
    (recipe,) = find_recipes([folder / place])
    (run,) = recipe.runs
    assert (recipe.name, recipe.folder, recipe.kept) == ("toy", folder, ())
    assert recipe.tables.file.paper.id == "P0"
    assert (run.name, run.folder, run.data) == ("mini", folder / "exp" / "mini", folder / "data" / "mini")
    assert [(each.system, each.seed, each.decoding, each.test_set) for each in decodings(run)] == [
        ("base", 1, "default", "clean"), ("base", 2, "default", "clean"), ("new", 1, "default", "clean"),
    ]  # fmt: skip
    assert [(each.system, each.seed) for each in trainings(run)] == [("base", 1), ("base", 2), ("new", 1)]
    assert [name for name, _ in figures(recipe)] == ["mini / energy / energy"]


def test_named_twice_it_comes_once(toy_recipe):
    folder = toy_recipe()
    (recipe,) = find_recipes([folder / "exp", folder / "exp" / "mini", folder])
    assert len(recipe.runs) == 1


def test_a_run_elsewhere(toy_recipe, tmp_path):
    folder = toy_recipe()
    (folder / "exp" / "mini").rename(tmp_path / "moved")
    (recipe,) = find_recipes([tmp_path / "moved"], data=folder / "data" / "mini")
    assert (recipe.name, recipe.folder, recipe.tables) == ("moved", None, None)
    assert recipe.runs[0].data == folder / "data" / "mini"


def test_language_models_come_last_and_espnets_own_pictures_are_none(toy_recipe, lm_report):
    folder = toy_recipe()
    run = folder / "exp" / "mini"
    for path in ("lm/seed2/gpt2/training.json", "lm/log/train.log", "zoo/seed1/training.json"):
        (run / path).parent.mkdir(parents=True, exist_ok=True)
        (run / path).write_text(lm_report, encoding="utf-8")
    for path in ("images/loss.png", "att_ws/u/1.png", "decode_default/clean/curve.png"):
        picture = run / "base" / "seed1" / path
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(b"")
    (recipe,) = find_recipes([folder])
    found = [(each.system, each.seed) for each in trainings(recipe.runs[0])]
    assert found[-3:] == [("zoo", 1), ("lm", None), ("lm/gpt2", 2)]
    assert [name for name, _ in figures(recipe)] == [
        "mini / base / seed1 / decode_default / clean / curve", "mini / energy / energy"
    ]  # fmt: skip


def test_a_recipe_without_a_run_is_shown_beside_another(toy_recipe, tmp_path):
    folder = toy_recipe()
    empty = tmp_path / "egs" / "empty"
    (empty / "conf").mkdir(parents=True)
    (empty / "exp").mkdir()
    (empty / "conf" / "tables.yaml").write_bytes((folder / "conf" / "tables.yaml").read_bytes())
    assert [len(recipe.runs) for recipe in find_recipes([folder / "exp", empty / "exp"])] == [1, 0]
    with pytest.raises(InputError, match="nothing has run here"):
        find_recipes([empty / "exp"])


def test_bad_input(toy_recipe, tmp_path):
    folder = toy_recipe()
    with pytest.raises(InputError, match="nowhere: no such folder"):
        find_recipes([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="wav: no results and no recipe"):
        find_recipes([folder / "data" / "mini" / "clean" / "wav"])
    (folder / "exp" / "other" / "base" / "seed1").mkdir(parents=True)
    with pytest.raises(InputError, match="--datadir belongs to a single run"):
        find_recipes([folder], data=folder / "data" / "mini")
