"""Curves as SVG that stands in a page: its text takes the page's colour and font, light or dark."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO
from itertools import cycle

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from espnet_ext.report.curves import Curve
from espnet_ext.results.figures import BLUE, STYLE, VERMILLION

NAMES = {"loss": "Loss", "acc": "Accuracy of the next token (share)", "wer": "Word error rate (%)"}
UNITS = {"epoch": "Epoch", "update": "Updates"}
MARKERS = "osD^vP*X"  # of seeds, which are not told apart by colour
# A colour that nothing else has, and those of the lines: the page's own, light or dark, are put in their place.
_INK = "#010203"
_PAGE_COLOURS = {_INK: "currentColor", BLUE.lower(): "var(--blue)", VERMILLION.lower(): "var(--vermillion)"}
_SIZE = (4.2, 2.7)
_REFERENCES = re.compile(r'(\bid="|url\(#|href="#)')
_RC = STYLE | {
    "svg.fonttype": "none",
    "svg.hashsalt": "page",  # else names in the SVG are drawn at random
    "font.family": "sans-serif",
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _INK,
}


def shared_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """What the vertical axes of several plots of one measure show: all values, with a margin.

    >>> shared_range([Curve("acc", "epoch", ((1.0, 0.0), (2.0, 0.5)), ((1.0, 1.0),))])
    (-0.05, 1.05)
    """
    values = [value for curve in curves for _, value in (*curve.train, *curve.valid)]
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def draw_curves(title: str, curves: Mapping[str, Curve], limits: tuple[float, float], key: str) -> str:
    """One system's curves of one measure as an ``<svg>`` element.

    Args:
        title: the system.
        curves: by the name of the seed ("" where there is one without); at least one.
        limits: of the vertical axis.
        key: goes before the ids in the SVG, so that those of several in one page differ.
    """
    first = next(iter(curves.values()))
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.subplots()
        for (seed, curve), marker in zip(curves.items(), cycle(MARKERS), strict=False):
            name = f", seed {seed}" if seed else ""
            for points, part, colour, line in (
                (curve.train, "training", VERMILLION, "--"),
                (curve.valid, "validation", BLUE, "-"),
            ):
                if points:
                    xs, ys = zip(*points, strict=True)
                    style = {"color": colour, "linestyle": line, "linewidth": 1.4, "marker": marker, "markersize": 3.5}
                    axes.plot(xs, ys, label=part + name, markevery=max(1, len(xs) // 12), **style)
        axes.set_ylim(limits)
        axes.set_xlabel(UNITS[first.unit])
        axes.set_ylabel(NAMES.get(first.measure, first.measure))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.15, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(title, parse_math=False)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        buffer = StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue(), key, f"{NAMES.get(first.measure, first.measure)} of {title}")


def _inline(svg: str, key: str, label: str) -> str:
    """The element alone, as wide as its place, with the page's ink and font."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r"font-family: [^;]*; ", "", svg)
    for drawn, shown in _PAGE_COLOURS.items():
        svg = svg.replace(drawn, shown)
    # Groups are named in vain; what is referred to are clip paths and markers, and their names differ between plots.
    svg = _REFERENCES.sub(rf"\g<1>{key}-", re.sub(r'<g id="[^"]*"', "<g", svg))
    svg = re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><").rstrip()
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
