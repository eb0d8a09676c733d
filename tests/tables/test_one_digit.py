"""One digit that is changed in anything that a recipe keeps, or in its pages, is found by ``table verify``."""

import random
import re
import shutil
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.verify import verify_recipe

EGS = Path(__file__).parents[2] / "egs"
RECIPES = sorted(path.parent for path in EGS.glob("*/results"))
FILES = [
    path.relative_to(EGS)
    for recipe in RECIPES
    for path in sorted([*recipe.glob("results/**/*"), recipe / "RESULTS.md", recipe / "README.md"])
    if path.is_file()
]


def change_a_digit(path: Path, draw: random.Random) -> None:
    """Another digit in the place of one; in the rendered sections only where a page is written by hand otherwise."""
    text = path.read_text()
    begin, end = 0, len(text)
    if path.name == "README.md":
        begin, end = text.index("<!-- rendered from"), text.index("<!-- end of rendered -->")
        begin = text.index("\n", begin)
    place = draw.choice([found.start() for found in re.finditer(r"\d", text) if begin <= found.start() < end])
    path.write_text(text[:place] + str((int(text[place]) + draw.randint(1, 9)) % 10) + text[place + 1 :])


def change_a_byte(path: Path, draw: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What belongs to the results of all recipes, as in a clone."""
    folder = tmp_path_factory.mktemp("clone") / "egs"
    for recipe in RECIPES:
        for name in ("conf", "results"):
            shutil.copytree(recipe / name, folder / recipe.name / name)
        for name in ("RESULTS.md", "README.md"):
            shutil.copy(recipe / name, folder / recipe.name / name)
    return folder


@pytest.mark.parametrize("name", FILES, ids=str)
def test_one_changed_digit_is_found(copies: Path, name: Path):
    path = copies / name
    whole = path.read_bytes()
    change = change_a_byte if path.suffix in (".png", ".gz") else change_a_digit
    try:
        for seed in range(3):
            change(path, random.Random(f"{name} {seed}"))
            with pytest.raises(InputError):
                verify_recipe(copies / name.parts[0])
            path.write_bytes(whole)
        assert verify_recipe(copies / name.parts[0])
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_files_that_come_and_go_are_found(copies: Path, recipe: Path):
    results = copies / recipe.name / "results"
    (results / "new.json").write_text("{}")
    with pytest.raises(InputError, match="new.json: not a file of facts"):
        verify_recipe(results.parent)
    (results / "new.json").rename(results / "new.txt")
    with pytest.raises(InputError, match="new.txt: not in .*SHA256SUMS; keep it with `espnet-ext table results`"):
        verify_recipe(results.parent)
    (results / "new.txt").unlink()
    (results / "SHA256SUMS").rename(results / "sums")
    with pytest.raises(InputError, match="SHA256SUMS: no such file"):
        verify_recipe(results.parent)
    (results / "sums").rename(results / "SHA256SUMS")
    assert verify_recipe(results.parent)
