"""Batch renormalisation over the valid frames of a padded batch (Ioffe 2017)."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Ramp:
    """Limit batch renormalisation's correction by the number of updates.

    Limits that grow are of Ioffe, section 3, and the defaults of section 4. For the
    first ``start`` updates it is batch normalisation. Then the limits grow linearly:
    that of the shift d to ``dmax`` after ``shift_end`` updates, that of the factor r to
    ``rmax`` after ``factor_end``.
    """

    start: int = 5000
    shift_end: int = 25000
    factor_end: int = 40000
    rmax: float = 3.0
    dmax: float = 5.0

    def compute_limits(
        self, updates: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the limits of r, at least 1, and of d after some updates.

        The limits are scalars on the device of ``updates``.
        """
        # On the device all along: a number for Python would make a GPU wait each
        # update.
        past = (updates - self.start).double()
        factor_share = past / (self.factor_end - self.start)
        shift_share = past / (self.shift_end - self.start)
        factor = factor_share.clamp(0.0, 1.0)
        shift = shift_share.clamp(0.0, 1.0)
        rmax = 1.0 + (self.rmax - 1.0) * factor
        dmax = self.dmax * shift
        return rmax, dmax


class BatchRenorm(torch.nn.Module):
    """Normalise each channel by the batch's mean and deviation, corrected.

    The correction is towards their running values. With the batch's mean m and
    deviation s, and their running values M and S, a training step computes ``(x - m) /
    s * r + d`` with ``r = s / S`` and ``d = (m - M) / S``, both clipped to their
    limits, without a gradient (Ioffe, algorithm 1). Within the limits that equals ``(x
    - M) / S``, which is what evaluation computes. Without a ramp r is 1 and d is 0:
    batch normalisation. Padding does not count in the statistics, and becomes 0. For
    the first ``1 / momentum`` batches, the running values are plain means over the
    batches, so that their initial values have no effect.
    """

    running_mean: torch.Tensor
    running_deviation: torch.Tensor
    updates: torch.Tensor

    def __init__(
        self,
        size: int,
        ramp: Ramp | None = Ramp(),
        momentum: float = 0.01,
        eps: float = 1e-3,
    ):
        super().__init__()
        self.ramp = ramp
        self.momentum = momentum
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(size))
        self.bias = torch.nn.Parameter(torch.zeros(size))
        # The deviation, not the variance as in torch: Ioffe's r is a ratio of
        # deviations.
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_deviation", torch.ones(size))
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    def forward(
        self, x: torch.Tensor, valid: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Normalise x, (B, T, D).

        ``valid``, (B, T), is False on padded frames; None if there are none.
        """
        frames = x.flatten(0, 1) if valid is None else x[valid]
        weight = self.weight
        bias = self.bias
        if self.training:
            r, d = self._find_correction(frames.detach())
            # ((x - m) / s * r + d) * weight + bias, in one kernel of torch's: batch
            # normalisation whose weight and bias hold the correction, and which keeps
            # no running values of its own
            frames = torch.batch_norm(
                frames,
                weight=weight * r,
                bias=weight * d + bias,
                running_mean=None,
                running_var=None,
                training=True,
                momentum=0.0,
                eps=self.eps,
                cudnn_enabled=torch.backends.cudnn.enabled,
            )
        else:
            # The same in two operations: (x - M) / S * weight + bias.
            scale = weight / self.running_deviation
            offset = bias - self.running_mean * scale
            frames = (frames * scale + offset).to(x.dtype)
        if valid is None:
            return frames.view_as(x)
        return x.new_zeros(x.shape).masked_scatter(valid.unsqueeze(-1), frames)

    @torch.no_grad()
    def _find_correction(
        self, frames: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return r and d of a batch's frames, (D,) each; update the running values."""
        # Half precision is too coarse for sums over thousands of frames.
        exact = torch.promote_types(frames.dtype, torch.float32)
        variance, mean = torch.var_mean(frames.to(exact), dim=0, correction=0)
        deviation = (variance + self.eps).sqrt()
        r = torch.ones_like(deviation)
        d = torch.zeros_like(mean)
        if self.ramp is not None:
            rmax, dmax = self.ramp.compute_limits(self.updates)
            rmax = rmax.to(r)
            dmax = dmax.to(r)
            r = deviation / self.running_deviation
            r = torch.clamp(r, 1.0 / rmax, rmax)
            d = (mean - self.running_mean) / self.running_deviation
            d = torch.clamp(d, -dmax, dmax)
        # After r and d, which are those of the running values before this batch (Ioffe,
        # algorithm 1). 1 / updates at first: a plain mean over the batches so far.
        self.updates += 1
        share = self.updates.to(self.running_mean).reciprocal()
        share = share.clamp(min=self.momentum)
        self.running_mean.lerp_(mean.to(share), share)
        self.running_deviation.lerp_(deviation.to(share), share)
        return r, d
