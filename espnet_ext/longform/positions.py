"""Rotary (Su et al. 2021) and sinusoidal positions (Vaswani et al. 2017)."""

import torch


def compute_angles(
    length: int, width: int, base: float, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Return the angle of each position t at frequency i, (length, width / 2).

    It is ``t * base ** (-2 i / width)``. In double precision: at a position of 40,000,
    single precision would be off by some thousandths of a radian.
    """
    exponents = torch.arange(0, width, 2, device=device, dtype=torch.float64) / width
    places = torch.arange(length, device=device, dtype=torch.float64)
    return torch.outer(places, base**-exponents)


def compute_rotation(
    length: int, width: int, base: float, device: torch.device | str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosine and sine for :func:`rotate`, (length, width / 2) each.

    ``width`` is a head's.
    """
    turned = compute_angles(length, width, base, device)
    # Only now in single precision: sine and cosine are between -1 and 1.
    return turned.cos().float(), turned.sin().float()


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate each pair of dimensions (i, i + d / 2) (P5, section 2.4).

    ``x`` are queries or keys, (B, heads, T, d). ``cosine`` and ``sine`` of each
    position's angles are (T, d / 2). The result has the type of ``x``.
    """
    # Halves, as in GPT-NeoX, not neighbours (2 i, 2 i + 1) as in Su et al.: the same
    # but for the order of dimensions, which the projections before can learn in any
    # order.
    first, second = x.chunk(2, dim=-1)
    turned_first = first * cosine - second * sine
    turned_second = second * cosine + first * sine
    turned = torch.cat((turned_first, turned_second), dim=-1)
    return turned.to(x.dtype)


def compute_sinusoids(
    length: int, size: int, base: float = 1e4, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Return sinusoidal encodings, sine and cosine by turns, (length, size).

    Encodings are added to the scaled input.
    """
    turned = compute_angles(length, size, base, device)
    pairs = torch.stack((turned.sin(), turned.cos()), dim=-1)
    return pairs.flatten(1).float()
