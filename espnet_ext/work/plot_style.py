"""The style of all pictures (colours, type sizes), and how they are written. No display is needed."""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from espnet_ext.work.files import atomic_write

# Colours by Okabe and Ito, which readers with any colour vision can tell apart.
BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
BLACK = "#000000"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "legend.fontsize": 9,
    "figure.titlesize": 11,
}
DOTS_PER_INCH = 300


def save_png(figure: Figure, path: str | Path, dots_per_inch: int = DOTS_PER_INCH) -> None:
    """Write a figure as PNG, whole or not at all."""
    with matplotlib.rc_context(STYLE), atomic_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=dots_per_inch)
