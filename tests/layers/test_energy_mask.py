"""Small Energy Masking's parts against P2, section 3, on the energies in double precision."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.layers import energy_mask


def energies(batch: int, frames: int, channels: int, seed: int = 0) -> np.ndarray:
    """Filterbank energies over some 100 dB, (B, T, C), float64."""
    return 10.0 ** (np.random.default_rng(seed).normal(-4.0, 2.0, (batch, frames, channels)))


def masks_of_the_paper(e: np.ndarray, lengths: list[int], eta_db: np.ndarray) -> list[np.ndarray]:
    """Eq. 2, 7 and 8 for each utterance alone."""
    masks = []
    for utterance, length, eta in zip(e, lengths, eta_db, strict=True):
        e_peak = np.percentile(utterance[:length], 95, method="inverted_cdf")
        masks.append(utterance[:length] >= e_peak * 10.0 ** (eta / 10.0))
    return masks


@pytest.mark.parametrize("eta_range", [(-80.0, 0.0), (-20.0, 0.0), (0.0, 5.0), (-80.0, -80.0)])
def test_mask_on_features_equals_equations_6_to_8_on_energies(eta_range):
    lengths = [120, 77, 33, 2, 1]
    e = energies(5, 120, 40)
    eta = energy_mask.draw_threshold_db(5, *eta_range, "cpu")
    kept = energy_mask.small_energy_mask(torch.from_numpy(e ** (1 / 15)), torch.tensor(lengths), eta)
    expected = masks_of_the_paper(e, lengths, eta.double().numpy())
    for row, length, mask in zip(kept, lengths, expected, strict=True):
        np.testing.assert_array_equal(row[:length].numpy(), mask)
    assert any(mask.any() and not mask.all() for mask in expected)


def test_bin_at_the_threshold_is_kept():
    """Eq. 8 has e >= e_th; at 0 dB the threshold is the peak itself."""
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        x = torch.from_numpy(energies(1, 50, 40) ** (1 / 15)).to(dtype)
        peak = energy_mask.peak(x, torch.tensor([50]))
        kept = energy_mask.small_energy_mask(x, torch.tensor([50]), torch.zeros(1))
        assert kept[x == peak].all() and kept.sum() >= 0.05 * x.numel()
        assert torch.equal(kept, x >= peak)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_low_precision_gives_the_mask_of_its_own_values(dtype):
    """The features are what they are; threshold and comparison must not round any further than float32 does."""
    x = torch.from_numpy(energies(4, 200, 40) ** (1 / 15)).to(dtype)
    eta = torch.tensor([-33.3, -7.1, -61.0, -0.7])
    lengths = [200, 150, 3, 70]
    kept = energy_mask.small_energy_mask(x, torch.tensor(lengths), eta)
    for row, utterance, length, decibels in zip(kept, x.double().numpy(), lengths, eta.tolist(), strict=True):
        threshold = np.percentile(utterance[:length], 95, method="inverted_cdf") * 10.0 ** (decibels / 150.0)
        apart = np.abs(utterance[:length] / threshold - 1.0) > 1e-6
        assert apart.mean() > 0.99
        np.testing.assert_array_equal(row[:length].numpy()[apart], (utterance[:length] >= threshold)[apart])


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(1, 41), st.integers(0, 2**31))
@settings(max_examples=40)
def test_peak_is_numpys_nearest_rank(lengths, channels, seed):
    # rounding makes ties
    x = np.random.default_rng(seed).uniform(0, 2, (len(lengths), max(lengths) + 2, channels)).round(2)
    expected = [
        np.percentile(utterance[:length], 95, method="inverted_cdf")
        for utterance, length in zip(x, lengths, strict=True)
    ]
    tensor, frames = torch.from_numpy(x), torch.tensor(lengths)
    assert energy_mask.peak(tensor, frames).tolist() == expected
    # the way of an accelerator, on this machine's tensors
    bins = frames * channels
    assert energy_mask._peak_by_sorting(tensor, bins, (95 * bins + 99) // 100).tolist() == expected


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


def test_sums_leave_padding_out_and_do_not_overflow():
    x = torch.ones(2, 3000, 40)
    x[1, 10:] = torch.nan
    lengths = torch.tensor([3000, 10])
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert energy_mask.utterance_sums(x.to(dtype), lengths).tolist() == [120000.0, 400.0]


def test_ratio():
    total = torch.tensor([10.0, 10.0, 0.0, 5.0, 3.0, -6.0, 4.0])
    rest = torch.tensor([10.0, 4.0, 0.0, 0.0, -1.0, -2.0, 8.0], requires_grad=True)
    ratio = energy_mask.sum_ratio(total, rest)
    assert ratio.tolist() == [1.0, 2.5, 1.0, 1.0, 1.0, 3.0, 1.0]
    ratio.sum().backward()
    assert torch.isfinite(rest.grad).all()
