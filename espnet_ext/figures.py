"""What all figures have in common: colours, sizes of type, and PNG files that are whole or absent."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from espnet_ext.files import atomic_write

# Colours by Okabe and Ito, which readers with any colour vision can tell apart.
BLUE = "#0072B2"
VERMILLION = "#D55E00"
DOTS_PER_INCH = 300
STYLE = {"font.size": 10, "axes.titlesize": 10, "axes.labelsize": 10, "legend.fontsize": 9, "figure.titlesize": 11}


def save_png(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    with matplotlib.rc_context(STYLE), atomic_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
