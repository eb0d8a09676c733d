"""The figure of word error rate over the interpolation weight."""

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from espnet_ext.rescore.interpolation import ErrorCurve, Tuned, weight_of
from espnet_ext.results.figures import BLUE, STYLE, VERMILLION

# The axis of lambda is logarithmic. It reaches to the first and last corner, but no further from the tuned weight than
# by this factor.
REACH = 1000.0
MARGIN = 2.0


def draw_curve(curve: ErrorCurve, tuned: Tuned, name: str) -> Figure:
    """The exact curve of word error rate over lambda, with the tuned weight and both ends, on which it stays constant.

    Args:
        curve: with at least one word.
        tuned: the weight to mark.
        name: what it was tuned on, for the title.
    """
    low, high = shown_range(curve, tuned)
    inside = np.array([weight_of(corner) for corner in curve.corners[1:-1]])
    rates = 100.0 * np.array(curve.errors) / curve.words
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.8, 4.4), layout="constrained")
        axes = figure.subplots()
        axes.set_xscale("log")
        # The outer pieces reach to 0 and to infinity, which a logarithmic axis cannot show.
        edges = np.concatenate(([min([low, *inside[:1]])], inside, [max([high, *inside[-1:]])]))
        axes.stairs(rates, edges, baseline=None, color=BLUE, label="word error rate")
        for rate, label, line in (
            (rates[0], r"language model alone ($\lambda = 0$)", ":"),
            (rates[-1], r"first pass alone ($\lambda \to \infty$)", "--"),
        ):
            axes.axhline(rate, color="0.4", linestyle=line, linewidth=1.0, label=f"{label}: {rate:.2f} %")
        best = 100.0 * tuned.errors / tuned.words
        label = rf"tuned: $\lambda = {tuned.weight:.3g}$, {best:.2f} %"
        axes.plot(tuned.weight, best, "o", color=VERMILLION, markersize=5, label=label)
        axes.set_xlim(low, high)
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(r"Interpolation weight $\lambda$ of the first pass")
        axes.set_ylabel("Word error rate (%)")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        figure.suptitle(f"{name}: {tuned.lists:,} N-best lists, {tuned.words:,} words", parse_math=False)
        return figure


def shown_range(curve: ErrorCurve, tuned: Tuned) -> tuple[float, float]:
    """From below the first corner to above the last, as far as they are within reach of the tuned weight.

    >>> tuned = Tuned(1.0, (0.25, 9.0), 2, 9, 3, 2, 1, "lm")
    >>> shown_range(ErrorCurve((0.0, 0.2, 1.0), (3, 2), 9), tuned)
    (0.125, 2.0)
    """
    corners = [weight_of(corner) for corner in curve.corners[1:-1]] or [tuned.weight]
    low = max(min(corners[0], tuned.weight), tuned.weight / REACH) / MARGIN
    high = min(max(corners[-1], tuned.weight), tuned.weight * REACH) * MARGIN
    return low, high
