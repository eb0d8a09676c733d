"""Small Energy Masking on plain tensors: peak, threshold, mask and scale (P2, section 3).

All functions take power-mel features ``x = e ** (1 / 15)`` instead of the filterbank energies ``e`` of the paper. The power is
strictly increasing for ``e >= 0``, so that percentiles and comparisons carry over: ``e < e_peak * 10 ** (eta / 10)`` holds exactly
where ``x < x_peak * 10 ** (eta / 150)`` does.
"""

import math

import torch

POWER = 15.0
PEAK_PERCENTILE = 95.0
SCALES = ("power_mel", "normalized", "none")


def valid_frames(lengths: torch.Tensor, max_length: int) -> torch.Tensor:
    """Tell frames from padding.

    Args:
        lengths: number of frames of each utterance, (B,).
        max_length: number of frames of the padded batch, T.

    Returns:
        True where a frame belongs to its utterance, (B, T).
    """
    return torch.arange(max_length, device=lengths.device) < lengths.unsqueeze(1)


def peak(x: torch.Tensor, lengths: torch.Tensor, percentile: float = PEAK_PERCENTILE) -> torch.Tensor:
    """The percentile of each utterance's time-frequency bins (P2, eq. 2), padding left out.

    It is the nearest-rank percentile (numpy's ``inverted_cdf``), an element of the utterance itself: unlike an interpolated one it
    is the same bin for ``x`` and for the energies.

    Args:
        x: features, (B, T, C).
        lengths: number of frames, (B,), at least 1 each.

    Returns:
        Peak of each utterance, (B,).
    """
    peaks = []
    for features, length in zip(x, lengths.tolist(), strict=True):
        bins = features[:length].reshape(-1)
        rank = max(1, math.ceil(percentile / 100.0 * bins.numel()))
        peaks.append(bins.kthvalue(rank).values)
    return torch.stack(peaks)


def draw_threshold_db(batch_size: int, eta_min: float, eta_max: float, device: torch.device | str) -> torch.Tensor:
    """Draw ``eta_th ~ U(eta_min, eta_max)`` in dB for each utterance from torch's generator (P2, eq. 6). Returns (B,)."""
    return eta_min + (eta_max - eta_min) * torch.rand(batch_size, device=device)


def small_energy_mask(x: torch.Tensor, lengths: torch.Tensor, eta_db: torch.Tensor) -> torch.Tensor:
    """The mask of P2, eq. 7 and 8, taken on the power-mel features.

    Args:
        x: un-normalised power-mel features, non-negative, (B, T, C).
        lengths: number of frames, (B,).
        eta_db: threshold relative to the peak in dB, (B,).

    Returns:
        True where a bin is kept, (B, T, C). The value on padded frames has no meaning.
    """
    threshold = peak(x, lengths) * 10.0 ** (eta_db.to(x.dtype) / (10.0 * POWER))
    return x >= threshold[:, None, None]


def sum_ratio(x: torch.Tensor, masked: torch.Tensor) -> torch.Tensor:
    """The scaling coefficient r of P2, eq. 10: sum of ``x`` over sum of ``masked`` in each utterance.

    Both must be zero on padded frames. Where the ratio means nothing, r is 1: the utterance is silent, everything is masked, or the
    sums of features with both signs give a ratio below 1 (r makes up for what was taken away, so it cannot be).

    Args:
        x: features before masking, (B, T, C).
        masked: the same after masking, (B, T, C).

    Returns:
        r >= 1, (B,), always finite.
    """
    total = x.sum(dim=(1, 2))
    rest = masked.sum(dim=(1, 2))
    ratio = total / rest
    return torch.where(torch.isfinite(ratio) & (ratio >= 1.0), ratio, torch.ones_like(ratio))
