"""A paper's figure as a picture: curves over a setting with the mean and the spread of repeats."""

from collections.abc import Mapping
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from espnet_ext.results.curves import baseline_of, label_of, shown
from espnet_ext.results.figures import COLOURS, STYLE
from espnet_ext.results.schema import RATE, REDUCTION
from espnet_ext.results.tables import PREFIX

_MARKERS = "osD^vPX*"


def draw(result: Mapping[str, Any]) -> Figure:
    """Draw a result that has curves.

    The axis of x is logarithmic, with a tick at each value. Bars are the standard deviation over seeds. In the colour
    of a curve, a dotted line is the largest reduction that the paper names, a cross the paper's own rate. Where
    reductions are drawn, the legend has the rates at the baseline.
    """
    figure = result["figure"]
    with matplotlib.rc_context(STYLE):
        picture = Figure(figsize=(7.4, 5.0), layout="constrained")
        axes = picture.subplots()
        axes.set_xscale("log")
        for number, curve in enumerate(figure["curves"]):
            colour = COLOURS[number % len(COLOURS)]
            points = [(point["x"], shown(figure, point), point) for point in curve["points"]]
            there = [(x, value["value"], value.get("spread", 0.0)) for x, value, _ in points if value]
            if there:
                xs, ys, spreads = zip(*there, strict=True)
                marker = _MARKERS[number % len(_MARKERS)]
                axes.errorbar(
                    xs, ys, spreads, color=colour, marker=marker, markersize=4, linewidth=1.2, capsize=2.5,
                    label=_label(figure, curve),
                )  # fmt: skip
            _paper(axes, figure, curve, colour)
        places = sorted({point["x"] for curve in figure["curves"] for point in curve["points"]})
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(figure["axis"])
        axes.set_ylabel(label_of(figure, result["metric"]))
        handles, labels = axes.get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda place: "paper's" in labels[place])  # the curves first
        picture.legend(
            [handles[place] for place in order], [labels[place] for place in order], loc="outside lower center",
            ncols=2, frameon=False,
        )  # fmt: skip
        number = result["table"].removeprefix(PREFIX)
        picture.suptitle(f"Figure {number}. {result['caption']}\n{_made_on(result)}", parse_math=False)
        return picture


def _label(figure: Mapping[str, Any], curve: Mapping[str, Any]) -> str:
    """The curve's name; for reductions with the rates to which they refer, here and in the paper."""
    base = next((point for point in curve["points"] if point["x"] == figure["baseline"]), None)
    if figure["y"] == RATE or base is None or base["rate"] is None:
        return curve["name"]
    paper = "" if base["paper"] is None else f", paper {base['paper']:g} %"
    return f"{curve['name']} (at {baseline_of(figure)}: {base['rate']['value']:.1f} %{paper})"


def _paper(axes: Any, figure: Mapping[str, Any], curve: Mapping[str, Any], colour: str) -> None:
    """What the paper says of a curve, as far as the axis of y shows that."""
    largest = curve["paper_largest_reduction"]
    if figure["y"] == REDUCTION and largest is not None:
        label = f"{curve['name']}, the paper's largest: {largest:g} %"
        axes.axhline(largest, color=colour, linestyle=":", linewidth=1.0, label=label)
    rates = [(point["x"], point["paper"]) for point in curve["points"] if point["paper"] is not None]
    if figure["y"] == RATE and rates:
        axes.plot(*zip(*rates, strict=True), "x", color=colour, label=f"{curve['name']}, the paper's")


def _made_on(result: Mapping[str, Any]) -> str:
    counts = sorted({len(row["seeds"]) for row in result["rows"] if row["seeds"]}) or [0]
    repeats = f"{counts[0]} seed" if counts == [1] else f"{counts[-1]} seeds"
    if len(counts) > 1:
        repeats = f"{counts[0]} to {repeats}"
    bars = "; bars: standard deviation" if counts[-1] > 1 else ""
    return f"{result['meta']['corpus']} corpus, scale {result['scale']}, {repeats}{bars}"
