"""Subsample by stride-2 convolutions that padding does not affect.

They are depthwise separable or full.
"""

import torch

from espnet_ext.upstream.padding import mark_valid_frames

KERNEL = 3
# Frames of output at a time, without gradients: what the first stage gives then fits
# into the processor's caches.
BLOCK = 64


class ConvSubsampling(torch.nn.Module):
    """Apply convolutions of 3 x 3 with stride 2, each with a SiLU, and a projection.

    The strides are over time and features. With ``separable``, all but the first are
    depthwise convolutions followed by 1 x 1 convolutions: the subsampling of
    FastConformer (P5, section 2.1; Rekesh et al. 2023). Otherwise they are full
    convolutions, as in Conformer. P5 names no nonlinearity; its published models have
    SiLU, and no bias in the projection. Padded frames are set to 0 before each
    convolution, like those beyond the end of the batch. Time is subsampled by ``2 **
    stages``.
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        channels: int,
        stages: int,
        separable: bool,
    ):
        super().__init__()
        self.stages = torch.nn.ModuleList(
            _make_stage(
                1 if stage == 0 else channels, channels, separable and stage > 0
            )
            for stage in range(stages)
        )
        width = input_size
        for _ in range(stages):
            width = halve(width)
        self.projection = torch.nn.Linear(channels * width, output_size, bias=False)

    def forward(
        self, x: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Subsample features, (B, T, F), of lengths (B,), the longest T.

        Returns (B, T', D) and lengths, ``ceil(length / 2 ** stages)``.
        """
        unit = 2 ** len(self.stages)
        # Backpropagation needs what all stages give, so that blocks would save nothing.
        size = x.size(1) if torch.is_grad_enabled() else BLOCK * unit
        parts = []
        for start in range(0, x.size(1), size):
            # A frame depends on fewer than ``unit`` frames before its own: the block
            # begins one frame earlier.
            begin = max(0, start - unit)
            part = self._subsample(x[:, begin : start + size], lengths - begin)
            parts.append(part[:, (start - begin) // unit :])
        for _ in self.stages:
            lengths = halve(lengths)
        return torch.cat(parts, dim=1), lengths

    def _subsample(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Subsample features, (B, T, F), at once: (B, T', D)."""
        is_padded = bool(lengths.min() < x.size(1))
        x = x.unsqueeze(1)  # (B, channels, T, F)
        for stage in self.stages:
            # A bias makes something of silence: padding has to be cleared at each
            # stage.
            if is_padded:
                x = x * mark_valid_frames(lengths, x.size(2))[:, None, :, None]
            x = stage(x)
            lengths = halve(lengths)
        return self.projection(x.transpose(1, 2).flatten(2))


def halve[Length: (int, torch.Tensor)](length: Length) -> Length:
    """Return the length after a stride of 2, ``ceil(length / 2)``."""
    return (length + 1) // 2


def _make_stage(inputs: int, channels: int, separable: bool) -> torch.nn.Sequential:
    if separable:
        convolutions = [
            torch.nn.Conv2d(
                channels, channels, KERNEL, stride=2, padding=1, groups=channels
            ),
            torch.nn.Conv2d(channels, channels, 1),
        ]
    else:
        convolutions = [torch.nn.Conv2d(inputs, channels, KERNEL, stride=2, padding=1)]
    return torch.nn.Sequential(*convolutions, torch.nn.SiLU(inplace=True))
