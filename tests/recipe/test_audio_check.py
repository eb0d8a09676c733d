"""All audio of a large corpus is decoded beside other steps; here two are many."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.audio import files
from espnet_ext.errors import InputError
from espnet_ext.recipe.audio_check import FAULTS, run_beside_audio_check
from espnet_ext.recipe.options import COMMON
from espnet_ext.recipe.run import Recipe, Run
from espnet_ext.recipe.steps import Step


def write(output: str) -> None:
    Path(output).write_text("done")


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    """A run whose corpus has three FLAC files, the last of them cut to a half."""
    monkeypatch.setattr(files, "FULL_CHECK_FILES", 2)
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, 16_000)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name in "abc":
        soundfile.write(corpus / f"{name}.flac", noise, 16_000)
    whole = (corpus / "c.flac").read_bytes()
    (corpus / "c.flac").write_bytes(whole[: len(whole) // 2])
    data = tmp_path / "data"
    for part, names in (("train", "ac"), ("dev", "b"), ("both", "abc")):
        (data / part).mkdir(parents=True)
        lines = [f"{name}-{part} {corpus}/{name}.flac\n" for name in names]
        (data / part / "wav.scp").write_text("".join(lines))
    options = {**COMMON, "scale": "full", "corpus": str(corpus)}
    recipe = Recipe(corpus="corpus", stages={})
    return Run(recipe, options, {}, None, (), tmp_path / "exp", data)


def other_step(run: Run) -> Step:
    output = run.datadir / "other.txt"
    log = run.datadir / "other.log"
    return Step("other", log, write, {"output": str(output)}, outputs=[output])


def test_half_a_file_ends_the_run_and_what_runs_beside_is_done(run, capfd):
    with pytest.raises(InputError, match="decoding all audio"):
        run_beside_audio_check(run, other_step(run))
    assert (run.datadir / "other.txt").is_file()
    (fault,) = (run.datadir / FAULTS).read_text().splitlines()
    assert "c.flac" in fault
    assert "c.flac" in capfd.readouterr().err
    broken = Path(run.options["corpus"], "c.flac")
    soundfile.write(broken, np.zeros(16_000) + 0.01, 16_000)
    run_beside_audio_check(run, other_step(run))
    assert not (run.datadir / FAULTS).exists()
    assert "3 audio files" in (run.datadir / "log" / "all_audio.log").read_text()


@pytest.mark.parametrize("how", ["header", "full", "few", "synthetic"])
def test_what_stage_1_has_decided_is_not_repeated(how, run, monkeypatch):
    if how == "few":
        monkeypatch.setattr(files, "FULL_CHECK_FILES", 4)
    elif how == "synthetic":
        run.options["corpus"] = ""
    else:
        run.options["check_audio"] = how
    run_beside_audio_check(run, other_step(run))
    assert (run.datadir / "other.txt").is_file()
    assert not (run.datadir / "log").exists()
