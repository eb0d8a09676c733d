"""A figure of a paper as a picture: curves of error rates over a setting, or of their
reductions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FixedLocator, NullLocator

from espnet_ext.tables.reading import Figure
from espnet_ext.tables.result import ResultRow, TableResult
from espnet_ext.tables.schema import RATE
from espnet_ext.work.plot_style import COLOURS, STYLE, save_png

_MARKERS = "osD^vPX*"


def write_picture(result: TableResult, folder: Path) -> Path:
    """Draw a figure into ``<name>.png``."""
    path = folder / f"{result.table.id}.png"
    save_png(draw(result), path)
    return path


def draw(result: TableResult) -> Picture:
    """Draw a result that has curves over a logarithmic axis, with bars for the standard
    deviation over seeds.

    In the colour of a curve, a dotted line is the paper's largest reduction, a cross
    its own rate.
    """
    figure = result.table.figure
    curves = result.curves
    assert figure is not None
    with matplotlib.rc_context(STYLE):
        picture = Picture(figsize=(7.4, 5.0), layout="constrained")
        axes = picture.subplots()
        axes.set_xscale("log")
        for number, (name, points) in enumerate(curves.items()):
            colour, marker = (
                COLOURS[number % len(COLOURS)],
                _MARKERS[number % len(_MARKERS)],
            )
            drawn = [
                (point.x, point.cell.here if figure.y == RATE else point.reduction)
                for point in points
            ]
            there = [
                (x, value.value, value.spread or 0.0) for x, value in drawn if value
            ]
            if there:
                xs, ys, spreads = zip(*there, strict=True)
                style: dict[str, Any] = {
                    "marker": marker,
                    "markersize": 4,
                    "linewidth": 1.2,
                    "capsize": 2.5,
                }
                axes.errorbar(
                    xs,
                    ys,
                    spreads,
                    color=colour,
                    label=_label_curve(figure, name, points),
                    **style,
                )
            _draw_paper(axes, figure, name, points, colour)
        places = sorted({row.x for row in result.rows})
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(figure.axis)
        of = (
            f"{result.metric.partition(' ')[0]} from that at {figure.start:g} "
            f"{figure.unit} (%)"
        )
        axes.set_ylabel(result.metric if figure.y == RATE else f"Reduction of the {of}")
        picture.legend(loc="outside lower center", ncols=2, frameon=False)
        made_on = (
            f"{result.meta.corpus} corpus, scale {result.meta.scale}; bars: standard "
            "deviation over seeds"
        )
        picture.suptitle(f"{result.title}\n{made_on}", parse_math=False)
        return picture


def _label_curve(figure: Figure, curve: str, points: Sequence[ResultRow]) -> str:
    """Return the curve's name; with reductions, also the rates at the baseline, here
    and in the paper.
    """
    start = next((point.cell for point in points if point.x == figure.start), None)
    if figure.y == RATE or start is None or start.here is None:
        return curve
    paper = "" if start.paper is None else f", paper {start.paper:g} %"
    return (
        f"{curve} (at {figure.start:g} {figure.unit}: {start.here.value:.1f} %{paper})"
    )


def _draw_paper(
    axes: Any, figure: Figure, curve: str, points: Sequence[ResultRow], colour: str
) -> None:
    """Draw the paper's numbers of a curve, if the y axis shows them."""
    if figure.y != RATE and curve in figure.largest:
        label = f"{curve}, the paper's largest: {figure.largest[curve]:g} %"
        axes.axhline(
            figure.largest[curve],
            color=colour,
            linestyle=":",
            linewidth=1.0,
            label=label,
        )
    rates = [
        (point.x, point.cell.paper, point.spread or 0.0)
        for point in points
        if point.cell.paper is not None
    ]
    if figure.y == RATE and rates:
        axes.errorbar(
            *zip(*rates, strict=True),
            fmt="x",
            color=colour,
            label=f"{curve}, the paper's",
        )
