"""Draw energies and small-energy masks (P2, Fig. 1 and 3) without a display."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from espnet_ext.sem.energy_statistics import (
    EDGES_DB,
    STEP_DB,
    EnergyHistogram,
    MaskExample,
    find_edge,
)
from espnet_ext.work.plot_style import BLUE, STYLE, VERMILLION

MASKED = "#D9D9D9"  # a grey that the colour map does not contain
SPECTRUM = "viridis"
MARKED_DB = -20.0  # P2, section 3: 74.3 % of the bins are masked here
PAPER_RANGE_DB = (-90.0, 10.0)
# at most this share of the bins, and of the energy, lies beyond each end of the axis
HIDDEN_SHARE = 0.005


def draw_distribution(histogram: EnergyHistogram, name: str) -> Figure:
    """Draw P2, Fig. 1: density of eta, below it its cumulative density and energy."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 5.6), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True)
        _draw_density(upper, histogram)
        _draw_cumulative(lower, histogram)
        for axes in (upper, lower):
            axes.grid(color="0.9", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        lower.set_xlim(*choose_shown_range(histogram))
        lower.set_xlabel(r"Energy relative to $e_\mathrm{peak}$: $\eta$ (dB)")
        title = f"{name}: {histogram.utterances:,} utterances, {histogram.total:,} bins"
        figure.suptitle(title, parse_math=False)
        return figure


def choose_shown_range(histogram: EnergyHistogram) -> tuple[float, float]:
    """Choose the range of eta in dB: the paper's, wider where it would hide too much.

    It is widened by tens until it hides little but bins of zero energy.
    """
    lowest, highest = PAPER_RANGE_DB
    hidden_left = histogram.compute_share_below() - histogram.zeros / histogram.total
    # The curve of the energy reaches 1 last.
    hidden_right = 1.0 - histogram.compute_energy_below()
    while lowest > EDGES_DB[0] and hidden_left[find_edge(lowest)] > HIDDEN_SHARE:
        lowest -= 10.0
    while highest < EDGES_DB[-1] and hidden_right[find_edge(highest)] > HIDDEN_SHARE:
        highest += 10.0
    return lowest, highest


def _draw_density(axes: Axes, histogram: EnergyHistogram) -> None:
    middles = EDGES_DB[:-1] + STEP_DB / 2.0
    axes.plot(middles, histogram.compute_density(), color=BLUE)
    axes.fill_between(
        middles, histogram.compute_density(), color=BLUE, alpha=0.15, linewidth=0
    )
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("Probability density (1/dB)")
    title = r"(a) Probability density of $\eta$"
    if histogram.zeros:
        # In the title, since no place within the axes is free with every corpus.
        share = _format_percent(histogram.zeros / histogram.total)
        title += rf"; {share} of the bins at $-\infty$"
    axes.set_title(title, loc="left")


def _draw_cumulative(axes: Axes, histogram: EnergyHistogram) -> None:
    index = find_edge(MARKED_DB)
    curves = (
        (
            histogram.compute_share_below(),
            r"bins: cumulative density of $\eta$",
            BLUE,
            "-",
        ),
        (histogram.compute_energy_below(), r"energy: $r_e(\eta)$", VERMILLION, "--"),
    )
    axes.axvline(
        MARKED_DB,
        color="0.4",
        linestyle=":",
        linewidth=1.0,
        label=rf"$\eta = {MARKED_DB:g}$ dB",
    )
    for shares, label, colour, line in curves:
        axes.plot(EDGES_DB, shares, color=colour, linestyle=line, label=label)
        axes.plot(
            MARKED_DB, shares[index], "o", color=colour, markersize=5, clip_on=False
        )
        axes.annotate(
            _format_percent(shares[index]),
            (MARKED_DB, shares[index]),
            xytext=(-6, 6),
            textcoords="offset points",
            ha="right",
            va="bottom",
            color=colour,
        )
    axes.set_ylim(0.0, 1.02)
    axes.set_ylabel(r"Share below $\eta$")
    axes.set_title(
        r"(b) Share of the bins and of their energy below $\eta$", loc="left"
    )
    axes.legend(loc="upper left", frameon=False)


def draw_masks(example: MaskExample) -> Figure:
    """Draw P2, Fig. 3: a power-mel spectrogram, and what masks keep before eq. 10."""
    panels: list[tuple[str, np.ndarray | None]] = [("original", None)]
    for eta, kept in example.kept.items():
        share = _format_percent(example.compute_masked_share(eta))
        panels.append(
            (rf"$\eta_\mathrm{{th}} = {eta:g}$ dB: {share} of the bins masked", kept)
        )
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 1.5 * len(panels) + 0.8), layout="constrained")
        all_axes = figure.subplots(len(panels), 1, sharex=True, sharey=True)
        frames, channels = example.features.shape
        extent = (0.0, frames * example.hop_seconds, -0.5, channels - 0.5)
        for letter, axes, (title, kept) in zip(
            "abcdefgh", all_axes, panels, strict=False
        ):
            shown = np.ma.masked_array(
                example.features, mask=None if kept is None else ~kept
            )
            image = axes.imshow(
                shown.T,
                origin="lower",
                aspect="auto",
                interpolation="nearest",
                extent=extent,
                cmap=matplotlib.colormaps[SPECTRUM].with_extremes(bad=MASKED),
                vmin=float(example.features.min()),
                vmax=float(example.features.max()),
            )
            axes.set_title(f"({letter}) {title}", loc="left")
            axes.set_yticks(range(0, channels, 10))
        figure.supylabel("Mel channel $c$", fontsize=10)
        all_axes[-1].set_xlabel("Time (s)")
        figure.colorbar(
            image,
            ax=all_axes,
            label=r"Power-mel feature $x = e^{1/15}$",
            aspect=50,
            pad=0.015,
        )
        figure.suptitle(
            f"Power-mel spectrogram of {example.utterance}", parse_math=False
        )
        masked = Patch(facecolor=MASKED, edgecolor="0.5", label="masked")
        figure.legend(handles=[masked], loc="upper right", frameon=False)
        return figure


def _format_percent(share: float) -> str:
    """Format a share in percent with one decimal; one too small for that is not 0.

    >>> [_format_percent(share) for share in (0.743, 0.0, 0.00001)]
    ['74.3 %', '0.0 %', '< 0.1 %']
    """
    return "< 0.1 %" if 0.0 < share < 0.0005 else f"{100.0 * share:.1f} %"
