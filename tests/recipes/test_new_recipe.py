"""A sixth recipe by the steps of CONTRIBUTING.md: written by `espnet-ext new-recipe`, changed, and run to its table."""

import subprocess
from pathlib import Path

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.recipe.new import new_recipe
from espnet_ext.tables.publish import read_results

ROOT = Path(__file__).parents[2]


@pytest.fixture
def egs(tmp_path) -> Path:
    """The folder egs of a checkout that has no recipe yet."""
    for name in ("utils", "conf", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "egs").mkdir()
    return tmp_path / "egs"


def test_a_new_recipe_runs_and_makes_its_table(egs, capsys):
    assert call(["new-recipe", "toy_paper", "--egs", str(egs)]) == 0
    folder = egs / "toy_paper"
    assert str(folder / "run.sh") in capsys.readouterr().out
    tables = folder / "conf" / "tables.yaml"
    text = tables.read_text()
    assert "recipe: toy_paper" in text and "NAME" not in (folder / "run.sh").read_text()
    # what the paper is about: another encoder, and the paper's numbers
    encoder = "{output_size: 32, attention_heads: 2, num_blocks: 1, linear_units: 32, self_conditioning: false}"
    overrides = f"{{encoder: long_fastconformer, encoder_conf: {encoder}}}"
    text = text.replace("{model_conf: {ctc_weight: 0.5}}", overrides)
    tables.write_text(
        text.replace("system: proposed, paper: [null, null, null]", "system: proposed, paper: [2.1, 4.9, 3.5]")
    )
    smoke = folder / "conf" / "smoke.yaml"
    smoke.write_text(smoke.read_text().replace("beam_size: 1", "beam_size: 2"))
    done = subprocess.run(
        ["./run.sh", "--scale", "smoke", "--rows", "proposed"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = read_results(folder / "exp" / "smoke" / "results", folder)
    cells = next(row.cells for row in table.rows if row.name == "proposed")
    cell = next(cell for column, cell in cells.items() if column.name == "test-clean")
    assert cell.paper == 2.1 and cell.here.words > 0
    config = (folder / "exp" / "smoke" / "proposed" / "seed1" / "config.yaml").read_text()
    assert "encoder: long_fastconformer" in config


@pytest.mark.parametrize(
    ("name", "message"),
    [("Toy", "lower-case"), ("../toy", "lower-case"), ("", "lower-case"), ("made", "is there already")],
)
def test_what_is_refused(name, message, egs):
    (egs / "made").mkdir()
    with pytest.raises(InputError, match=message):
        new_recipe(name, egs)
    assert sorted(path.name for path in egs.iterdir()) == ["made"]


def test_a_folder_that_is_no_egs_is_refused(tmp_path):
    with pytest.raises(InputError, match="folder egs of a checkout"):
        new_recipe("toy", tmp_path)
