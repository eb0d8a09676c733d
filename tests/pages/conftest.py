"""A small recipe that has been run, for the results page to show."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.kaldi.tables import write_table
from espnet_ext.scoring.mixed import score_mixed_texts
from espnet_ext.scoring.score import score_texts
from espnet_ext.scoring.score_files import summarise, write_reports
from espnet_ext.tables.publish import write_tables
from espnet_ext.tables.reading import load_tables

TABLES = """
recipe: toy
paper:
  id: P0
  title: On <toys>
  authors: A. Author & B. Author
  year: 2020
  metric: WER (%)
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
"""
DESIGN = """
claims:
  better: {text: new is better, better: 1/new <b>, worse: 1/base}
designs:
  - corpus: synthetic
    scale: mini
    commit: abc
    claims: [better]
    seeds: [1, 2, 3]
    units: 7 speakers
"""
WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "some",
    "birds",
    "fly",
    "over",
    "it",
]
HAN = "我们每天去图书馆看书"


def references(count: int, mixed: bool, words: int) -> dict[str, str]:
    """Sentences by id, the same each time; mixed ones are Han characters with an
    English word among them.
    """
    draw = random.Random(0)

    def sentence() -> str:
        if mixed:
            return (
                f"{''.join(draw.choices(HAN, k=3))} {draw.choice(WORDS)} "
                f"{''.join(draw.choices(HAN, k=3))}"
            )
        return " ".join(draw.choices(WORDS, k=words))

    return {f"spk{number % 7}-u{number:05d}": sentence() for number in range(count)}


def with_errors(texts: dict[str, str], seed: int) -> dict[str, str]:
    """The same with words changed, dropped and added, in some utterances more than in
    others.
    """
    draw = random.Random(seed)
    heard = {}
    for key, text in texts.items():
        rate = draw.choice([0.0, 0.1, 0.4])
        words = []
        for word in text.split():
            change = draw.random() / rate if rate else 1.0
            if change >= 0.25:
                words.append(draw.choice(WORDS) if change < 0.5 else word)
            elif change > 0.1:
                words += [word, draw.choice(WORDS)]
        heard[key] = " ".join(words)
    return heard


@pytest.fixture
def toy_recipe(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes ``egs/toy`` with one run, ``exp/mini``, and returns
    its folder.
    """

    def make(count: int = 12, mixed: bool = False, words: int = 8) -> Path:
        recipe = tmp_path / "egs" / "toy"
        run, data, texts = (
            recipe / "exp" / "mini",
            recipe / "data" / "mini" / "clean",
            references(count, mixed, words),
        )
        speakers = {key: key.split("-")[0] for key in texts}
        score = score_mixed_texts if mixed else score_texts
        for system, seed in (("base", 1), ("base", 2), ("new", 1)):
            result = score(
                texts, with_errors(texts, len(system) + seed), utt2spk=speakers
            )
            write_reports(
                run / system / f"seed{seed}" / "decode_default" / "clean",
                result,
                summarise(result),
            )
        (data / "wav").mkdir(parents=True)
        write_table(data / "utt2spk", speakers)
        for number, key in enumerate(texts):
            soundfile.write(
                data / "wav" / f"{key}.wav",
                0.1 * np.sin(np.arange(8000) * (0.1 + number / 99)),
                16000,
            )
        # relative to the recipe's folder, as its commands see it
        write_table(
            data / "wav.scp", {key: f"data/mini/clean/wav/{key}.wav" for key in texts}
        )
        (recipe / "conf").mkdir()
        (recipe / "conf" / "tables.yaml").write_text(TABLES, encoding="utf-8")
        (recipe / "conf" / "design.yaml").write_text(DESIGN, encoding="utf-8")
        tables = load_tables(recipe / "conf" / "tables.yaml")
        write_tables(
            tables,
            list(tables.tables.values()),
            None,
            run,
            scale="mini",
            corpus="synthetic",
        )
        return recipe

    return make
