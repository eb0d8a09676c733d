"""Find whether the device that is there computes in bfloat16.

Of Nvidia's GPUs, those of capability 8.0 and higher do, such as A100 and RTX 30. Older
ones (V100, T4, RTX 20) compute it by emulation, more slowly than float32, and PyTorch
says that they support it. A CPU needs AVX-512, which runs of recipes use only if asked
to (``utils/path.sh``).
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

    Where a GPU emulates it, a warning says that float32 is used. A CPU that emulates it
    does as it is told, and a warning says that float32 is faster.
    """
    emulated = find_emulation(device)
    if emulated is not None:
        needed = ".".join(map(str, BFLOAT16_CAPABILITY))
        warn(
            f"{what}: bfloat16 needs a GPU of capability {needed}, and {emulated}: "
            "float32 is used"
        )
        return False
    if _is_slow_cpu(device):
        warn(
            f"{what}: this processor emulates bfloat16, or this run keeps to AVX2: "
            "float32 is some four times as fast"
        )
    return True


def _is_slow_cpu(device: "str | torch.device") -> bool:
    """Tell whether a device is a CPU whose products in bfloat16 oneDNN emulates."""
    import torch

    if torch.device(device).type != "cpu":
        return False
    # oneDNN's own answer, which follows ONEDNN_MAX_CPU_ISA. PyTorch's
    # torch.cpu._is_avx512_bf16_supported() says what the processor has, not what is
    # used.
    return not torch.ops.mkldnn._is_mkldnn_bf16_supported()
