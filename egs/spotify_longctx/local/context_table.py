"""P5's Table 1: longest context in training and speed, for two kinds of subsampling, without and with flash."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from context_cost import (
    BANDS,
    Attention,
    ctc_model,
    fits_counted,
    fits_on_device,
    frames_per_second,
    longest_context,
)
from tabulate import tabulate

from espnet_ext.encoder.long_fastconformer import LongFastConformerEncoder
from espnet_ext.errors import InputError

# Minutes and frames per second on an A100 of 80 GB, without and with flash attention.
PAPER = {
    "conformer": {"minutes": (9, 23), "frames_per_second": (30200, 57300)},
    "fastconformer": {"minutes": (18, 70), "frames_per_second": (57650, 80900)},
}


def measure(
    encoder_conf: Mapping[str, Any],
    device: str | None,
    memory_gb: float,
    seconds: float,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure all four systems.

    Args:
        encoder_conf: options of ``long_fastconformer``; the subsampling is replaced.
        device: "cpu" or "cuda"; None: an accelerator if there is one.
        memory_gb: memory for which the longest context is counted on a CPU, in 10^9 bytes.
        seconds: length of the input whose speed is measured.
        tell: is called with a line after each system, which may take minutes.

    Returns:
        The name of the device, and rows with ``minutes`` and ``frames_per_second``, each with the paper's.

    Raises:
        InputError: "cuda" where there is none.
    """
    has_accelerator = torch.cuda.is_available()
    if device == "cuda" and not has_accelerator:
        raise InputError("--device cuda: torch finds no accelerator: leave the option out to count on the CPU")
    device = device or ("cuda" if has_accelerator else "cpu")
    rows = []
    for subsampling, paper in PAPER.items():
        conf = {**encoder_conf, "subsampling": subsampling, "subsampling_channels": None}
        for flash in (False, True):
            minutes, speed = _one(conf, device, memory_gb, seconds, Attention(flash))
            rows.append(
                {
                    "subsampling": subsampling,
                    "flash": flash,
                    "minutes": {"paper": paper["minutes"][flash], "here": round(minutes, 1)},
                    "frames_per_second": {"paper": paper["frames_per_second"][flash], "here": round(speed)},
                }
            )
            done = f"{len(rows)} of {2 * len(PAPER)} systems"
            tell(f"{done}: {subsampling} {_with(flash)} flash {minutes:.1f} min, {speed:.0f} frames/s")
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    return {
        "device": name,
        "minutes_are": "measured" if device == "cuda" else f"counted for {memory_gb:g} GB",
        "seconds_of_speed": seconds,
        "encoder_conf": dict(encoder_conf),
        "rows": rows,
    }


def _one(
    conf: Mapping[str, Any], device: str, memory_gb: float, seconds: float, attention: Attention
) -> tuple[float, float]:
    """Longest context in minutes, and frames per second. In half precision on an accelerator, and when counting."""

    def make():
        return ctc_model(LongFastConformerEncoder(BANDS, **conf))

    model = make().to(device)
    speed = frames_per_second(model, seconds, device == "cuda", attention)
    if device == "cuda":
        fits = fits_on_device(model, True, attention)
    else:
        del model
        fits = fits_counted(make, round(memory_gb * 1e9), True, attention)
    return longest_context(fits) / 60.0, speed


def _with(flash: bool) -> str:
    return "with" if flash else "without"


def as_text(result: Mapping[str, Any]) -> str:
    """The table as plain text."""
    rows = [
        [
            row["subsampling"],
            _with(row["flash"]),
            *(row[key][whose] for key in ("minutes", "frames_per_second") for whose in ("paper", "here")),
        ]
        for row in result["rows"]
    ]
    head = ["subsampling", "flash", "minutes, paper", "here", "frames/s, paper", "here"]
    note = f"{result['device']}; minutes are {result['minutes_are']}; speed on {result['seconds_of_speed']:g} s"
    return f"{tabulate(rows, head)}\n{note}"
