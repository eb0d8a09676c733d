"""A small tables.yaml, and scored decodings as the scoring command writes them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from espnet_ext.scoring.mixed import score_mixed_texts
from espnet_ext.scoring.score import score_texts
from espnet_ext.scoring.score_files import summarise, write_reports
from espnet_ext.tables.collect import collect
from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.result import TableResult
from espnet_ext.tables.run_scores import gather_scores
from espnet_ext.tables.score_table import Meta

TOY = """
recipe: toy
paper: {id: P0, title: A title, authors: A. Author, year: 2020, metric: WER (%)}
test_sets: [clean, other]
systems:
  base: {kind: train, config: train, data: train}
  new: {kind: train, config: train, overrides: {encoder: new, encoder_conf: {size: 8}}, data: [a, b]}
decodings:
  lm: {overrides: {lm_weight: 0.5}}
tables:
  "1":
    caption: New against base
    columns: [clean, other, average]
    baseline: base row
    rows:
      - {name: "-1dB", system: new, paper: [4.0, 10.0, 7.0]}
      - {name: base row, system: base, paper: [5.0, 20.0, 12.5]}
  "2":
    caption: With a language model
    columns: [clean, other, average]
    baseline: "1/-1dB"
    rows:
      - {name: lm, system: new, decoding: lm, paper: [3.0, null, null]}
"""  # noqa: E501 - tests replace parts of its lines

MIXED = """
recipe: toy
paper: {id: P0, title: A title, authors: A. Author, year: 2020, metric: MER (%)}
test_sets: [dev, test]
measures: [All, CH, EN]
systems:
  base: {kind: train, config: train, data: cs}
  base_more: {kind: train, config: train, data: [cs, zh]}
  new: {kind: train, config: train, overrides: {decoder_conf: {mode: new}}, data: cs}
  new_more: {kind: train, config: train, overrides: {decoder_conf: {mode: new}}, data: [cs, zh]}
tables:
  "1":
    caption: More data
    columns: [dev All, dev CH, dev EN, average EN]
    baseline: base
    reduction: dev CH
    rows:
      - {name: base, system: base, paper: [11.0, 9.0, 29.0, null]}
      - {name: more, system: base_more, paper: [10.0, 8.0, 28.0, null]}
  "2":
    caption: More data for the new one
    columns: [dev All]
    rows:
      - {name: new, system: new, paper: [11.0]}
      - {name: more, system: new_more, paper: [9.0]}
"""  # noqa: E501 - tests replace parts of its lines

TOY_DESIGN = """
claims:
  better: {text: new is better, better: 1/-1dB, worse: 1/base row}
  worse: {text: new is worse, better: 1/base row, worse: 1/-1dB}
designs:
  - {corpus: c, scale: mini, commit: abc, claims: [better, worse], seeds: [1, 2, 3], units: all, fewest: true}
"""  # noqa: E501 - tests replace parts of its lines

MIXED_DESIGN = """
claims:
  more: {text: More data are better, better: 1/more, worse: 1/base, columns: [dev All, dev EN]}
  gain:
    text: The new one gains more
    better: {from: 2/new, to: 2/more}
    worse: {from: 1/base, to: 1/more}
designs:
  - {corpus: c, scale: mini, commit: abc, claims: [gain, more], seeds: [1, 2, 3], units: 40 recordings}
"""  # noqa: E501 - tests replace parts of its lines


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """``recipe/conf/tables.yaml`` of the toy recipe."""
    path = tmp_path / "recipe" / "conf" / "tables.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(TOY)
    path.with_name("design.yaml").write_text(TOY_DESIGN)
    return path


@pytest.fixture
def mixed(toy: Path) -> Path:
    """The same with measures of each test set, and a claim on changes."""
    toy.write_text(MIXED)
    toy.with_name("design.yaml").write_text(MIXED_DESIGN)
    return toy


@pytest.fixture
def scored_mixed(tmp_path: Path) -> Callable[..., Path]:
    """Score a decoding of utterances of 8 characters and 2 words, of which so many are
    wrong in each.
    """

    def score(
        system: str, test_set: str, wrong: list[tuple[int, int]], seed: int = 1
    ) -> Path:
        folder = tmp_path / "exp" / system / f"seed{seed}" / "decode_default" / test_set
        reference = {
            f"{test_set}-{i:03d}": "一二三四五六七八 go home" for i in range(len(wrong))
        }
        hypothesis = {
            key: "零" * characters
            + "一二三四五六七八"[characters:]
            + " "
            + " ".join(["x"] * words + ["go", "home"][words:])
            for (key, _), (characters, words) in zip(
                reference.items(), wrong, strict=True
            )
        }
        result = score_mixed_texts(reference, hypothesis)
        write_reports(folder, result, summarise(result))
        return folder

    return score


@pytest.fixture
def scored(tmp_path: Path) -> Callable[..., Path]:
    """Score a decoding of utterances of 10 words: ``wrong`` words substituted in each
    utterance.

    With ``speakers``, utterances 0, n, 2n ... are of the first of n speakers.
    """

    def score(
        system: str,
        seed: int,
        test_set: str,
        wrong: list[int],
        decoding: str = "default",
        speakers: int = 0,
        **options,
    ) -> Path:
        folder = (
            tmp_path / "exp" / system / f"seed{seed}" / f"decode_{decoding}" / test_set
        )
        reference = {
            f"{test_set}-{i:03d}": " ".join("abcdefghij") for i in range(len(wrong))
        }
        hypothesis = {
            key: " ".join("x" * n + "abcdefghij"[n:])
            for (key, _), n in zip(reference.items(), wrong, strict=True)
        }
        utt2spk = (
            {key: f"speaker{int(key[-3:]) % speakers}" for key in reference}
            if speakers
            else None
        )
        result = score_texts(reference, hypothesis, utt2spk=utt2spk)
        write_reports(folder, result, summarise(result, **options))
        return folder

    return score


@pytest.fixture
def exp(tmp_path: Path, scored: Callable[..., Path]) -> Path:
    """Base has one error in each utterance of clean, new one in every other; 'other'
    has run only with new's seed 1.
    """
    scored("base", 1, "clean", [1] * 60)
    scored("base", 2, "clean", [1] * 60)
    scored("new", 1, "clean", [0, 1] * 30)
    scored("new", 2, "clean", [0, 0, 1] * 20)
    scored("new", 1, "other", [2] * 40)
    return tmp_path / "exp"


@pytest.fixture
def computed(tmp_path: Path) -> Callable[..., list[TableResult]]:
    """Compute tables of a run in ``exp``."""

    def compute(path: Path, *names: str, scale: str = "mini") -> list[TableResult]:
        tables = load_tables(path, scale)
        scores = gather_scores(tables, names, tmp_path / "exp")
        meta = Meta(
            recipe="toy", corpus="c", scale=scale, tables=names,
            units=dict(scores.units),
            normaliser=scores.normaliser, runs=(),
        )  # fmt: skip
        return collect(tables, names, scores, meta)

    return compute
