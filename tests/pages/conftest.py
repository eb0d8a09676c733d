"""A small recipe that has been run, for the results page to show."""

import json
import random
import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from matplotlib.figure import Figure

from espnet_ext.kaldi.tables import write_table
from espnet_ext.scoring.mixed import score_mixed_texts
from espnet_ext.scoring.score import score_texts
from espnet_ext.scoring.score_files import summarise, write_reports
from espnet_ext.tables.publish import write_tables
from espnet_ext.tables.reading import load_tables
from espnet_ext.work.plot_style import save_png

TABLES = """
recipe: toy
paper: {id: P0, title: On <toys>, authors: A. Author & B. Author, year: 2020, metric: WER (%)}
test_sets: [clean]
systems:
  base: {kind: train, config: train, data: train}
  new: {kind: train, config: train, data: train}
tables:
  "1":
    caption: New against base
    baseline: base
    columns: [clean]
    rows:
      - {name: base, system: base, paper: [20.0]}
      - {name: new <b>, system: new, paper: [15.0]}
    claims:
      - {text: new is better, better: "1/new <b>", worse: "1/base", columns: [clean]}
  "2":
    caption: Not run
    columns: [clean]
    rows:
      - {name: other, system: new, decoding: lm, paper: [1.0]}
decodings: {lm: {overrides: {lm_weight: 0.5}}}
pictures: {energy: "Fig. 1: energy"}
"""
EPOCH = (
    "[vm] 2026-11-21 23:35:54,680 (trainer:392) INFO: {epoch}epoch results: [train] iter_time=0.015, loss={train}, "
    "acc={acc}, time=23.65 seconds, total_count=51, [valid] loss_ctc=50.573, cer=nan, loss={valid}, acc={acc}, "
    "time=2.6 seconds, total_count=7\n"
)
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "some", "birds", "fly", "over", "it"]
HAN = "我们每天去图书馆看书"


def references(count: int, mixed: bool = False, words: int = 8) -> dict[str, str]:
    """Sentences by id, the same each time; mixed ones are Han characters with an English word among them."""
    draw = random.Random(0)

    def sentence() -> str:
        if mixed:
            return f"{''.join(draw.choices(HAN, k=3))} {draw.choice(WORDS)} {''.join(draw.choices(HAN, k=3))}"
        return " ".join(draw.choices(WORDS, k=words))

    return {f"spk{number % 7}-u{number:05d}": sentence() for number in range(count)}


def with_errors(texts: dict[str, str], seed: int) -> dict[str, str]:
    """The same with words changed, dropped and added, in some utterances more than in others."""
    draw = random.Random(seed)
    heard = {}
    for key, text in texts.items():
        rate = draw.choice([0.0, 0.1, 0.4])
        words = []
        for word in text.split():
            change = draw.random()
            if change > rate:
                words.append(word)
            elif change > rate / 2:
                words.append(draw.choice(WORDS))
            elif change > rate / 4:
                words += [word, draw.choice(WORDS)]
        heard[key] = " ".join(words)
    return heard


@pytest.fixture(scope="session")
def recipe_templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that makes a recipe's folder with one run, ``exp/mini``, each kind only once."""

    @lru_cache
    def make(count: int = 12, mixed: bool = False, audio: bool = True, words: int = 8) -> Path:
        recipe = tmp_path_factory.mktemp("recipe")
        _write_recipe(recipe, references(count, mixed, words), mixed, audio)
        return recipe

    return make


@pytest.fixture
def toy_recipe(tmp_path: Path, recipe_templates: Callable[..., Path]) -> Callable[..., Path]:
    """Return a function that puts such a recipe at ``egs/toy`` and returns its folder."""

    def build(**options: Any) -> Path:
        recipe = tmp_path / "egs" / "toy"
        return recipe if recipe.exists() else shutil.copytree(recipe_templates(**options), recipe)

    return build


def _write_recipe(recipe: Path, texts: dict[str, str], mixed: bool, audio: bool) -> None:
    run, data = recipe / "exp" / "mini", recipe / "data" / "mini" / "clean"
    (recipe / "conf").mkdir(parents=True)
    (recipe / "conf" / "tables.yaml").write_text(TABLES, encoding="utf-8")
    speakers = {key: key.split("-")[0] for key in texts}
    score = score_mixed_texts if mixed else score_texts
    for system, seeds in (("base", (1, 2)), ("new", (1,))):
        for seed in seeds:
            folder = run / system / f"seed{seed}"
            log = folder / "log" / "train.log"
            log.parent.mkdir(parents=True)
            log.write_text("".join(_epochs(seed)), encoding="utf-8")
            result = score(texts, with_errors(texts, len(system) + seed), utt2spk=speakers)
            write_reports(folder / "decode_default" / "clean", result, summarise(result))
    data.mkdir(parents=True)
    write_table(data / "utt2spk", speakers)
    if audio:
        (data / "wav").mkdir()
        for number, key in enumerate(texts):
            tone = 0.1 * np.sin(np.arange(8000) * (0.1 + 0.01 * (number % 9)))
            soundfile.write(data / "wav" / f"{key}.wav", tone, 16000)
        # relative to the recipe's folder, as its commands see it
        write_table(data / "wav.scp", {key: f"data/mini/clean/wav/{key}.wav" for key in texts})
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    save_png(figure, run / "energy" / "energy.png", 50)
    tables = load_tables(recipe / "conf" / "tables.yaml")
    write_tables(tables, list(tables.tables.values()), None, run, scale="mini", corpus="synthetic", command="./run.sh")


def _epochs(seed: int) -> list[str]:
    return [
        EPOCH.format(epoch=epoch, train=9 / epoch + seed, valid=10 / epoch + seed, acc=1 - 1 / (1 + epoch))
        for epoch in range(1, 6)
    ]


@pytest.fixture
def lm_report() -> str:
    """What our own trainings leave as ``training.json``."""
    history = [
        {"step": 0, "dev_wer": 9.6, "dev_mwer": 0.8},
        {"step": 8, "loss": 0.9, "mwer": 0.7, "dev_wer": float("nan"), "dev_mwer": 0.7},
    ]
    return json.dumps({"key": {}, "best_step": 8, "seconds": 1.0, "history": history})
