"""``espnet-ext pack`` on a recipe's system: its search, its row of the table and its paper go into the archive."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
import yaml

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.sharing.pack import of_recipe

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "egs/librispeech_sem/results/mini-synthetic"


@pytest.fixture
def system(tmp_path) -> Path:
    """The folder of a training in a copy of a recipe, with the results that are kept there."""
    recipe = tmp_path / "egs" / "librispeech_sem"
    shutil.copytree(ROOT / "egs/librispeech_sem/conf", recipe / "conf")
    (recipe / "recipe.py").touch()
    shutil.copytree(KEPT, recipe / "exp/mini/results")
    folder = recipe / "exp/mini/baseline/seed1"
    folder.mkdir(parents=True)
    (folder / "best5.ave.pth").write_bytes(b"weights")
    config = {"encoder": "blstm_maxpool", "token_list": ["a", "b/c"], "bpemodel": "data/mini/tokens/bpe.model"}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (recipe / "data/mini/tokens").mkdir(parents=True)
    (recipe / "data/mini/tokens/bpe.model").write_bytes(b"pieces")
    return folder


def test_a_system_of_a_recipe(system, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    call(["pack", str(system), "--output", "sem.zip", "--licence", "cc-by-4.0", "--language", "en"])
    assert "sem.zip: 0.0 MB" in capsys.readouterr().out
    with zipfile.ZipFile("sem.zip") as archive:
        card = archive.read("README.md").decode()
        ours = yaml.safe_load(archive.read("espnet_ext.yaml"))
        config = yaml.safe_load(archive.read("model/config.yaml"))
        table = json.loads(archive.read("results/table1.json"))
    assert ours["task"] == "asr" and ours["search"]["beam_size"] >= 1
    assert config["bpemodel"] == "model/bpe.model" and config["token_list"] == ["a", "b/c"]
    kept = json.loads((KEPT / "table1.json").read_text())
    row = next(row for row in kept["rows"] if row["system"] == "baseline")
    assert table["rows"] == [row]
    assert yaml.safe_load(card.split("---")[1])["license"] == "cc-by-4.0"
    low, high = row["cells"]["test-clean"]["here"]["ci95"]
    assert f"[{low:.2f}, {high:.2f}]" in card and "Small energy masking" in card and "seed 1" in card


def test_what_the_recipe_does_not_have(system):
    with pytest.raises(InputError, match="no decoding 'nothing'"):
        of_recipe(system, "nothing")
    with pytest.raises(InputError, match="both --lm-config and --lm-file"):
        call(["pack", str(system), "--lm-file", "x.pth"])
    with pytest.raises(InputError, match=r"lm/config.yaml: no such file"):
        call(["pack", str(system), "--decoding", "lm_0.4", "--output", str(system / "x.zip")])
