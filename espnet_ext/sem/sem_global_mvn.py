"""``normalize: sem_global_mvn``: global normalisation, then Small Energy Masking.

See P2, Fig. 2.
"""

import math
from pathlib import Path

import torch
from espnet2.layers.global_mvn import GlobalMVN

from espnet_ext.errors import InputError
from espnet_ext.sem.energy_mask import (
    SCALES,
    compute_mask,
    compute_masked_share,
    compute_ratio,
    draw_threshold_db,
    sum_utterances,
)
from espnet_ext.upstream.padding import mark_valid_frames


class SEMGlobalMVN(GlobalMVN):
    """Normalise by global mean and variance, then mask small energies in training.

    This is P2, section 3. The mask is computed from the un-normalised power-mel
    features and applied to the normalised ones. Masked bins become 0, which is the mean
    of the training data (P2, eq. 9); the others are multiplied by r (P2, eq. 11).
    ("Mean subtraction must be applied before masking, otherwise the non-zero values in
    the masked region will distort the model", P2, section 3.) In evaluation this is
    plain ``global_mvn``, so a checkpoint can be decoded with either.

    Args:
        stats_file, norm_means, norm_vars, eps: as of ESPnet's ``global_mvn``.
        eta_min: lower bound of the threshold in dB relative to the utterance's peak,
            eta_a of P2, eq. 6.
        eta_max: upper bound, eta_b. With ``eta_min == eta_max`` the threshold is fixed
            (P2, Table 3).
        scale: features in the two sums of P2, eq. 10. ``power_mel``: the un-normalised
            ones, which are never negative, so that r >= 1. ``normalized``: the
            mean-subtracted ones, as the paper literally says; their sums may be close
            to zero or negative, so r is limited to ``max_scale``, and is 1 if the ratio
            is below 1 or undefined. ``none``: r = 1.
    """

    def __init__(
        self,
        stats_file: Path | str,
        norm_means: bool = True,
        norm_vars: bool = True,
        eps: float = 1.0e-20,
        eta_min: float = -80.0,
        eta_max: float = 0.0,
        scale: str = "power_mel",
        max_scale: float = 10.0,
    ):
        super().__init__(stats_file, norm_means, norm_vars, eps)
        if eta_min > eta_max:
            raise InputError(
                f"sem_global_mvn: eta_min ({eta_min}) is above eta_max ({eta_max})"
            )
        if not (math.isfinite(eta_min) and math.isfinite(eta_max)):
            raise InputError(
                f"sem_global_mvn: eta_min ({eta_min}) and eta_max ({eta_max}) "
                "must be finite; global_mvn masks nothing"
            )
        if scale not in SCALES:
            raise InputError(
                f"sem_global_mvn: scale is '{scale}', it must be one of "
                f"{', '.join(SCALES)}"
            )
        if not max_scale >= 1.0:
            raise InputError(
                f"sem_global_mvn: max_scale is {max_scale}, it must be 1 or more"
            )
        self.features_checked = False
        self.masked: torch.Tensor | None = None
        self.eta_min = eta_min
        self.eta_max = eta_max
        self.scale = scale
        self.max_scale = max_scale

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, eta_min={self.eta_min}, eta_max={self.eta_max}, "
            f"scale={self.scale}"
        )

    def forward(
        self,
        x: torch.Tensor,
        ilens: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalise power-mel features; in training, mask (P2, eq. 12).

        ``x``: not normalised yet, (B, T, C); ``ilens``: (B,). The result is zero on
        padded frames when masked. No ``ilens``: T for all.
        """
        if ilens is None:
            ilens = x.new_full([x.size(0)], x.size(1), dtype=torch.long)
        if not self.training:
            # Otherwise the log of an epoch on dev would show that of the last batch
            # before.
            self.masked = None
            return super().forward(x, ilens)

        if not self.features_checked:
            self._check_features(x, ilens)
        eta_db = draw_threshold_db(x.size(0), self.eta_min, self.eta_max, x.device)
        # a mask of numbers: on a CPU, multiplying by it is several times faster than
        # masked_fill
        mask = compute_mask(x, ilens, eta_db).to(x.dtype)
        self.masked = compute_masked_share(mask, ilens)
        # x is needed after this, since the sums of eq. 10 are over it.
        normalized = self._normalize(x)
        masked = normalized * mask
        if self.scale == "none":
            return masked, ilens
        if self.scale == "power_mel":
            ratio = compute_ratio(
                sum_utterances(x, ilens), sum_utterances(x * mask, ilens)
            )
        else:
            ratio = compute_ratio(
                sum_utterances(normalized, ilens), sum_utterances(masked, ilens)
            )
            ratio = ratio.clamp(max=self.max_scale)
        # The ratio is of sums in float32: under autocast the features are not.
        return masked * ratio.to(masked.dtype)[:, None, None], ilens

    def layer_stats(self) -> dict[str, torch.Tensor]:
        """Return the mean share of masked bins in the last training batch.

        The share is for ``model: espnet_layer_stats``.
        """
        return {} if self.masked is None else {"masked": self.masked}

    def _check_features(self, x: torch.Tensor, ilens: torch.Tensor) -> None:
        """Refuse features that are no powers of energies.

        Features are checked once, since the check makes a GPU wait. SpecAug's time
        warp, which comes before, may go slightly below 0.
        """
        x = x.masked_fill(~mark_valid_frames(ilens, x.size(1)).unsqueeze(-1), 0.0)
        if x.min() < -0.1 * x.abs().max():
            raise InputError(
                f"sem_global_mvn: features as low as {float(x.min()):.3g} are not "
                "powers of energies: "
                "use frontend: power_mel"
            )
        self.features_checked = True

    def _normalize(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise as GlobalMVN does, but not in place and without masking padding.

        SEM's mask does that.
        """
        if self.norm_means:
            x = x - self.mean.to(x.device, x.dtype)
        return x / self.std.to(x.device, x.dtype) if self.norm_vars else x
