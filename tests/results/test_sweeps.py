"""Figures of tables.yaml: curves over a setting as systems and rows, what is drawn of them, and the picture."""

from pathlib import Path

import pytest
import yaml

from espnet_ext.bin.table import main
from espnet_ext.errors import InputError
from espnet_ext.results.config import load_tables
from espnet_ext.results.curves import reduced
from espnet_ext.results.meta import collect_meta
from espnet_ext.results.plan import decodings_needed, select, sets_needed, systems_needed, train_config
from espnet_ext.results.report import keep_results, write_report
from espnet_ext.results.results import collect, write_results
from espnet_ext.scoring.report import summarise, write_reports
from espnet_ext.scoring.score import score_texts

TOY = """
recipe: toy
paper: {id: P0, title: A title, authors: A. Author, year: 2020, metric: WER (%)}
test_sets: [calls, talks]
quantities: {minutes: min}
systems:
  base: {config: conf/train.yaml, train: train}
  deep: {config: conf/train.yaml, overlay: size/deep.yaml, overrides: {lr: 2.0}, train: train}
  flash: {config: conf/train.yaml, train: train}
decodings:
  noisy: {snr: 5.0}
sweep:
  setting: chunk_conf.max_seconds
  axis: Length
  unit: s
  values: {mini: [2.5, 10], full: [10, 41]}
figures:
  "1":
    caption: How much
    y: reduction
    baseline: 10
    curves:
      - {name: Calls, system: base, column: calls, paper: {10: 27.7}, largest: 12.2}
      - {name: Noisy talks, system: base, decoding: noisy, column: talks}
      - {name: Deep, system: deep, column: calls}
    claims:
      - {text: short is worse, better: Calls at 10 s, worse: Calls at 2.5 s}
      - {text: long is better, better: Calls at 41 s, worse: Calls at 10 s}
tables:
  "1":
    caption: Cost
    columns: [minutes]
    rows: [{name: flash, system: flash, paper: {minutes: 70}}]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    conf = tmp_path / "recipe" / "conf"
    (conf / "size").mkdir(parents=True)
    (conf / "scale" / "mini" / "size").mkdir(parents=True)
    (conf / "tables.yaml").write_text(TOY)
    (conf / "train.yaml").write_text(
        "chunk_conf: {max_seconds: 3600, batch_seconds: 3600}\nencoder_conf: {layers: 6}\n"
    )
    (conf / "size" / "deep.yaml").write_text("encoder_conf: {layers: 9}\n")
    (conf / "scale" / "mini" / "size" / "deep.yaml").write_text("encoder_conf: {layers: 3}\n")
    return tmp_path / "recipe"


def figure(recipe: Path, scale: str | None = "mini"):
    tables = load_tables(recipe / "conf" / "tables.yaml", scale)
    return tables, tables.tables["figure1"]


def write_score(expdir: Path, system: str, decoding: str, test_set: str, seed: int, errors: int) -> None:
    """Twenty recordings of ten words, of which the first ``errors`` have one wrong."""
    reference = {f"r{number:02d}": "a b c d e f g h i j" for number in range(20)}
    hypothesis = {key: text.replace("a", "x") if int(key[1:]) < errors else text for key, text in reference.items()}
    score = score_texts(reference, hypothesis)
    folder = expdir / system / f"seed{seed}" / f"decode_{decoding}" / test_set
    write_reports(folder, score, summarise(score))


@pytest.fixture
def expdir(tmp_path: Path) -> Path:
    folder = tmp_path / "exp"
    for seed, errors in ((1, 10), (2, 14)):
        write_score(folder, "base_2.5", "default", "calls", seed, errors)
    for seed, errors in ((1, 7), (2, 9)):
        write_score(folder, "base_10", "default", "calls", seed, errors)
    write_score(folder, "base_10", "noisy", "talks", 1, 12)
    return folder


def test_a_curve_is_a_system_at_each_value_of_the_scale(recipe: Path):
    tables, table = figure(recipe)
    assert [row.name for row in table.rows] == [
        f"{curve} at {value} s" for curve in ("Calls", "Noisy talks", "Deep") for value in ("2.5", "10")
    ]
    assert [system.name for system in systems_needed(tables, [table])] == ["base_2.5", "base_10", "deep_2.5", "deep_10"]
    assert ("base_10", "noisy") in decodings_needed([table])
    needed = sets_needed(tables, [table])
    assert needed["base_10", "default"] == ["calls"] and needed["base_10", "noisy"] == ["talks"]
    assert [claim.text for claim in table.claims] == ["short is worse"]
    assert [row.x for row in figure(recipe, "full")[1].rows[:2]] == [10, 41]
    assert [claim.text for claim in figure(recipe, "full")[1].claims] == ["long is better"]
    assert [row.x for row in figure(recipe, None)[1].rows[:3]] == [2.5, 10, 41]


def test_configs_have_the_value_and_the_scales_own_overlay(recipe: Path):
    config = train_config(figure(recipe)[0], "deep_2.5", scale="mini")
    assert config == {
        "chunk_conf": {"max_seconds": 2.5, "batch_seconds": 3600},
        "encoder_conf": {"layers": 3},
        "lr": 2.0,
    }
    assert train_config(figure(recipe, "full")[0], "deep_41", scale="full")["encoder_conf"] == {"layers": 9}


def test_nothing_is_trained_for_quantities(recipe: Path):
    tables = load_tables(recipe / "conf" / "tables.yaml", "mini")
    assert systems_needed(tables, select(tables, ["1"])) == [] == decodings_needed(select(tables, ["1"]))


def test_means_spreads_and_reductions(recipe: Path, expdir: Path):
    tables, table = figure(recipe)
    result = collect(tables, table, expdir, "mini", "toy", collect_meta("./run.sh", recipe))
    calls, noisy, deep = result["figure"]["curves"]
    short, ten = calls["points"]
    assert (short["rate"]["value"], ten["rate"]["value"], ten["paper"]) == (6.0, 4.0, 27.7)
    # each seed's from its own baseline: 3.5 to 5 % and 4.5 to 7 %
    values = {"1": pytest.approx(-42.8571), "2": pytest.approx(-55.5556)}
    assert short["reduction"] == {"value": -50.0, "spread": pytest.approx(8.979, abs=1e-3), "values": values}
    assert ten["reduction"]["value"] == 0.0 == ten["reduction"]["spread"] and calls["paper_largest_reduction"] == 12.2
    assert noisy["points"][0]["rate"] is None and noisy["points"][0]["reduction"] is None
    assert noisy["points"][1]["rate"]["value"] == 6.0
    assert [point["rate"] for point in deep["points"]] == [None, None]
    assert result["claims"][0]["verdict"] == "holds" and list(result["claims"][0]["tests"]) == ["calls"]
    assert reduced({"value": 1.0}, None) is None


def test_the_command_draws_and_the_report_shows(recipe: Path, expdir: Path, capsys: pytest.CaptureFixture):
    words = ["--tables", recipe / "conf" / "tables.yaml", "--scale", "mini", "--table", "figure1,1", "--expdir", expdir]
    main([str(word) for word in ["write", *words, "--corpus", "toy", "--command", "./run.sh"]])
    printed = capsys.readouterr().out
    assert "figure1.json and figure1.md and figure1.png" in printed
    assert "6.00 ± 1.41 (-50.0 ± 9.0%)" in printed and "paper 27.7" in printed
    picture = expdir / "results" / "figure1.png"
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    keep_results(expdir / "results", recipe / "results")
    assert (recipe / "results" / "mini-toy" / "figure1.png").read_bytes() == picture.read_bytes()
    assert write_report([recipe / "results" / "mini-toy"], recipe / "RESULTS.md") == 2
    report = (recipe / "RESULTS.md").read_text()
    assert "### Figure 1. How much" in report and "(results/mini-toy/figure1.png)" in report
    assert "Not run: table 1." in report


def test_curves_are_told_apart_and_say_what_they_are(recipe: Path, expdir: Path):
    from espnet_ext.results.draw import draw

    tables, table = figure(recipe)
    result = collect(tables, table, expdir, "mini", "toy", collect_meta("./run.sh", recipe))
    write_results(result, expdir / "results")
    picture = draw(result)
    (axes,) = picture.axes
    assert axes.get_xlabel() == "Length (s)" and axes.get_ylabel() == "Reduction of the WER from that at 10 s (%)"
    lines = [container.lines[0] for container in axes.containers]
    assert [list(line.get_xdata()) for line in lines] == [[2.5, 10.0], [10.0]]
    assert list(lines[0].get_ydata()) == [-50.0, 0.0]
    assert len({line.get_color() for line in lines}) == len(lines) == len({line.get_marker() for line in lines})
    assert picture.get_suptitle().endswith("toy corpus, scale mini, 1 to 2 seeds; bars: standard deviation")
    labels = axes.get_legend_handles_labels()[1]
    assert any(label.startswith("Calls (at 10 s: 4.0 %, paper 27.7 %") for label in labels)
    assert any("12.2 %" in label for label in labels) and any("paper 27.7 %" in label for label in labels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sweep": None}, "sweep: must be a mapping"),
        ({"sweep": {"setting": "a", "axis": "b", "unit": "s"}}, "sweep: the key 'values' is missing"),
        ({"figures": {"1": {"caption": "c"}}}, "figures.1: the key 'baseline' is missing"),
        ({"systems": {"other": {"config": "c", "train": "t"}}}, "unknown system 'base'"),
    ],
)
def test_mistakes_are_named(recipe: Path, change: dict, message: str):
    path = recipe / "conf" / "tables.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(TOY), **change}))
    with pytest.raises(InputError, match=message):
        load_tables(path, "mini")


def test_an_unknown_scale_row_or_way_to_draw(recipe: Path):
    path = recipe / "conf" / "tables.yaml"
    with pytest.raises(InputError, match="none for the scale 'smoke'; known are mini, full"):
        load_tables(path, "smoke")
    path.write_text(TOY.replace("worse: Calls at 2.5 s", "worse: Calls at 3 s"))
    with pytest.raises(InputError, match="there is no 'Calls at 3 s'; rows are called like 'Calls at 2.5 s'"):
        load_tables(path, "mini")
    path.write_text(TOY.replace("y: reduction", "y: colour"))
    with pytest.raises(InputError, match="y: must be reduction or rate"):
        load_tables(path, "mini")
