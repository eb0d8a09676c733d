"""``espnet-ext table``, on the tables of a recipe."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.tables.score_table import Key, Meta, Score, Scores, write_scores

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "egs" / "librispeech_sem"


def output(capsys: pytest.CaptureFixture, *words: str | Path) -> list[str]:
    assert call(["table", *map(str, words)]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe of one's own with the tables and configs of librispeech_sem, and without
    kept results.
    """
    shutil.copytree(RECIPE / "conf", tmp_path / "recipe" / "conf")
    return tmp_path / "recipe"


def test_configs(recipe, capsys):
    (recipe / "conf" / "full.yaml").write_text(
        "train: {normalize: global_mvn, max_epoch: 40}\ndecode: {beam_size: "
        "12}\nsettings: {}\n"
    )
    (recipe / "conf" / "mini.yaml").write_text("train: {max_epoch: 2}\n")
    words = ("config", "--recipe", recipe)
    found = yaml.safe_load(
        "\n".join(output(capsys, *words, "--scale", "mini", "--system", "sem_m80_0"))
    )
    assert found == {
        "normalize": "sem_global_mvn",
        "max_epoch": 2,
        "normalize_conf": {"eta_min": -80, "eta_max": 0},
    }
    assert {"baseline", "sem_m80_0"} < set(output(capsys, *words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["config", "--recipe", "egs/none"], "egs/none/conf/tables.yaml: no such file"),
        (["config", "--system", "sem"], "no system 'sem'; known are "),
    ],
)
def test_unknown_names_are_refused(words, message):
    with pytest.raises(InputError, match=message):
        call(["table", words[0], "--recipe", str(RECIPE), *words[1:]])


def test_runs_shows_every_run_and_own_systems(recipe, capsys):
    """With two seeds of one's own system and a decoding that a test set lacks."""
    for run, rates in (
        ("mini", {("baseline", "default", "clean"): {1: 3}}),
        (
            "mini-lists",
            {
                ("mine", "default", "clean"): {1: 1, 2: 2},
                ("mine", "wide", "other"): {1: 5},
            },
        ),
    ):
        scores = Scores(
            {
                Key(*key, None): {
                    seed: Score("x", (errors,), (10,), ("spk",))
                    for seed, errors in by_seed.items()
                }
                for key, by_seed in rates.items()
            },
            quantities={},
            units={"clean": "speaker", "other": "speaker"},
            normaliser="none",
        )
        meta = Meta(
            recipe="r",
            corpus="digits",
            scale="mini",
            tables=(),
            units=scores.units,
            normaliser="none",
            runs=(),
        )
        folder = recipe / "exp" / run / "results"
        folder.mkdir(parents=True)
        write_scores(folder, scores, meta)
    lines = [line.split() for line in output(capsys, "runs", "--recipe", recipe)]
    assert ["baseline", "default", "1", "30.00"] in lines
    assert ["mine", "default", "2", "15.00", "±", "7.07", "-"] in lines
    assert ["mine", "wide", "1", "-", "50.00"] in lines
    shutil.rmtree(recipe / "exp")
    with pytest.raises(InputError):
        call(["table", "runs", "--recipe", str(recipe)])


def test_results_and_verify(recipe, capsys):
    """Kept results give the pages, which are then what they must be; another number in
    one is found.
    """
    shutil.copytree(RECIPE / "results" / "mini_short-synthetic", recipe / "run")
    words = ("results", "--recipe", recipe, "--results", recipe / "run")
    kept = recipe / "results" / "mini_short-synthetic"
    assert output(capsys, *words)[:2] == [
        f"kept: {kept}",
        f"written: {recipe / 'RESULTS.md'}",
    ]
    said, *claims = output(capsys, *words[:3])
    # Every design, with baseline, units and by what p-values are multiplied: as many as
    # the recipe has registered.
    baselines = [line for line in claims if line.endswith(")")]
    assert [line.rpartition("(")[2] for line in baselines] == [
        "against baseline)",
        "against r=0.1)",
    ]
    designs = [line for line in claims if line not in baselines]
    assert len(designs) == 2
    for design in designs:
        assert re.search(r"corrected for \d+; 40 speakers$", design)
    assert output(capsys, "verify", "--recipe", recipe) == [
        f"{path}: as the scores give it"
        for path in (recipe / "RESULTS.md", kept / "tables.md")
    ]
    (kept / "tables.md").write_text(
        (kept / "tables.md").read_text().replace("0.", "9.", 1)
    )
    with pytest.raises(
        InputError, match=r"tables\.md: line \d+: not what the scores give"
    ):
        call(["table", "verify", "--recipe", str(recipe)])
    for folder, message in (
        (recipe / "none", "no such file"),
        (kept, "nothing is kept"),
    ):
        with pytest.raises(InputError, match=message):
            call(
                [
                    "table",
                    "results",
                    "--recipe",
                    str(folder),
                    *(["--results", str(folder)] if folder != kept else []),
                ]
            )
