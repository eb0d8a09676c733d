"""``--data DIR``: each recipe on a folder of Kaldi data dirs reaches its table.

There, test sets have the names of their folders.
"""

import json
import shutil
from pathlib import Path

import pytest
from runs import ROWS, smoke_run

from espnet_ext.tables.score_table import read_scores

# What stage 1 makes of the synthetic corpus -> what is given as a folder of data dirs.
GIVEN = {
    "librispeech_sem": {
        "train-clean-100": "train",
        "dev-clean": "dev",
        "test-clean": "calls",
        "test-other": "talks",
    },
    "asru2019_cs": {"train-cs": "train", "dev": "dev", "test": "calls"},
    "librispeech_rescore": {
        "train-clean-100": "train",
        "dev-clean": "dev",
        "test-clean": "calls",
    },
    "libricss_stitch": {
        "train-clean-100": "train",
        "dev-clean": "dev",
        "test-clean": "calls",
    },
    "spotify_longctx": {"train": "train", "dev": "dev", "rev16": "calls"},
}
SHOWN = {
    "librispeech_sem": {"calls", "talks"},
    "libricss_stitch": {"dev-short", "dev-long", "test-short", "test-long"},
}


def write_word_times(words: Path, ctm: Path) -> None:
    """Write the times that a recipe keeps as a ctm."""
    with open(words) as lines, open(ctm, "w") as file:
        for line in lines:
            name, _, rest = line.partition(" ")
            for word, start, end in json.loads(rest):
                file.write(f"{name} 1 {start:.2f} {end - start:.2f} {word}\n")


@pytest.mark.parametrize("recipe", GIVEN)
def test_data_dirs_reach_the_table(recipe, tmp_path):
    made, given = tmp_path / "made", tmp_path / "given"
    smoke_run(recipe, "--stop_stage", "1", folder=made)
    for source, name in GIVEN[recipe].items():
        shutil.copytree(made / "data" / source, given / name)
    options = list(ROWS[recipe])
    if recipe == "spotify_longctx":
        options[-1] = "calls at 10 s"
        for part in ("train", "dev"):
            words = made / "data" / f"spotify_words_{part}.words"
            write_word_times(words, given / part / "ctm")
    if recipe == "librispeech_rescore":
        text = made / "data" / "corpus" / "librispeech-lm-norm.txt.gz"
        options += ["--lm_text", str(text)]
    smoke_run(recipe, "--data", str(given), *options, folder=tmp_path)
    scores, meta = read_scores(tmp_path / "exp" / "results")
    assert {key.test_set for key in scores.rates} == SHOWN.get(recipe, {"calls"})
    assert (meta.corpus, meta.paper) == ("given", False)
    page = (tmp_path / "exp" / "results" / "tables.md").read_text()
    assert all(name in page for name in SHOWN.get(recipe, {"calls"}))
