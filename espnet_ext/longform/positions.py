"""Encodings of positions: rotary (Su et al. 2021) and sinusoidal (Vaswani et al. 2017).
"""

import torch


def angles(
    length: int, width: int, base: float, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Return the angle of position t at frequency i, ``t * base ** (-2 i / width)``,
    (length, width / 2).

    In double precision: at a position of 40,000, single precision would be off by some
    thousandths of a radian.
    """
    exponents = torch.arange(0, width, 2, device=device, dtype=torch.float64) / width
    return torch.outer(
        torch.arange(length, device=device, dtype=torch.float64), base**-exponents
    )


def rotation(
    length: int, width: int, base: float, device: torch.device | str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosine and sine of rotary encodings, (length, width / 2) each, for
    :func:`rotate`; ``width``: a head's.
    """
    turned = angles(length, width, base, device)
    return turned.cos().float(), turned.sin().float()


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate each pair of dimensions (i, i + d / 2) of queries or keys, (B, heads, T,
    d) (P5, section 2.4).

    ``cosine`` and ``sine`` of each position's angles are (T, d / 2). The result has the
    type of ``x``.
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat(
        (first * cosine - second * sine, second * cosine + first * sine), dim=-1
    ).to(x.dtype)


def sinusoids(
    length: int, size: int, base: float = 1e4, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Return sinusoidal encodings, sine and cosine by turns, (length, size); they are
    added to the scaled input.
    """
    turned = angles(length, size, base, device)
    return torch.stack((turned.sin(), turned.cos()), dim=-1).flatten(1).float()
