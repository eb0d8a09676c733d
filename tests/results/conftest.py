"""A small tables.yaml, and scored decodings as the scoring command writes them."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from espnet_ext.scoring.mixed import score_mixed_texts
from espnet_ext.scoring.report import summarise, write_reports
from espnet_ext.scoring.score import score_texts

TOY = """
recipe: toy
paper: {id: P0, title: A title, authors: A. Author, year: 2020, metric: WER (%)}
test_sets: [clean, other]
systems:
  base: {config: conf/train.yaml, train: train}
  new: {config: conf/train.yaml, overrides: {encoder: new, encoder_conf: {size: 8}}, train: [a, b]}
decodings:
  lm: {lm_weight: 0.5}
tables:
  "1":
    caption: New against base
    columns: [clean, other, average]
    baseline: base row
    rows:
      - {name: "-1dB", system: new, paper: {clean: 4.0, other: 10.0, average: 7.0}}
      - {name: base row, system: base, paper: {clean: 5.0, other: 20.0, average: 12.5}}
    claims:
      - {text: new is better, better: "-1dB", worse: base row}
      - {text: new is worse, better: base row, worse: "-1dB"}
  "2":
    caption: With a language model
    columns: [clean, other, average]
    baseline: "1/-1dB"
    rows:
      - {name: lm, system: new, decoding: lm, paper: {clean: 3.0, other: null, average: null}}
"""

MIXED = """
recipe: toy
paper: {id: P0, title: A title, authors: A. Author, year: 2020, metric: MER (%)}
test_sets: [dev, test]
measures: [All, CH, EN]
systems:
  base: {config: conf/train.yaml, train: cs}
  base_more: {config: conf/train.yaml, train: [cs, zh]}
  new: {config: conf/train.yaml, overrides: {decoder_conf: {mode: new}}, train: cs}
  new_more: {config: conf/train.yaml, overrides: {decoder_conf: {mode: new}}, train: [cs, zh]}
tables:
  "1":
    caption: More data
    columns: [dev All, dev CH, dev EN, average EN]
    baseline: base
    reduction: dev CH
    rows:
      - {name: base, system: base, paper: {dev All: 11.0, dev CH: 9.0, dev EN: 29.0, average EN: null}}
      - {name: more, system: base_more, paper: {dev All: 10.0, dev CH: 8.0, dev EN: 28.0, average EN: null}}
    claims:
      - {text: More data are better, better: more, worse: base, columns: [dev All, dev EN]}
  "2":
    caption: More data for the new one
    columns: [dev All]
    rows:
      - {name: new, system: new, paper: {dev All: 11.0}}
      - {name: more, system: new_more, paper: {dev All: 9.0}}
    claims:
      - text: The new one gains more
        better: {from: new, to: more}
        worse: {from: 1/base, to: 1/more}
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """``recipe/conf/tables.yaml`` of the toy recipe."""
    path = tmp_path / "recipe" / "conf" / "tables.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(TOY)
    return path


@pytest.fixture
def mixed(toy: Path) -> Path:
    """The same with measures of each test set, and a claim on changes."""
    toy.write_text(MIXED)
    return toy


@pytest.fixture
def scored_mixed(tmp_path: Path) -> Callable[..., Path]:
    """Score a decoding of utterances of 8 characters and 2 words, of which so many are wrong in each."""

    def score(system: str, test_set: str, wrong: list[tuple[int, int]], seed: int = 1) -> Path:
        folder = tmp_path / "exp" / system / f"seed{seed}" / "decode_default" / test_set
        reference = {f"{test_set}-{i:03d}": "一二三四五六七八 go home" for i in range(len(wrong))}
        hypothesis = {
            key: "零" * characters
            + "一二三四五六七八"[characters:]
            + " "
            + " ".join(["x"] * words + ["go", "home"][words:])
            for (key, _), (characters, words) in zip(reference.items(), wrong, strict=True)
        }
        result = score_mixed_texts(reference, hypothesis)
        write_reports(folder, result, summarise(result, replicas=200))
        return folder

    return score


@pytest.fixture
def scored(tmp_path: Path) -> Callable[..., Path]:
    """Score a decoding of utterances of 10 words: ``wrong`` words substituted in each utterance."""

    def score(system: str, seed: int, test_set: str, wrong: list[int], decoding: str = "default", **options) -> Path:
        folder = tmp_path / "exp" / system / f"seed{seed}" / f"decode_{decoding}" / test_set
        reference = {f"{test_set}-{i:03d}": " ".join("abcdefghij") for i in range(len(wrong))}
        hypothesis = {
            key: " ".join("x" * n + "abcdefghij"[n:]) for (key, _), n in zip(reference.items(), wrong, strict=True)
        }
        result = score_texts(reference, hypothesis)
        write_reports(folder, result, summarise(result, replicas=200, **options))
        return folder

    return score


@pytest.fixture
def meta() -> dict:
    return {
        "command": "./run.sh --table 1",
        "git": {"commit": "0123456789abcdef", "dirty": True},
        "versions": {"python": "3.12.0", "torch": None},
        "date": "2026-01-02 03:04 UTC",
        "hardware": {"cpu": "A processor", "cores": 2, "memory_gib": 8.0, "gpu": []},
    }


@pytest.fixture
def exp(tmp_path: Path, scored: Callable[..., Path]) -> SimpleNamespace:
    """Base has one error in each utterance of clean, new one in every other; 'other' has run only with new's seed 1."""
    scored("base", 1, "clean", [1] * 60)
    scored("base", 2, "clean", [1] * 60)
    scored("new", 1, "clean", [0, 1] * 30)
    scored("new", 2, "clean", [0, 0, 1] * 20)
    scored("new", 1, "other", [2] * 40)
    return SimpleNamespace(folder=tmp_path / "exp")
