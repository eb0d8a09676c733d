"""Find whether the GPU that is there computes in bfloat16: from capability 8.0 on.

A100 and RTX 30 have it. Older ones (V100, T4, RTX 20) compute it by emulation, more
slowly than float32, and PyTorch says that they support it.
"""

from typing import TYPE_CHECKING

from espnet_ext.errors import warn

if TYPE_CHECKING:
    import torch

BFLOAT16_CAPABILITY = (8, 0)


def find_emulation(device: "str | torch.device") -> str | None:
    """Find the name and capability of a GPU that has no bfloat16 of its own.

    None for one that has, and for other devices.
    """
    import torch

    # AMD's GPUs are "cuda", too, with capabilities of their own.
    if torch.device(device).type != "cuda" or torch.version.cuda is None:
        return None
    capability = torch.cuda.get_device_capability(device)
    if capability >= BFLOAT16_CAPABILITY:
        return None
    major, minor = capability
    return f"{torch.cuda.get_device_name(device)} has {major}.{minor}"


def has_bfloat16(device: "str | torch.device", what: str) -> bool:
    """Tell whether ``what``, a setting, can have bfloat16.

    Where a GPU emulates it, a warning says that float32 is used.
    """
    emulated = find_emulation(device)
    if emulated is not None:
        needed = ".".join(map(str, BFLOAT16_CAPABILITY))
        warn(
            f"{what}: bfloat16 needs a GPU of capability {needed}, and {emulated}: "
            "float32 is used"
        )
    return emulated is None
