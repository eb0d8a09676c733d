"""The figure of the error curve shows the curve, its ends and the tuned weight."""

import numpy as np
import pytest

from espnet_ext.nbest.lists import Hypothesis, NBest
from espnet_ext.rescore.figures import draw_curves
from espnet_ext.rescore.interpolation import FIRST_PASS, LENGTH, tune


def drawn(*hyps: tuple[str, float, float]):
    nbest = NBest("u", tuple(Hypothesis(text, am, {"lm": lm}) for text, am, lm in hyps), "A B")
    tuned, curves = tune([nbest], {"lm": 1.0, FIRST_PASS: 1.0})
    figure = draw_curves(curves, tuned, "dev $clean_1$")
    figure.draw_without_rendering()
    return tuned.weights[FIRST_PASS], figure, figure.axes[0]


def test_a_panel_for_each_weight():
    hyps = (("X X X", -0.5, -3.0), ("A B", -1.0, -2.0), ("A X", -3.0, -1.0))
    nbest = NBest("u", tuple(Hypothesis(text, am, {"lm": lm}) for text, am, lm in hyps), "A B")
    tuned, curves = tune([nbest], {"lm": 1.0, FIRST_PASS: 1.0, LENGTH: 0.0}, [FIRST_PASS, LENGTH])
    figure = draw_curves(curves, tuned, "dev")
    figure.draw_without_rendering()
    assert [axes.get_xlabel() for axes in figure.axes] == ["Weight of first pass", "Weight of length"]
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "linear"]


def test_steps_ends_and_tuned_weight():
    weight, figure, axes = drawn(("X X X", -0.5, -3.0), ("A B", -1.0, -2.0), ("A X", -3.0, -1.0))
    (steps,) = axes.patches
    values, edges, _ = steps.get_data()
    assert values.tolist() == [50.0, 0.0, 150.0]
    assert edges[1:-1] == pytest.approx([0.5, 2.0])
    low, high = axes.get_xlim()
    assert low <= edges[0] < 0.5 and 2.0 < edges[-1] <= high
    marked = next(line for line in axes.lines if line.get_marker() == "o")
    assert (marked.get_xdata()[0], marked.get_ydata()[0]) == (weight, 0.0)
    ends = [line.get_ydata()[0] for line in axes.lines if line.get_marker() != "o"]
    assert ends == [50.0, 150.0]
    assert "Weight of first pass" in axes.get_xlabel() and "%" in axes.get_ylabel()
    assert figure.get_suptitle() == "dev $clean_1$: 1 N-best lists, 2 words"
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert any("tuned" in text and "0.00 %" in text for text in texts)


def test_a_curve_without_corners():
    weight, _, axes = drawn(("A B", -0.5, -3.0))
    values, edges, _ = axes.patches[0].get_data()
    assert values.tolist() == [0.0] and edges[0] < weight < edges[-1]
    assert np.isfinite(axes.get_xlim()).all()
