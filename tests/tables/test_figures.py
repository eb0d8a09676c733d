"""Figures of tables.yaml: curves over an axis as systems and rows, their reductions,
and the picture.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.collect import reduce_rate
from espnet_ext.tables.figures import draw
from espnet_ext.tables.plan import list_needed_sets, list_needed_systems
from espnet_ext.tables.reading import Tables, load_tables
from espnet_ext.tables.render import explain_signs, lay_out_figure
from espnet_ext.tables.result import Result

TOY = """
recipe: toy
paper: {id: P0, title: A title, authors: A. Author, year: 2020, metric: WER (%)}
test_sets: [calls, talks]
systems:
  base: &base {kind: train, config: train, data: train, sweep: chunk_conf.max_seconds}
  deep: {<<: *base, size: deep, overrides: {lr: 2.0}}
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
      - {name: Calls, system: base, column: calls,
         paper: {10: 27.7}, spread: {10: 0.6}, largest: 12.2}
      - {name: Noisy talks, system: base, decoding: {noisy: 5}, column: talks}
      - {name: Deep, system: deep, column: calls}
tables: {}
"""
DESIGN = """
claims:
  short:
    {text: short is worse, better: figure1/Calls at 10 s,
     worse: figure1/Calls at 2.5 s}
  long:
    {text: long is better, better: figure1/Calls at 41 s,
     worse: figure1/Calls at 10 s}
designs:
  - {corpus: c, scale: mini, commit: abc, claims: [short], seeds: [1, 2, 3],
     units: 20 recordings}
  - {corpus: c, scale: full, commit: abc, claims: [long], seeds: [1, 2, 3],
     units: 20 recordings}
