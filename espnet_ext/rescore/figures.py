"""The figure of a second pass: word errors over each weight that was tuned."""

from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from espnet_ext.rescore.weights import ErrorCurve, Tuned, weight_of
from espnet_ext.work.plot_style import BLUE, STYLE, VERMILLION

# The axis of a weight reaches to the first and last corner of the curve, but at most this factor away from the tuned
# weight.
REACH = 1000.0
MARGIN = 2.0


def draw_curves(curves: Mapping[str, ErrorCurve], tuned: Tuned, name: str) -> Figure:
    """Draw the exact curves of word error rate over each weight, the others as tuned, with the tuned weight.

    The x axes are weights, the y axes word error rates in percent.

    Args:
        curves: at least one, by the name of the score; with at least one word.
        tuned: the weights to mark.
        name: what they were tuned on, for the title.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.8, 1.2 + 3.2 * len(curves)), layout="constrained")
        for axes, (score, curve) in zip(figure.subplots(len(curves), squeeze=False)[:, 0], curves.items(), strict=True):
            _draw_curve(axes, score, curve, tuned)
        figure.suptitle(f"{name}: {tuned.lists:,} N-best lists, {tuned.words:,} words", parse_math=False)
        return figure


def _draw_curve(axes: Axes, score: str, curve: ErrorCurve, tuned: Tuned) -> None:
    weight = tuned.weights[score]
    low, high = shown_range(curve, weight)
    axes.set_xscale("log")
    inside = np.array([weight_of(corner) for corner in curve.corners[1:-1]])
    rates = 100.0 * np.array(curve.errors) / curve.words
    # The outer pieces reach to 0 and to infinity, which a logarithmic axis cannot show.
    edges = np.concatenate(([min([low, *inside[:1]])], inside, [max([high, *inside[-1:]])]))
    axes.stairs(rates, edges, baseline=None, color=BLUE, label="word error rate")
    for rate, label, line in ((rates[0], f"without {score}", ":"), (rates[-1], f"{score} alone", "--")):
        axes.axhline(rate, color="0.4", linestyle=line, linewidth=1.0, label=f"{label}: {rate:.2f} %")
    best = 100.0 * curve.at(weight) / curve.words
    axes.plot(weight, best, "o", color=VERMILLION, markersize=5, label=f"tuned: {weight:.3g}, {best:.2f} %")
    axes.set_xlim(low, high)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(f"Weight of {score}")
    axes.set_ylabel("Word error rate (%)")
    axes.legend(frameon=False)


def shown_range(curve: ErrorCurve, weight: float) -> tuple[float, float]:
    """Return the range of the weight axis: from below the first to above the last corner, in reach of the weight.

    >>> shown_range(ErrorCurve((0.0, 0.2, 1.0), (3, 2), 9), 1.0)
    (0.125, 2.0)
    """
    corners = [weight_of(corner) for corner in curve.corners[1:-1]] or [weight]
    weight = weight or 1 / REACH
    low = max(min(corners[0], weight), weight / REACH) / MARGIN
    high = min(max(corners[-1], weight), weight * REACH) * MARGIN
    return low, high
