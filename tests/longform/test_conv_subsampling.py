"""The subsampling against its convolutions written out, and its lengths."""

import math

import pytest
import torch

from espnet_ext.longform import conv_subsampling
from espnet_ext.longform.conv_subsampling import ConvSubsampling


def convolved(x: torch.Tensor, conv: torch.nn.Conv2d) -> torch.Tensor:
    """A 3 x 3 convolution with stride 2 as a sum over shifted copies.

    x: (C, T, F) without padding.
    """
    channels, frames, bins = x.shape
    padded = x.new_zeros(channels, frames + 2, bins + 2)
    padded[:, 1:-1, 1:-1] = x
    out = (
        conv.bias[:, None, None]
        .expand(-1, math.ceil(frames / 2), math.ceil(bins / 2))
        .clone()
    )
    for i in range(3):
        for j in range(3):
            part = padded[:, i : i + frames : 2, j : j + bins : 2]
            if conv.groups > 1:
                out += conv.weight[:, 0, i, j, None, None] * part
            else:
                out += torch.einsum("oc,ctf->otf", conv.weight[:, :, i, j], part)
    return out


def subsampled(module: ConvSubsampling, x: torch.Tensor) -> torch.Tensor:
    x = x.unsqueeze(0)
    for stage in module.stages:
        x = convolved(x, stage[0])
        if len(stage) == 3:
            x = (
                torch.einsum("oc,ctf->otf", stage[1].weight[:, :, 0, 0], x)
                + stage[1].bias[:, None, None]
            )
        x = x / (1 + (-x).exp())
    return module.projection(x.transpose(0, 1).flatten(1))


@pytest.mark.parametrize(
    ("stages", "separable", "bins"), [(3, True, 13), (2, False, 10), (1, True, 10)]
)
@pytest.mark.parametrize("gradients", [True, False])
def test_is_its_convolutions_and_padding_does_not_reach_it(
    stages, separable, bins, gradients, monkeypatch
):
    """Also without gradients, in blocks of two frames."""
    torch.manual_seed(0)
    monkeypatch.setattr(conv_subsampling, "BLOCK", 2)
    module = ConvSubsampling(bins, 5, 6, stages, separable).double()
    lengths = [41, 40, 16, 9, 8, 1]
    x = torch.randn(len(lengths), 41, bins).double()
    with torch.set_grad_enabled(gradients):
        out, out_lengths = module(x, torch.tensor(lengths))
    factor = 2**stages
    assert out_lengths.tolist() == [math.ceil(length / factor) for length in lengths]
    assert out.shape == (len(lengths), math.ceil(41 / factor), 5)
    for row, utterance, length, out_length in zip(
        out, x, lengths, out_lengths.tolist(), strict=True
    ):
        torch.testing.assert_close(
            row[:out_length], subsampled(module, utterance[:length])
        )
