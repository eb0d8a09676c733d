"""What a user gets wrong in a recipe is one line; tests/recipe/test_run.py has what is
the same in all of them.
"""

import pytest
from runs import smoke_run

# For each recipe: options, and what the line that refuses them has to name.
MISTAKES = {
    "asru2019_cs": [
        (["--corpus", "talcs"], "--asru2019"),
        (["--folders", "train-cs=cs200"], "--asru2019"),
        (["--asru2019", ".", "--folders", "test=t", "--stage", "5"], "/t)"),
        (["--asru2019", ".", "--folders", "train=t"], "'train'"),
        (["--asru2019", ".", "--folders", "test"], "--folders"),
        (["--average", "5"], "--average"),
    ],
    "librispeech_rescore": [
        (["--first_pass", "kaldi"], "'kaldi'"),
        (["--librispeech", "."], "/librispeech-lm-norm.txt.gz"),
        (["--nbest_lists", "conf"], "dev-clean and dev-other"),
        (["--positions", "0"], "--positions"),
        (["--first_pass", "espnet", "--clean_only", "true"], "--clean_only"),
        (["--whisper", "/nowhere", "--stage", "8"], "/exp: no such folder"),
    ],
    "librispeech_sem": [
        (["--average", "all"], "'all'"),
        (["--pretrain", "yes"], "'yes'"),
        (["--librispeech", ".", "--table", "5"], "/librispeech-lm-norm.txt.gz"),
        (["--stage", "5"], "/exp/stats/train/train/speech_shape"),
    ],
    "libricss_stitch": [
        (["--recogniser", "rnn"], "'rnn'"),
        (["--speaker_model", "/nowhere/x.pth"], "/nowhere/x.pth"),
        (["--speaker_model_config", "conf/full.yaml"], "--speaker_model,"),
        (["--recogniser", "whisper", "--table", "4"], "--table 4"),
        (["--recogniser", "whisper", "--libricss", "."], "--libricss"),
        (["--libricss", "."], "--librispeech"),
    ],
    "spotify_longctx": [
        (["--scale", "full", "--spotify", "."], "--tedlium"),
        (["--scale", "full", "--spotify", ".", "--figure", "3"], "--earnings22"),
        (
            ["--scale", "full", "--spotify", ".", "--rev16", ".", "--figure", "2"],
            "--musan",
        ),
        (["--figure", "2", "--musan", "."], "/music: "),
        (["--figure", "9"], "'figure9'"),
    ],
}


@pytest.mark.parametrize(
    ("recipe", "options", "place"),
    [(recipe, *row) for recipe, rows in MISTAKES.items() for row in rows],
)
def test_mistakes_are_one_line(recipe, options, place, tmp_path):
    done = smoke_run(recipe, *options, folder=tmp_path, status=1)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and place in line


def test_a_training_without_room_for_its_pretraining_is_refused_at_once(tmp_path):
    config = tmp_path / "own.yaml"
    config.write_text("base: baseline\nmax_epoch: 2\n")
    done = smoke_run(
        "librispeech_sem", "--asr_config", str(config), folder=tmp_path, status=1
    )
    (line,) = done.stderr.splitlines()
    assert "mine" in line and "max_epoch" in line
    assert not (tmp_path / "data").exists()
