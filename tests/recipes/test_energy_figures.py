"""What the figures show: the right data, labelled axes, thresholds, and masked bins
that differ from dark ones.
"""

import numpy as np
import pytest
import torch
from energy_figures import MASKED, choose_shown_range, draw_distribution, draw_masks
from matplotlib.colors import to_rgba

from espnet_ext.sem.energy_statistics import (
    EDGES_DB,
    EnergyHistogram,
    MaskExample,
    count_bins,
    find_edge,
)


def histogram() -> EnergyHistogram:
    energies = 10.0 ** (np.random.default_rng(0).normal(-30.0, 15.0, (500, 40)) / 10.0)
    return count_bins(torch.from_numpy(energies.astype(np.float32)))


def example() -> MaskExample:
    features = np.random.default_rng(0).uniform(0.4, 1.3, (120, 40)).astype(np.float32)
    kept = {-20.0: features >= 0.8, 0.0: features >= 1.2}
    return MaskExample("spk_$1-$2", features, kept, hop_seconds=0.01)


def texts(figure) -> str:
    figure.canvas.draw()
    return "\n".join(item.get_text() for axes in figure.axes for item in axes.texts)


def test_distribution_shows_density_and_both_shares():
    shown = histogram()
    figure = draw_distribution(shown, "toy")
    upper, lower = figure.axes
    np.testing.assert_allclose(upper.lines[0].get_ydata(), shown.compute_density())
    curves = {
        line.get_label(): line
        for line in lower.lines
        if len(line.get_xdata()) == len(EDGES_DB)
    }
    bins, energy = curves.values()
    np.testing.assert_allclose(bins.get_ydata(), shown.compute_share_below())
    np.testing.assert_allclose(energy.get_ydata(), shown.compute_energy_below())
    assert [text.get_text() for text in lower.get_legend().get_texts()] == [
        r"$\eta = -20$ dB",
        *curves,
    ]
    assert f"{100 * shown.compute_share_below()[find_edge(-20.0)]:.1f} %" in texts(
        figure
    )
    assert "1/dB" in upper.get_ylabel()
    assert "(dB)" in lower.get_xlabel()
    assert "toy: 1 utterances, 20,000 bins" in figure.get_suptitle()


def test_range_is_at_least_the_papers_and_hides_next_to_nothing():
    energies = torch.full((100, 40), 1e-11)
    energies[:20] = 1.0
    lowest, highest = choose_shown_range(count_bins(energies))
    assert (lowest, highest) == (-120.0, 10.0)
    wide = histogram()
    lowest, highest = choose_shown_range(wide)
    assert lowest <= -90.0
    assert highest >= 10.0
    assert wide.compute_energy_below()[find_edge(highest)] >= 0.995


def test_masks_show_the_spectrogram_and_what_is_left_of_it():
    shown = example()
    figure = draw_masks(shown)
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 3
    original, first, _ = (axes.images[0] for axes in panels)
    np.testing.assert_array_equal(np.asarray(original.get_array()), shown.features.T)
    np.testing.assert_array_equal(
        np.ma.getmaskarray(first.get_array()), ~shown.kept[-20.0].T
    )
    assert {image.get_clim() for image in (original, first)} == {
        (shown.features.min(), shown.features.max())
    }
    assert original.get_extent()[:2] == pytest.approx([0.0, 1.2])
    assert tuple(first.cmap.get_bad()) == to_rgba(MASKED)
    assert f"{100 * shown.compute_masked_share(0.0):.1f} %" in panels[2].get_title(
        loc="left"
    )
    assert panels[2].get_xlabel() == "Time (s)"
