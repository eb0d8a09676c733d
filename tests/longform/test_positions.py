"""Encodings of positions against complex numbers and against ESPnet's own."""

import math

import pytest
import torch
from espnet2.legacy.nets.pytorch_backend.transformer.embedding import PositionalEncoding

from espnet_ext.longform.positions import compute_rotation, compute_sinusoids, rotate


@pytest.mark.parametrize("base", [1e4, 1.5e6])
def test_rotates_as_complex_numbers_do(base):
    x = torch.randn(2, 3, 50, 8, generator=torch.Generator().manual_seed(0))
    out = rotate(x, *compute_rotation(50, 8, base))
    for pair in range(4):
        turn = torch.tensor(
            [
                complex(math.cos(a), math.sin(a))
                for a in (t * base ** (-pair / 4) for t in range(50))
            ]
        )
        expected = torch.complex(x[..., pair], x[..., pair + 4]) * turn
        torch.testing.assert_close(
            torch.complex(out[..., pair], out[..., pair + 4]), expected
        )


def test_sinusoids_are_espnets():
    encoding = PositionalEncoding(12, dropout_rate=0.0, max_len=60)
    torch.testing.assert_close(
        compute_sinusoids(60, 12), encoding.pe[0, :60], atol=1e-5, rtol=0
    )
