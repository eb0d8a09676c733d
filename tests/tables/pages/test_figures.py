"""Figures of tables.yaml: curves over an axis as systems and rows, what is drawn of them, and the picture."""

from pathlib import Path

import pytest
import yaml

from espnet_ext.errors import InputError
from espnet_ext.scoring.score import score_texts
from espnet_ext.scoring.score_files import summarise, write_reports
from espnet_ext.tables.kept.keeping import keep_results
from espnet_ext.tables.pages.figures import SeedRates, reduced
from espnet_ext.tables.pages.render import markdown_table
from espnet_ext.tables.pages.results_md import recipe_pages
from espnet_ext.tables.plans.plan import (
    decodings_needed,
    load_scale,
    select,
    sets_needed,
    system_config,
    systems_needed,
)
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.table_results import collect, write_results, write_tables
from espnet_ext.work.provenance import collect_meta

TOY = """
recipe: toy
paper: {id: P0, title: A title, authors: A. Author, year: 2020, metric: WER (%)}
test_sets: [calls, talks]
quantities: {minutes: min}
systems:
  base: &base {kind: train, config: train, data: train, sweep: chunk_conf.max_seconds}
  deep: {<<: *base, size: deep, overrides: {lr: 2.0}}
  flash: {kind: measure}
decodings:
  noisy: {overrides: {noise: music}, sweep: snr}
axis:
  label: Length
  unit: s
  values: {mini: [2.5, 10], full: [10, 41]}
figures:
  "1":
    caption: How much
    y: reduction
    baseline: 10
    curves:
      - {name: Calls, system: base, column: calls, paper: {10: 27.7}, largest: 12.2}
      - {name: Noisy talks, system: base, decoding: {noisy: 5}, column: talks}
      - {name: Deep, system: deep, column: calls}
    claims:
      - {text: short is worse, better: Calls at 10 s, worse: Calls at 2.5 s}
      - {text: long is better, better: Calls at 41 s, worse: Calls at 10 s}
tables:
  "1":
    caption: Cost
    columns: [minutes]
    rows: [{name: flash, system: flash, paper: [70]}]
"""


