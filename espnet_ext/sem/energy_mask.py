"""Small Energy Masking on plain tensors: peak, threshold, mask, scale (P2, section 3).

All functions take power-mel features ``x = e ** (1 / 15)`` instead of the energies
``e`` of the paper. The power is strictly increasing, so percentiles and comparisons
agree: ``e < e_peak * 10 ** (eta / 10)`` exactly where
``x < x_peak * 10 ** (eta / 150)``.
"""

import numpy as np
import torch

from espnet_ext.upstream.padding import mark_valid_frames

POWER = 1.0 / 15.0  # exponent of the power-law nonlinearity
PEAK_PERCENTILE = 95
SCALES = ("power_mel", "normalized", "none")


def find_peak(
    x: torch.Tensor,
    lengths: torch.Tensor,
) -> torch.Tensor:
    """Return the 95th percentile of each utterance's bins, (B,) (P2, eq. 2).

    ``x``: (B, T, C); ``lengths``: (B,). It is the nearest-rank percentile (numpy's
    ``inverted_cdf``), which is one of the utterance's bins. Unlike an interpolated
    percentile, it is the same bin for ``x`` and for the energies. No gradient flows
    through it.
    """
    x = x.detach()
    bins = lengths * x.size(2)
    # Rounded up in integers, which is exact for any number of bins.
    ranks = (PEAK_PERCENTILE * bins + 99) // 100
    # numpy's partial sort is several times faster than torch's kthvalue on a CPU; see
    # tests/benchmarks
    if x.device.type == "cpu":
        return _find_peak_by_partition(x, bins, ranks)
    return _find_peak_by_sorting(x, bins, ranks)


def _find_peak_by_partition(
    x: torch.Tensor,
    bins: torch.Tensor,
    ranks: torch.Tensor,
) -> torch.Tensor:
    # numpy has no bfloat16; float32 holds every half-precision number exactly
    values = x.to(_promote_type(x)).flatten(1).numpy()
    peaks = []
    places = zip(values, bins.tolist(), ranks.tolist(), strict=True)
    for utterance, count, rank in places:
        # ranks count from 1
        peaks.append(np.partition(utterance[:count], rank - 1)[rank - 1])
    return torch.tensor(peaks, dtype=x.dtype)


def _find_peak_by_sorting(
    x: torch.Tensor,
    bins: torch.Tensor,
    ranks: torch.Tensor,
) -> torch.Tensor:
    # one kernel for the batch, without waiting for lengths from the accelerator;
    # padding is sorted last
    values = x.flatten(1)
    padding = ~mark_valid_frames(bins, values.size(1))
    values, _ = values.masked_fill(padding, torch.inf).sort(dim=1)
    # ranks count from 1
    places = ranks.unsqueeze(1) - 1
    return values.gather(1, places).squeeze(1)


def draw_threshold_db(
    batch_size: int,
    eta_min: float,
    eta_max: float,
    device: torch.device | str,
) -> torch.Tensor:
    """Draw ``eta_th ~ U(eta_min, eta_max)`` (P2, eq. 6) in dB, (B,).

    Each utterance has its own, from torch's generator.
    """
    return eta_min + (eta_max - eta_min) * torch.rand(batch_size, device=device)


def compute_mask(
    x: torch.Tensor,
    lengths: torch.Tensor,
    eta_db: torch.Tensor,
) -> torch.Tensor:
    """Return the mask of P2, eq. 8: True where a bin stays, (B, T, C).

    The threshold is that of P2, eq. 7. It is False on padding. ``x``: un-normalised
    power-mel features, not negative, (B, T, C); ``eta_db``: threshold in dB from the
    peak, (B,).
    """
    precise = _promote_type(x)
    # dB of energies, as a factor of their POWER
    exponent = eta_db.to(precise) * (POWER / 10.0)
    threshold = find_peak(x, lengths).to(precise) * 10.0**exponent
    # Nothing reaches a threshold of NaN: (B, T) of them cost less than a second mask of
    # (B, T, C).
    padding = ~mark_valid_frames(lengths, x.size(1))
    by_frame = threshold.unsqueeze(1).masked_fill(padding, torch.nan)
    # A bin at the threshold stays (P2, eq. 8): with eta = 0 the peak does.
    return x >= by_frame.unsqueeze(2)


def compute_masked_share(
    mask: torch.Tensor,
    lengths: torch.Tensor,
) -> torch.Tensor:
    """Return the share of bins that a mask removes, the mean over utterances.

    ``mask``: (B, T, C), 0 on padding too; ``lengths``: (B,).
    """
    bins = lengths * mask.size(2)
    kept = (mask != 0).sum(dim=(1, 2))
    return 1.0 - (kept / bins).mean()


def sum_utterances(
    x: torch.Tensor,
    lengths: torch.Tensor,
) -> torch.Tensor:
    """Sum each utterance's bins without padding, in float32 or better, (B,).

    ``x``: (B, T, C); ``lengths``: (B,).
    """
    frames = x.sum(dim=2, dtype=_promote_type(x))
    padding = ~mark_valid_frames(lengths, x.size(1))
    return frames.masked_fill(padding, 0.0).sum(dim=1)


def compute_ratio(
    total: torch.Tensor,
    rest: torch.Tensor,
) -> torch.Tensor:
    """Return the scaling coefficient r >= 1 of P2, eq. 10, (B,).

    ``total`` and ``rest``: sums before and after masking, (B,) each. r and its gradient
    are finite. It is 1 where the ratio is meaningless: the utterance is silent,
    everything is masked, or sums of features with both signs give a ratio below 1 (r
    compensates for what was removed, so it cannot be smaller).
    """
    # Not only replaced after the division: the gradient of an unused infinity is NaN.
    ratio = total / rest.masked_fill(rest == 0.0, 1.0)
    usable = torch.isfinite(ratio) & (rest != 0.0)
    usable &= ratio >= 1.0
    return ratio.masked_fill(~usable, 1.0)


def _promote_type(x: torch.Tensor) -> torch.dtype:
    """Return float32, or float64 for float64.

    Half precision is too coarse for an utterance's sums and thresholds.
    """
    return torch.promote_types(x.dtype, torch.float32)
