"""What a user gets wrong in a recipe is one line; tests/recipe/test_run.py has what is
the same in all of them.
"""

import pytest
from runs import smoke_run

MISTAKES = {
    "asru2019_cs": [
        (["--corpus", "talcs"], "--corpus talcs needs its folder: give --asru2019 DIR"),
        (
            ["--folders", "train-cs=cs200"],
            "--folders names folders of a corpus: give --asru2019 DIR",
        ),
        (
            ["--asru2019", ".", "--folders", "test=t", "--stage", "5"],
            "no folder for test",
        ),
        (["--asru2019", ".", "--folders", "train=t"], "there is no part 'train'"),
        (["--asru2019", ".", "--folders", "test"], "--folders takes PART=DIR"),
        (["--average", "5"], "--average takes best:N or last:N"),
    ],
    "librispeech_rescore": [
        (
            ["--first_pass", "kaldi"],
            "--first_pass takes one of whisper|espnet, not 'kaldi'",
        ),
        (["--librispeech", "."], "/librispeech-lm-norm.txt.gz: no such file"),
        (
            ["--nbest_lists", "conf"],
            "no lists of train-clean-100, train-other-500, dev-clean",
        ),
        (["--positions", "0"], "--positions takes a whole number"),
        (
            ["--first_pass", "espnet", "--clean_only", "true"],
            "use --first_pass whisper",
        ),
        (
            ["--whisper", "/nowhere", "--stage", "8"],
            "exp: no such folder, so nothing has run there",
        ),
    ],
    "librispeech_sem": [
        (["--average", "all"], "--average takes best:N or last:N, not 'all'"),
        (["--pretrain", "yes"], "--pretrain takes one of true|false"),
        (
            ["--librispeech", ".", "--table", "5"],
            "/librispeech-lm-norm.txt.gz: no such file",
        ),
        (["--stage", "5"], "is missing: run the earlier stages first"),
    ],
    "libricss_stitch": [
        (["--recogniser", "rnn"], "--recogniser takes one of lstm|conformer|whisper"),
        (
            ["--speaker_model", "/nowhere/x.pth"],
            "--speaker_model /nowhere/x.pth: no such file",
        ),
        (
            ["--speaker_model_config", "conf/full.yaml"],
            "--speaker_model_config needs --speaker_model",
        ),
        (
            ["--recogniser", "whisper", "--table", "4"],
            "Table 4 is of speakers who talk at once",
        ),
        (
            ["--recogniser", "whisper", "--libricss", "."],
            "--libricss is for a recogniser that is trained",
        ),
        (["--libricss", "."], "--libricss needs --librispeech DIR"),
    ],
    "spotify_longctx": [
        (["--scale", "full", "--spotify", "."], "--scale full needs --tedlium"),
        (
            ["--scale", "full", "--spotify", ".", "--figure", "3"],
            "--scale full needs --earnings22 DIR for these rows",
        ),
        (
            ["--scale", "full", "--spotify", ".", "--rev16", ".", "--figure", "2"],
            "--scale full needs --musan",
        ),
        (["--figure", "2", "--musan", "."], "music: there is no .wav in it"),
        (["--figure", "9"], "no table 'figure9'"),
    ],
}


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [(recipe, *row) for recipe, rows in MISTAKES.items() for row in rows],
)
def test_mistakes_are_one_line(recipe, options, message, tmp_path):
    done = smoke_run(recipe, *options, folder=tmp_path, status=None)
    assert done.returncode == (
        2 if "--help lists the options" in done.stderr else 1
    )  # 2: a wrong command line
    assert (
        message in done.stdout + done.stderr
        and "Traceback" not in done.stdout + done.stderr
    )
