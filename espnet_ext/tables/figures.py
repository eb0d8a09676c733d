"""A figure of a paper as a picture: curves of error rates, or of their reductions."""

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
    """Draw curves over a logarithmic axis, with bars for the deviation over seeds.

    In the colour of a curve, a dotted line is the paper's largest reduction, a cross
    the paper's own rate.
    """
    figure = result.table.figure
    curves = result.curves
    assert figure is not None
    with matplotlib.rc_context(STYLE):
        picture = Picture(figsize=(7.4, 5.0), layout="constrained")
        axes = picture.subplots()
        axes.set_xscale("log")
        for number, (name, points) in enumerate(curves.items()):
            colour = COLOURS[number % len(COLOURS)]
            marker = _MARKERS[number % len(_MARKERS)]
            _draw_ours(axes, figure, name, points, colour, marker)
            _draw_paper(axes, figure, name, points, colour)
        # ticks at the values of the paper, in place of powers of ten
        places = sorted({row.x for row in result.rows})
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(figure.axis)
        axes.set_ylabel(_label_axis(result, figure))
        picture.legend(loc="outside lower center", ncols=2, frameon=False)
        made_on = (
            f"{result.meta.corpus} corpus, scale {result.meta.scale}; bars: standard "
            "deviation over seeds"
        )
        picture.suptitle(f"{result.title}\n{made_on}", parse_math=False)
        return picture


def _label_axis(result: TableResult, figure: Figure) -> str:
    if figure.y == RATE:
        return result.metric
    # ``WER`` of ``WER (%)``
    metric = result.metric.partition(" ")[0]
    return f"Reduction of the {metric} from that at {figure.start:g} {figure.unit} (%)"


def _draw_ours(
    axes: Any,
    figure: Figure,
    curve: str,
    points: Sequence[ResultRow],
    colour: str,
    marker: str,
) -> None:
    """Draw our numbers of a curve, those that have run."""
    drawn = []
    for point in points:
        value = point.cell.here if figure.y == RATE else point.reduction
        if value:
            drawn.append((point.x, value.value, value.spread or 0.0))
    if not drawn:
        return
    places, values, spreads = zip(*drawn, strict=True)
    axes.errorbar(
        places,
        values,
        spreads,
        color=colour,
        label=_label_curve(figure, curve, points),
        marker=marker,
        markersize=4,
        linewidth=1.2,
        capsize=2.5,
    )


def _label_curve(figure: Figure, curve: str, points: Sequence[ResultRow]) -> str:
    """Return the name of a curve, with the rates at the start of reductions."""
    start = next((point.cell for point in points if point.x == figure.start), None)
    if figure.y == RATE or start is None or start.here is None:
        return curve
    rates = f"{start.here.value:.1f} %"
    if start.paper is not None:
        rates += f", paper {start.paper:g} %"
    return f"{curve} (at {figure.start:g} {figure.unit}: {rates})"


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
