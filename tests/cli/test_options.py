"""Values that the command line lists without importing what they belong to are those of
the rooms.
"""

from pathlib import Path

import click
import pytest

from espnet_ext.cli import data, nbest, options, score, stitch
from espnet_ext.cli.program import call
from espnet_ext.errors import InputError


def test_choices_are_those_of_the_rooms():
    from espnet_ext.audio.files import CHECKS
    from espnet_ext.rescore.models.language_model import CASINGS, DTYPES
    from espnet_ext.scoring.alignments import RATES
    from espnet_ext.stitch.stitcher.transcripts import BY_TIME, MERGES
    from espnet_ext.text.transcripts import AUTO, FORMATS

    assert data.CHECKS == CHECKS
    assert tuple(CASINGS) == options.CASINGS and tuple(DTYPES) == nbest.DTYPES
    assert (AUTO, *FORMATS) == score.FORMATS
    assert score.COMPARED == RATES
    assert tuple(MERGES) == stitch.METHODS and stitch.METHODS[-1] == BY_TIME


def default(command: click.Command, name: str) -> object:
    return next(option.default for option in command.params if option.name == name)


def test_defaults_are_those_of_the_rooms():
    from espnet_ext.scoring.assignments import COLLAR
    from espnet_ext.text.windows import WINDOW_SECONDS, Windowing

    assert default(score.sa, "collar") == default(score.compare, "collar") == COLLAR
    assert default(stitch.windows, "window") == WINDOW_SECONDS
    assert default(stitch.windows, "window_overlap") == Windowing().overlap


def test_corpora_and_scorers_are_there():
    from importlib import import_module

    for corpus in data.CORPORA:
        assert callable(
            getattr(import_module(f"espnet_ext.corpora.{corpus}"), f"prepare_{corpus}")
        )


def test_pairs_and_names():
    assert options.pair_outputs(["a", "b"], ["x", "y"]) == [("a", "x"), ("b", "y")]
    assert options.split_names("a, b,,c ") == ["a", "b", "c"]


def test_options_win_over_the_config(tmp_path):
    (tmp_path / "a.yaml").write_text("lr: 0.1\nlm: gpt2\n")
    assert options.merge_settings(
        tmp_path / "a.yaml", {"lm": "bert", "scorer": None}
    ) == {
        "lr": 0.1,
        "lm": "bert",
    }
    assert options.merge_settings(None, {"lm": "bert", "scorer": None}) == {
        "lm": "bert"
    }


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    """A shell leaves it as it is in --output=~/x."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert options.PATH.convert("~/x", None, None) == tmp_path / "x"
    assert options.WRITTEN.convert("~", None, None) == tmp_path
    Path("~own").mkdir()
    assert options.PATH.convert("~own/x", None, None) == Path("~own/x")
    with pytest.raises(InputError, match="~nobody-of-this-name"):
        options.PATH.convert("~nobody-of-this-name/x", None, None)


def test_an_interrupted_run_says_that_it_resumes(monkeypatch, capsys):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("espnet_ext.cli.run.run_stages", interrupt)
    monkeypatch.setattr("espnet_ext.recipe.guard.end_at_once_with_parent", lambda: None)
    monkeypatch.chdir(Path(__file__).parents[2] / "egs" / "librispeech_sem")
    with pytest.raises(KeyboardInterrupt):
        call(["run", "data", "--scale=smoke"])
    assert "same command resumes" in capsys.readouterr().err
