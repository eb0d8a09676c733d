"""``espnet-ext pack`` on a recipe's system: its search, its scores and its paper go
into the archive.
"""

import shutil
import zipfile
from pathlib import Path

import pytest
import yaml

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.sharing.pack import describe_recipe

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def system(tmp_path, monkeypatch) -> Path:
    """The folder of a training in a copy of a recipe; its parameters are none."""
    monkeypatch.setattr("espnet_ext.sharing.pack._check_fit", lambda *_: None)
    recipe = tmp_path / "egs" / "librispeech_sem"
    shutil.copytree(ROOT / "egs/librispeech_sem/conf", recipe / "conf")
    (recipe / "recipe.py").touch()
    folder = recipe / "exp/mini/baseline/seed1"
    (folder / "decode_default/test-clean").mkdir(parents=True)
    (folder / "decode_default/test-clean/score.json").write_text(
        '{"unit": "word", "value": 5.634, "ci95": [2.2, 9.0], '
        '"interval": {"unit": "speaker", "number": 40}}'
    )
    (folder / "best5.ave.pth").write_bytes(b"weights")
    config = {
        "encoder": "blstm_maxpool",
        "token_list": ["a", "b/c"],
        "bpemodel": "data/mini/tokens/bpe.model",
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (recipe / "data/mini/tokens").mkdir(parents=True)
    (recipe / "data/mini/tokens/bpe.model").write_bytes(b"pieces")
    return folder


def test_a_system_of_a_recipe(system, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    call(
        [
            "pack",
            str(system),
            "--output",
            "sem.zip",
            "--licence",
            "cc-by-4.0",
            "--dataset",
            "openslr/librispeech_asr",
            "--language",
            "en",
        ]
    )
    printed = capsys.readouterr().out
    assert (
        "packed: " in printed
        and "bpe.model" in printed
        and "espnet_ext.load('sem.zip')" in printed
    )
    with zipfile.ZipFile("sem.zip") as archive:
        card = archive.read("README.md").decode()
        ours = yaml.safe_load(archive.read("espnet_ext.yaml"))
        config = yaml.safe_load(archive.read("model/config.yaml"))
    assert ours["task"] == "asr" and ours["search"]["beam_size"] >= 1
    assert config["bpemodel"] == "model/bpe.model" and config["token_list"] == [
        "a",
        "b/c",
    ]
    header = yaml.safe_load(card.split("---")[1])
    assert header["license"] == "cc-by-4.0" and header["model-index"]
    assert header["datasets"] == ["openslr/librispeech_asr"]
    assert (
        "| test-clean | 5.63 | 95% interval 2.20 to 9.00 over 40 speakers |" in card
        and "Small energy masking" in card
        and "seed 1" in card
    )


def test_a_decoding_with_options_of_its_run_says_them(system):
    (system / "decode_default").rename(system / "decode_default-average_best_3")
    packing = describe_recipe(system, "default-average_best_3")
    assert (
        "`default`" in packing.card.decoding
        and "average_best_3" in packing.card.decoding
    )
    assert packing.model == system / "best3.ave.pth"
    assert (
        packing.card.results["test-clean"]["value"] == 5.634
        and packing.search == describe_recipe(system).search
    )
    assert not describe_recipe(system).card.results
    with pytest.raises(InputError):
        describe_recipe(system, "default-average_best_4")


@pytest.mark.parametrize(
    "other", [["--config", "search.yaml"], ["--model", "other.pth"], []]
)
def test_error_rates_of_another_search_or_checkpoint_do_not_go_in(
    system, tmp_path, monkeypatch, capsys, other
):
    monkeypatch.chdir(tmp_path)
    Path("search.yaml").write_text("beam_size: 2\n")
    shutil.copy(system / "best5.ave.pth", "other.pth")
    call(
        [
            "pack",
            str(system),
            "--output",
            "packed",
            *(other or ["--model", str(system / "best5.ave.pth")]),
        ]
    )
    card = Path("packed/README.md").read_text()
    assert ("5.63" in card, "`default`" in card) == (not other,) * 2
    assert ("error rates" in capsys.readouterr().err) == bool(other)


def test_what_the_recipe_does_not_have(system):
    for wrong in (
        lambda: describe_recipe(system, "nothing"),
        lambda: call(["pack", str(system), "--lm-file", "x.pth"]),
        lambda: call(
            [
                "pack",
                str(system),
                "--decoding",
                "lm_0.4",
                "--output",
                str(system / "x.zip"),
            ]
        ),
    ):
        with pytest.raises(InputError):
            wrong()
