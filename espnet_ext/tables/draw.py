"""A paper's figure as a picture: curves over a setting with the mean and the spread of repeats."""

from collections.abc import Mapping
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from espnet_ext.figures import COLOURS, STYLE
from espnet_ext.tables.curves import label_of, shown

_MARKERS = "osD^vPX*"


def draw(result: Mapping[str, Any]) -> Figure:
    """Draw a result that has curves.

    The axis of x is logarithmic, with a tick at each value. Bars are the standard deviation over seeds. A dotted line
    is the largest reduction that the paper names, a cross the paper's own rate, in the colour of the curve.
    """
    figure = result["figure"]
    with matplotlib.rc_context(STYLE):
        picture = Figure(figsize=(5.8, 4.4), layout="constrained")
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
                    label=curve["name"],
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
        picture.legend(loc="outside lower center", ncols=2, frameon=False)
        picture.suptitle(f"{result['caption']}\n{_made_on(result)}", parse_math=False)
        return picture


def _paper(axes: Any, figure: Mapping[str, Any], curve: Mapping[str, Any], colour: str) -> None:
    """What the paper says of a curve, as far as the axis of y shows that."""
    largest = curve["paper_largest_reduction"]
    if figure["y"] == "reduction" and largest is not None:
        label = f"{curve['name']}, the paper's largest: {largest:g} %"
        axes.axhline(largest, color=colour, linestyle=":", linewidth=1.0, label=label)
    rates = [(point["x"], point["paper"]) for point in curve["points"] if point["paper"] is not None]
    if figure["y"] == "rate" and rates:
        axes.plot(*zip(*rates, strict=True), "x", color=colour, label=f"{curve['name']}, the paper's")


def _made_on(result: Mapping[str, Any]) -> str:
    seeds = sorted({seed for row in result["rows"] for seed in row["seeds"]})
    repeats = f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'}"
    return f"{result['meta']['corpus']} corpus, scale {result['scale']}, {repeats}; bars: standard deviation"
