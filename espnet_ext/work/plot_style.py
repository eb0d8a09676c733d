"""The style of all pictures (colours, type sizes), and how they are written.

No display is needed.
"""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from espnet_ext.work.files import atomic_write

# Colours by Okabe and Ito, which readers with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, VERMILLION = COLOURS[:2]
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "legend.fontsize": 9,
    "figure.titlesize": 11,
}


def save_png(figure: Figure, path: str | Path, dots_per_inch: int = 300) -> None:
    """Write a figure as PNG, whole or not at all."""
    with matplotlib.rc_context(STYLE), atomic_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=dots_per_inch)
