"""Runs on folds of speakers, and results that are joined over them."""

import math
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.recipe.speaker_folds import SpeakerFolds, join_folds
from espnet_ext.tables.score_table import (
    Key,
    Meta,
    Score,
    Scores,
    read_meta,
    read_scores,
    write_scores,
)
from espnet_ext.work.provenance import collect_meta

KEYS = [Key(system, "default", "test-clean", None) for system in ("a", "b")]


def fold(
    folder: Path,
    speaker: str,
    losses: dict,
    unfinished: dict,
    seeds=(1, 2),
    unit: str = "speaker",
) -> Path:
    """Write the results of a run whose test set has one speaker of ten words."""
    errors = {key: int(speaker) + number for number, key in enumerate(KEYS)}
    rates = {
        key: {
            seed: Score("", (errors[key] + seed,), (40,), (speaker,)) for seed in seeds
        }
        for key in KEYS
    }
    shared = {
        "units": {"test-clean": unit},
        "normaliser": "none",
        "dev_losses": losses,
        "unfinished": unfinished,
    }
    run = collect_meta("./run.sh", folder.parent)
    meta = Meta.model_validate(
        {"recipe": "r", "corpus": "c", "scale": "s", "tables": ["1", "2"]}
        | {"runs": [run], "quantities": {"set": {"samples": 5.0}}}
        | shared
    )
    write_scores(folder, Scores(rates, {}, shared["units"], "none", losses), meta)
    return folder


def test_results_are_joined_over_speakers(tmp_path):
    losses = [{"a": {1: 0.5, 2: 0.7}}, {"a": {1: 0.6, 2: math.nan}}]
    folders = [
        fold(tmp_path / speaker, speaker, loss, at_end)
        for speaker, loss, at_end in zip(
            ("11", "12"), losses, ({"a": [2]}, {"a": [1]}), strict=True
        )
    ]
    scores, meta = join_folds(dict(zip("xy", folders, strict=True)), "c-out")
    joined = scores.select("b", "default", "test-clean", None)[2]
    assert (joined.units, joined.errors, joined.words) == (
        ("11", "12"), (14, 15), (40, 40),
    )  # fmt: skip
    # a seed has failed, or is unfinished, if it is so without one of the speakers
    assert meta.dev_losses["a"][1] == 0.6 and math.isnan(meta.dev_losses["a"][2])
    assert meta.unfinished == {"a": (1, 2)}
    assert meta.corpus == "c-out"
    assert not meta.quantities  # of a fold


def test_joined_results_have_the_tables_of_error_rates(tmp_path):
    folds = SpeakerFolds(
        tmp_path, "s", Path("corpora/c"), [("11",), ("12",)], lambda *_: None
    )
    for speaker in ("11", "12"):
        fold(tmp_path / "exp" / "s" / speaker / "results", speaker, {}, {})
    folds.write_results(["2"], "local/folds.py --seed 1")
    scores, meta = read_scores(tmp_path / "exp" / "s" / "results")
    assert scores.select("a", "default", "test-clean", None)[1].units == ("11", "12")
    assert (meta.tables, meta.corpus) == (("2",), "c-out")
    assert meta.runs[0].command.endswith("local/folds.py --seed 1")


def test_recordings_are_called_after_their_fold(tmp_path):
    folders = {
        name: fold(tmp_path / name, "11", {}, {}, unit="recording") for name in "xy"
    }
    scores, _ = join_folds(folders, "c-out")
    joined = scores.select("a", "default", "test-clean", None)[1]
    assert joined.units == ("x/11", "y/11")
    # so that the results can be read again
    write_scores(tmp_path / "joined", scores, read_meta(folders["x"]))
    again, _ = read_scores(tmp_path / "joined")
    assert again.select("a", "default", "test-clean", None)[1].units == joined.units


def test_a_training_that_one_fold_lacks_is_refused(tmp_path):
    folders = {
        "x": fold(tmp_path / "11", "11", {}, {}),
        "y": fold(tmp_path / "12", "12", {}, {}, seeds=(1,)),
    }
    with pytest.raises(InputError, match="seed 2"):
        join_folds(folders, "c-out")


RUN = """#!/bin/sh
echo "$@" >> log
"""


def test_no_fold_is_tested_before_all_are_trained(tmp_path):
    (tmp_path / "run.sh").write_text(RUN)
    (tmp_path / "run.sh").chmod(0o755)
    made = []

    def make_corpus(output: Path, speakers) -> None:
        made.append(tuple(speakers))
        output.mkdir()

    folds = SpeakerFolds(
        tmp_path, "mini", tmp_path / "c", [("1", "2"), ("3",)], make_corpus
    )
    folds.run(["--seed", "1"], last_training=5, stop_stage=9)
    assert made == [("1", "2"), ("3",)]
    lines = [line.split() for line in (tmp_path / "log").open()]
    corpora = ["data/mini/c-out-1-2", "data/mini/c-out-3"] * 2
    assert [line[line.index("--librispeech") + 1] for line in lines] == corpora
    last = [line[line.index("--stop_stage") + 1] for line in lines]
    assert last == ["5", "5", "9", "9"]
    assert ["--stage" in line for line in lines] == [False, False, True, True]
    folds.run(["--seed", "1"], last_training=5, stop_stage=4)
    assert (tmp_path / "log").read_text().splitlines()[-1].endswith("--stop_stage 4")
    assert len(made) == 2


def test_a_fold_that_fails_ends_the_run(tmp_path):
    (tmp_path / "run.sh").write_text(f"{RUN}exit 3\n")
    (tmp_path / "run.sh").chmod(0o755)
    folds = SpeakerFolds(
        tmp_path, "mini", tmp_path / "c", [("1",), ("2",)], lambda to, _: to.mkdir()
    )
    with pytest.raises(SystemExit) as ended:
        folds.run([], last_training=5, stop_stage=9)
    assert ended.value.code == 3
    assert len((tmp_path / "log").read_text().splitlines()) == 1
