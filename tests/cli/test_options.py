"""Values that the command line lists without importing what they belong to are those of
the rooms.
"""

import click

from espnet_ext.cli import data, nbest, options, score, stitch


def test_choices_are_those_of_the_rooms():
    from espnet_ext.audio.files import CHECKS
    from espnet_ext.rescore.models.language_model import CASINGS, DTYPES
    from espnet_ext.scoring.alignments import RATES
    from espnet_ext.stitcher.transcripts import BY_TIME, MERGES
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
    assert options.pairs(["a", "b"], ["x", "y"]) == [("a", "x"), ("b", "y")]
    assert options.names("a, b,,c ") == ["a", "b", "c"]


def test_options_win_over_the_config(tmp_path):
    (tmp_path / "a.yaml").write_text("lr: 0.1\nlm: gpt2\n")
    assert options.settings(tmp_path / "a.yaml", {"lm": "bert", "scorer": None}) == {
        "lr": 0.1,
        "lm": "bert",
    }
    assert options.settings(None, {"lm": "bert", "scorer": None}) == {"lm": "bert"}