"""


@pytest.fixture
def curves(toy: Path) -> Path:
    toy.write_text(TOY)
    toy.with_name("design.yaml").write_text(DESIGN)
    return toy


@pytest.fixture
def run(scored: Callable) -> None:
    for seed, errors in ((1, 10), (2, 14)):
        scored("base_2.5", seed, "calls", [1] * errors + [0] * (20 - errors))
    for seed, errors in ((1, 7), (2, 9)):
        scored("base_10", seed, "calls", [1] * errors + [0] * (20 - errors))
    scored("base_10", 1, "talks", [1] * 12 + [0] * 8, decoding="noisy_5")


def test_a_curve_is_a_system_at_each_value_of_the_scale(curves: Path):
    def figure(scale: str | None) -> tuple[Tables, list, list]:
        tables = load_tables(curves, scale)
        table = tables.tables["figure1"]
        return tables, [row.x for row in table.rows], list(tables.claims)

    tables, xs, claims = figure("mini")
    table = tables.tables["figure1"]
    assert [row.name for row in table.rows] == [
        f"{curve} at {value} s"
        for curve in ("Calls", "Noisy talks", "Deep")
        for value in ("2.5", "10")
    ]
    assert [system.name for system in list_needed_systems(tables, [table])] == [
        "base_2.5",
        "base_10",
        "deep_2.5",
        "deep_10",
    ]
    assert tables.systems["deep_10"].overrides == {
        "lr": 2.0,
        "chunk_conf": {"max_seconds": 10},
    }
    needed = list_needed_sets(tables, [table])
    assert needed["base_10", "default"] == ["calls"] and needed[
        "base_10", "noisy_5"
    ] == ["talks"]
    assert claims == ["short"] and xs[:2] == [2.5, 10]
    assert figure("full")[1:] == ([10, 41] * 3, ["long"])
    assert figure(None)[1][:3] == [2.5, 10, 41]


def test_means_spreads_and_reductions(curves: Path, run: None, computed: Callable):
    (result,) = computed(curves, "figure1")
    (short, ten), noisy, deep = result.curves.values()
    assert (short.cell.here.value, ten.cell.here.value, ten.cell.paper) == (
        6.0,
        4.0,
        27.7,
    )
    assert result.table.figure.largest == {"Calls": 12.2}
    # each seed's from its own baseline: 3.5 to 5 % and 4.5 to 7 %
    assert short.reduction.value == -50.0 and short.reduction.spread == pytest.approx(
        8.979, abs=1e-3
    )
    assert short.reduction.by_seed == {
        1: pytest.approx(-42.8571),
        2: pytest.approx(-55.5556),
    }
    assert (
        noisy[0].cell.here is None is noisy[0].reduction
        and noisy[1].cell.here.value == 6.0
    )
    assert [point.cell.here for point in deep] == [None, None]
    (claim,) = result.claims
    assert (claim.verdict, claim.notes, claim.tests[0].here.points) == (
        "open",
        ("2 of 3 seeds",),
        2.0,
    )
    assert lay_out_figure(result).rows[0][:2] == ("2.5", "6.00 ± 1.41 (-50.0 ± 9.0%)")
    assert lay_out_figure(result).rows[1][1].endswith("; paper 27.70 ± 0.60")
    assert "Rows with different seeds: seeds 1: Noisy talks at 10 s" in explain_signs(
        result
    )


def test_rates_are_drawn_beside_the_papers_with_its_spread(
    curves: Path, run: None, computed: Callable
):
    curves.write_text(TOY.replace("y: reduction", "y: rate", 1))
    (axes,) = draw(computed(curves, "figure1")[0]).axes
    [(bars,)] = [
        each.lines[2] for each in axes.containers if "paper" in each.get_label()
    ]
    assert bars.get_segments()[0][:, 1] == pytest.approx([27.1, 28.3])


def test_reductions_are_over_the_seeds_that_both_points_have():
    base = Result(4.0, {1: 3.0, 2: 5.0})
    assert reduce_rate(Result(9.0, {3: 9.0}), base) is None is reduce_rate(base, None)
    more = reduce_rate(Result(4.0, {1: 1.5, 2: 4.5, 3: 6.0}), base)
    assert (more.value, more.by_seed) == (
        25.0,
        {1: 50.0, 2: 10.0},
    ) and more.spread == pytest.approx(28.2843)


def test_curves_are_told_apart_and_say_what_they_are(
    curves: Path, run: None, computed: Callable
):
    picture = draw(computed(curves, "figure1")[0])
    (axes,) = picture.axes
    assert (
        axes.get_xlabel() == "Length (s)"
        and axes.get_ylabel() == "Reduction of the WER from that at 10 s (%)"
    )
    lines = [container.lines[0] for container in axes.containers]
    assert [list(line.get_xdata()) for line in lines] == [[2.5, 10.0], [10.0]]
    assert list(lines[0].get_ydata()) == [-50.0, 0.0]
    assert (
        len({line.get_color() for line in lines})
        == len(lines)
        == len({line.get_marker() for line in lines})
    )
    labels = axes.get_legend_handles_labels()[1]
    assert any(
        label.startswith("Calls (at 10 s: 4.0 %, paper 27.7 %") for label in labels
    )
    assert any("12.2 %" in label for label in labels)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        (
            "values: {mini: [2.5, 10], full",
            "values: {full",
            r"axis\.values: unknown scale 'mini'",
        ),
        ("y: reduction", "y: colour", r"figures\.1\.y"),
        (
            "paper: {10: 27.7}, spread: {10: 0.6}",
            "paper: {11: 27.7}",
            r"curves\[0\] \(Calls\)\.paper",
        ),
        (
            "spread: {10: 0.6}",
            "spread: {2.5: 0.6}",
            r"curves\[0\].*: spread: there is no number of the paper at 2\.5",
        ),
        ("column: talks", "column: talk", r"figures\.1\.columns"),
        ("{noisy: 5}", "noisy", r"\(Noisy talks at 2\.5 s\)\.decoding"),
        (
            "axis:\n  label: Length\n  unit: s\n  values: {mini: [2.5, 10], full: "
            "[10, 41]}\n",
            "",
            "'axis' is missing",
        ),
    ],
)
def test_mistakes_are_refused_with_their_place(
    curves: Path, old: str, new: str, place: str
):
    assert old in TOY
    curves.write_text(TOY.replace(old, new, 1))
    with pytest.raises(InputError, match=f"tables.yaml: .*{place}"):
        load_tables(curves, "mini")
