"""``normalize: dropout_global_mvn``: global normalisation, then input dropout.

It is what SEM is compared with (P2, section 1 and Table 4).
"""

from pathlib import Path

import torch
from espnet2.layers.global_mvn import GlobalMVN

from espnet_ext.errors import InputError
from espnet_ext.sem.energy_mask import compute_masked_share
from espnet_ext.upstream.padding import mark_valid_frames


class DropoutGlobalMVN(GlobalMVN):
    """Normalise by global mean and variance, then drop single bins in training.

    Bins are those of time and frequency (P2, section 1). The other bins are scaled by
    ``1 / (1 - dropout_rate)``. In evaluation this is plain ``global_mvn``.
    """

    def __init__(
        self,
        stats_file: Path | str,
        norm_means: bool = True,
        norm_vars: bool = True,
        eps: float = 1.0e-20,
        dropout_rate: float = 0.1,
    ):
        super().__init__(stats_file, norm_means, norm_vars, eps)
        if not 0.0 <= dropout_rate < 1.0:
            raise InputError(
                f"dropout_global_mvn: dropout_rate is {dropout_rate}, it must be "
                "in [0, 1)"
            )
        self.dropout_rate = dropout_rate
        self.masked: torch.Tensor | None = None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, dropout_rate={self.dropout_rate}"

    def forward(
        self,
        x: torch.Tensor,
        ilens: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalise features, (B, T, C), with lengths, (B,); drop bins in training."""
        if ilens is None:
            ilens = x.new_full([x.size(0)], x.size(1), dtype=torch.long)
        normalized, ilens = super().forward(x, ilens)
        if not self.training:
            self.masked = None
            return normalized, ilens
        # Dropout of ones, since dropout of features would hide which zeros it made.
        mask = torch.nn.functional.dropout(
            torch.ones_like(normalized), self.dropout_rate
        )
        # The share is one of valid bins, so that padding must count as not kept.
        valid = mark_valid_frames(ilens, x.size(1)).unsqueeze(-1)
        self.masked = compute_masked_share(mask * valid, ilens)
        return normalized * mask, ilens

    def layer_stats(self) -> dict[str, torch.Tensor]:
        """Return the share of dropped bins in the last training batch.

        The share is for ``model: espnet_layer_stats``.
        """
        return {} if self.masked is None else {"masked": self.masked}
