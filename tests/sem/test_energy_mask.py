"""Small Energy Masking's parts against P2, section 3, on energies in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.sem import energy_mask


def energies(batch: int, frames: int, channels: int, seed: int = 0) -> np.ndarray:
    """Draw filterbank energies over some 100 dB, (B, T, C), float64."""
    random = np.random.default_rng(seed)
    return 10.0 ** random.normal(-4.0, 2.0, (batch, frames, channels))


def masks_of_the_paper(
    e: np.ndarray, lengths: list[int], eta_db: np.ndarray
) -> list[np.ndarray]:
    """Eq. 2, 7 and 8 for each utterance alone."""
    masks = []
    for utterance, length, eta in zip(e, lengths, eta_db, strict=True):
        e_peak = np.percentile(utterance[:length], 95, method="inverted_cdf")
        masks.append(utterance[:length] >= e_peak * 10.0 ** (eta / 10.0))
    return masks


@pytest.mark.parametrize(
    "eta_range", [(-80.0, 0.0), (-20.0, 0.0), (0.0, 5.0), (-80.0, -80.0)]
)
def test_mask_on_features_equals_equations_6_to_8_on_energies(eta_range):
    lengths = [120, 77, 33, 2, 1]
    e = energies(5, 120, 40)
    eta = energy_mask.draw_threshold_db(5, *eta_range, "cpu")
    x = torch.from_numpy(e ** (1 / 15))
    kept = energy_mask.compute_mask(x, torch.tensor(lengths), eta)
    expected = masks_of_the_paper(e, lengths, eta.double().numpy())
    for row, length, mask in zip(kept, lengths, expected, strict=True):
        np.testing.assert_array_equal(row[:length].numpy(), mask)
    assert any(mask.any() and not mask.all() for mask in expected)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.integers(1, 41),
    st.integers(0, 2**31),
)
@settings(max_examples=40)
def test_peak_is_numpys_nearest_rank(lengths, channels, seed):
    shape = (len(lengths), max(lengths) + 2, channels)
    # rounding makes ties
    x = np.random.default_rng(seed).uniform(0, 2, shape).round(2)
    expected = []
    for row, length in zip(x, lengths, strict=True):
        expected.append(np.percentile(row[:length], 95, method="inverted_cdf"))
    tensor = torch.from_numpy(x)
    frames = torch.tensor(lengths)
    assert energy_mask.find_peak(tensor, frames).tolist() == expected
    # the way of an accelerator, on this machine's tensors
    bins = frames * channels
    ranks = (95 * bins + 99) // 100
    found = energy_mask._find_peak_by_sorting(tensor, bins, ranks)
    assert found.tolist() == expected


def test_thresholds_are_uniform_within_the_range_and_reproducible():
    torch.manual_seed(3)
    eta = energy_mask.draw_threshold_db(20000, -80.0, 0.0, "cpu")
    torch.manual_seed(3)
    assert torch.equal(eta, energy_mask.draw_threshold_db(20000, -80.0, 0.0, "cpu"))
    assert not torch.equal(eta, energy_mask.draw_threshold_db(20000, -80.0, 0.0, "cpu"))
    assert eta.min() >= -80.0 and eta.max() <= 0.0
    counts, _ = np.histogram(eta.numpy(), bins=8, range=(-80.0, 0.0))
    # each of eight equal parts holds 2500 +- 5 standard deviations
    assert np.abs(counts - 2500).max() < 5 * math.sqrt(20000 * 7 / 64)
