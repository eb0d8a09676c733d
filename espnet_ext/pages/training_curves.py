"""Training and validation curves: read from the logs that trainings leave, and drawn as SVG for a page.

Text in the SVG takes the page's colour and font, light or dark.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from espnet_ext.errors import InputError
from espnet_ext.work.json_text import parse_json
from espnet_ext.work.plot_style import BLUE, STYLE, VERMILLION

_EPOCH = re.compile(r"\b([0-9]{1,9})epoch results: (.*)")
_PART = re.compile(r"\[(train|valid)\] ([^\[]*)")
_NUMBER = re.compile(r"([A-Za-z_][\w/.-]*)=([-+0-9.einfa]+)")
# Of what ESPnet logs: the rest is timing, or parts of the loss.
_SHOWN = ("loss", "acc")

Points = tuple[tuple[float, float], ...]  # (epoch or update, value)


@dataclass(frozen=True)
class Curve:
    """One measure of one training.

    Attributes:
        measure: ``loss``, ``acc``, or of our own trainings ``wer`` and the like.
        unit: of the horizontal axis, ``epoch`` or ``update``.
        train, valid: points in rising order; either may be empty.
    """

    measure: str
    unit: str
    train: Points
    valid: Points


def read_curves(path: str | Path) -> list[Curve]:
    """The curves of one training: from ESPnet's log, or from ``training.json``.

    Points that are not finite are left out. What a training had logged before it was killed and resumed is beside its
    log, in ``<name>.earlier.log``; of an epoch that was done twice, the second counts.

    Raises:
        InputError: a ``training.json`` that is not a training's report.
    """
    path = Path(path)
    if path.suffix == ".json":
        return list(_of_history(_history(path)))
    points: dict[tuple[str, str], dict[float, float]] = {}
    for epoch, results in (each for log in (path.with_suffix(".earlier.log"), path) for each in _epochs(log)):
        for part, numbers in _PART.findall(results):
            for name, text in _NUMBER.findall(numbers):
                if name in _SHOWN and math.isfinite(value := _float(text)):
                    points.setdefault((name, part), {})[epoch] = value
    return [
        Curve(name, "epoch", *(tuple(sorted(points.get((name, part), {}).items())) for part in ("train", "valid")))
        for name in _SHOWN
        if (name, "valid") in points or (name, "train") in points
    ]


def _epochs(log: Path) -> Iterator[tuple[float, str]]:
    """Number and results of each epoch in a log; nothing if there is no such file."""
    if log.is_file():
        with open(log, encoding="utf-8", errors="replace") as file:
            for line in file:
                if "epoch results:" in line and (match := _EPOCH.search(line)):
                    yield float(match[1]), match[2]


def _float(text: str) -> float:
    try:
        return float(text.rstrip(".,"))
    except ValueError:
        return math.nan


def _history(path: Path) -> list[Mapping[str, Any]]:
    try:
        history = parse_json(path.read_text(encoding="utf-8"))["history"]
        if not all(isinstance(values["step"], int) for values in history):
            raise TypeError("a step is no whole number")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a training's report ({error!r}): train again, or delete it") from error
    return history


def _of_history(history: list[Mapping[str, Any]]) -> Iterator[Curve]:
    """One curve per measure on the development sets, with the same measure in training."""
    names = dict.fromkeys(key for values in history for key in values if key != "step")
    measures = dict.fromkeys(name.removeprefix("dev_") for name in names)
    for measure in measures:
        train, valid = (
            tuple(
                (float(values["step"]), float(values[name]))
                for values in history
                if isinstance(values.get(name), int | float) and math.isfinite(values[name])
            )
            for name in (measure, f"dev_{measure}")
        )
        if train or valid:
            yield Curve(measure, "update", train, valid)


NAMES = {"loss": "Loss", "acc": "Accuracy of the next token (share)", "wer": "Word error rate (%)"}
UNITS = {"epoch": "Epoch", "update": "Updates"}
MARKERS = "osD^vP*X"  # of seeds; colours are for training and validation
# A colour that nothing else has, and those of the lines; they are replaced by the page's own, light or dark.
_INK = "#010203"
_PAGE_COLOURS = {_INK: "currentColor", BLUE.lower(): "var(--blue)", VERMILLION.lower(): "var(--vermillion)"}
_SIZE = (4.2, 2.7)
_REFERENCES = re.compile(r'(\bid="|url\(#|href="#)')
_RC = STYLE | {
    "svg.fonttype": "none",
    "svg.hashsalt": "page",  # otherwise names in the SVG are random
    "font.family": "sans-serif",
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _INK,
}


def shared_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """The range of the vertical axis of several plots of one measure: all values, with a margin.

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
        key: prefix of the ids in the SVG, so that those of several SVGs in one page differ.
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
                    style: dict[str, Any] = {
                        "color": colour,
                        "linestyle": line,
                        "linewidth": 1.4,
                        "marker": marker,
                        "markersize": 3.5,
                    }
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
    """The element alone, as wide as its place, with the page's colours and font."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r"font-family: [^;]*; ", "", svg)
    for drawn, shown in _PAGE_COLOURS.items():
        svg = svg.replace(drawn, shown)
    # Ids of groups are not needed; those of clip paths and markers are, and must differ between plots.
    svg = _REFERENCES.sub(rf"\g<1>{key}-", re.sub(r'<g id="[^"]*"', "<g", svg))
    svg = re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><").rstrip()
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