FULL = """
train:
  chunk_conf: {max_seconds: 3600, batch_seconds: 3600}
  encoder_conf: {layers: 6}
sizes: {deep: {encoder_conf: {layers: 9}}}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    conf = tmp_path / "recipe" / "conf"
    conf.mkdir(parents=True)
    (conf / "tables.yaml").write_text(TOY)
    (conf / "full.yaml").write_text(FULL)
    (conf / "mini.yaml").write_text("sizes: {deep: {encoder_conf: {layers: 3}}}\n")
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
    write_score(folder, "base_10", "noisy_5", "talks", 1, 12)
    return folder


def test_a_curve_is_a_system_at_each_value_of_the_scale(recipe: Path):
    tables, table = figure(recipe)
    assert [row.name for row in table.rows] == [
        f"{curve} at {value} s" for curve in ("Calls", "Noisy talks", "Deep") for value in ("2.5", "10")
    ]
    assert [system.name for system in systems_needed(tables, [table])] == ["base_2.5", "base_10", "deep_2.5", "deep_10"]
    assert ("base_10", "noisy_5") in decodings_needed([table])
    needed = sets_needed(tables, [table])
    assert needed["base_10", "default"] == ["calls"] and needed["base_10", "noisy_5"] == ["talks"]
    assert [claim.text for claim in table.claims] == ["short is worse"]
    assert [row.x for row in figure(recipe, "full")[1].rows[:2]] == [10, 41]
    assert [claim.text for claim in figure(recipe, "full")[1].claims] == ["long is better"]
    assert [row.x for row in figure(recipe, None)[1].rows[:3]] == [2.5, 10, 41]


def test_configs_have_the_value_and_the_scales_own_size(recipe: Path):
    tables = figure(recipe)[0]
    assert system_config(load_scale(recipe, "mini"), tables.systems["deep_2.5"]) == {
        "chunk_conf": {"max_seconds": 2.5, "batch_seconds": 3600},
        "encoder_conf": {"layers": 3},
        "lr": 2.0,
    }
    deep = figure(recipe, "full")[0].systems["deep_41"]
    assert system_config(load_scale(recipe, "full"), deep)["encoder_conf"] == {"layers": 9}


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
    (claim,) = result["claims"]
    assert (claim["verdict"], claim["reason"]) == ("undecided", "2 seeds") and list(claim["tests"]) == ["calls"]
    assert claim["tests"]["calls"]["lower_by"] == 2.0
    assert reduced(SeedRates(1.0, {"1": 1.0}), None) is None


def test_reductions_are_over_the_seeds_that_both_points_have():
    base, other = SeedRates(4.0, {"1": 3.0, "2": 5.0}), SeedRates(9.0, {"3": 9.0})
    assert reduced(other, base) is None
    more = SeedRates(4.0, {"1": 1.5, "2": 4.5, "3": 6.0})
    assert reduced(more, base) == {"value": 25.0, "spread": pytest.approx(28.2843), "values": {"1": 50.0, "2": 10.0}}
    assert reduced(SeedRates(4.0, {"2": 4.0}), base) == {"value": 20.0}


def test_a_figure_says_which_rows_have_other_seeds(recipe: Path, expdir: Path):
    tables, table = figure(recipe)
    text = markdown_table(collect(tables, table, expdir, "mini", "toy", collect_meta("./run.sh", recipe)))
    assert "Rows with different seeds: seeds 1: Noisy talks at 10 s; seeds 1 2: the others." in text


def test_what_is_written_is_drawn_and_the_report_shows_it(recipe: Path, expdir: Path, capsys: pytest.CaptureFixture):
    tables = load_tables(recipe / "conf" / "tables.yaml", "mini")
    write_tables(tables, select(tables, ["figure1", "1"]), None, expdir, scale="mini", corpus="toy", command="./run.sh")
    printed = capsys.readouterr().out
    assert "figure1.json and figure1.md and figure1.png" in printed
    assert "6.00 ± 1.41 (-50.0 ± 9.0%)" in printed and "paper 27.7" in printed
    picture = expdir / "results" / "figure1.png"
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    keep_results(expdir / "results", recipe / "results")
    report = recipe_pages(recipe)[recipe / "RESULTS.md"]
    assert "### Figure 1. How much" in report and "(results/mini-toy/figure1.png)" in report
    assert "Not run: table 1." in report


def test_curves_are_told_apart_and_say_what_they_are(recipe: Path, expdir: Path):
    from espnet_ext.tables.pages.figures import draw

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
        ({"axis": [2.5, 10]}, "axis: must be a mapping"),
        ({"axis": {"label": "b", "unit": "s"}}, "axis: the key 'values' is missing"),
        (
            {"axis": {"label": "b", "unit": "s", "values": {"mini": [1, "a"]}}},
            r"values\.mini\[1\]: must be a number.*'a'",
        ),
        ({"figures": {"1": {"caption": "c"}}}, "figures.1: the key 'y' is missing"),
        ({"systems": {"other": {"kind": "measure"}}}, r"curves\[0\] \(Calls\)\.system: unknown system 'base'"),
    ],
)
def test_mistakes_are_named(recipe: Path, change: dict, message: str):
    path = recipe / "conf" / "tables.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(TOY), **change}))
    with pytest.raises(InputError, match=message):
        load_tables(path, "mini")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "worse: Calls at 2.5 s",
            "worse: Calls at 3 s",
            "there is no 'Calls at 3 s'; rows are called like 'Calls at 2.5",
        ),
        ("y: reduction", "y: colour", r"figures\.1\.y: must be 'reduction' or 'rate', is 'colour'"),
        ("paper: {10: 27.7}", "paper: {11: 27.7}", r"curves\[0\] \(Calls\)\.paper: 11 is on the axis of no scale"),
        ("column: talks", "column: talk", r"\(Noisy talks\)\.column: unknown column 'talk'; known are "),
        ("{noisy: 5}", "noisy", r"\(Noisy talks\)\.decoding: the decoding 'noisy' takes a value for snr"),
    ],
)
def test_mistakes_in_curves_are_named(recipe: Path, old: str, new: str, message: str):
    path = recipe / "conf" / "tables.yaml"
    assert old in TOY
    path.write_text(TOY.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        load_tables(path, "mini")


def test_an_unknown_scale(recipe: Path):
    with pytest.raises(InputError, match="axis.values: none for the scale 'smoke'; known are mini, full"):
        load_tables(recipe / "conf" / "tables.yaml", "smoke")


def test_figures_need_an_axis(recipe: Path):
    path = recipe / "conf" / "tables.yaml"
    begin, end = TOY.index("axis:"), TOY.index("figures:")
    path.write_text(TOY[:begin] + TOY[end:])
    with pytest.raises(InputError, match="the key 'axis' is missing: figures need it"):
        load_tables(path)
