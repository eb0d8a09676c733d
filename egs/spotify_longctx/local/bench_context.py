#!/usr/bin/env python3
"""Longest context in training and frames per second, of Conformer and FastConformer
(P5, Table 1).

Both without and with flash attention. On an accelerator everything is measured. On a
CPU the longest context is counted for an accelerator with --memory-gb, and the speed is
measured in single precision.

Example:
  local/bench_context.py --output exp/full/results/context.json
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from context_cost import (
    BANDS,
    count_peak,
    ctc_model,
    fits_on_device,
    frames_per_second,
    longest_context,
)
from tabulate import tabulate

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.longform.long_fastconformer import LongFastConformerEncoder
from espnet_ext.tables.plan import load_scale
from espnet_ext.upstream.logs import without_warnings
from espnet_ext.work.files import expand_home, write_json
from espnet_ext.work.yaml_files import read_yaml

RECIPE = Path(__file__).parents[1]
UNITS = {"minutes": "min", "frames_per_second": "frames/s"}
# Minutes and frames per second on an A100 of 80 GB, without and with flash attention.
PAPER = {
    "conformer": {"minutes": (9, 23), "frames_per_second": (30200, 57300)},
    "fastconformer": {"minutes": (18, 70), "frames_per_second": (57650, 80900)},
}


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    if args.memory_gb <= 0 or args.seconds <= 0:
        raise InputError("--memory-gb and --seconds must be above 0")
    config = (
        read_yaml(args.config) if args.config else load_scale(RECIPE, "full")["train"]
    )
    with without_warnings():  # ESPnet's, that there is no decoder
        result = measure(
            config.get("encoder_conf", {}), args.device, args.memory_gb, args.seconds
        )
    head = [
        "subsampling",
        "flash",
        *(f"{quantity}, {whose}" for quantity in UNITS for whose in ("paper", "here")),
    ]
    rows = [
        [
            row["subsampling"],
            row["flash"],
            *(
                row[quantity][whose]
                for quantity in UNITS
                for whose in ("paper", "here")
            ),
        ]
        for row in result["rows"]
    ]
    print(
        f"{tabulate(rows, head)}\n{result['device']}; minutes are "
        f"{result['minutes_are']}"
    )
    if args.output:
        write_json(args.output, result)
        print("written:", args.output)
    for row in result["rows"] if args.expdir else ():
        folder = args.expdir / (row["subsampling"] + ("_flash" if row["flash"] else ""))
        for quantity, unit in UNITS.items():
            write_json(
                folder / f"{quantity}.json",
                {"value": row[quantity]["here"], "unit": unit},
            )


def measure(
    encoder_conf: Mapping[str, Any],
    device: str | None,
    memory_gb: float,
    seconds: float,
) -> dict[str, Any]:
    """Measure all four systems on "cpu", "cuda" or (None) an accelerator if there is
    one: their speed on an input of so many seconds, and their longest context, on a CPU
    that of ``memory_gb`` 10^9 bytes. The subsampling in ``encoder_conf`` is replaced.
    Each row has ``minutes`` and ``frames_per_second``, with the paper's.
    """
    has_accelerator = torch.cuda.is_available()
    if device == "cuda" and not has_accelerator:
        raise InputError(
            "--device cuda: torch finds no accelerator: leave the option out to "
            "count on the CPU"
        )
    device = device or ("cuda" if has_accelerator else "cpu")
    rows = []
    for subsampling, paper in PAPER.items():
        conf = {
            **encoder_conf,
            "subsampling": subsampling,
            "subsampling_channels": None,
        }
        for flash in (False, True):
            minutes, speed = one_system(conf, device, memory_gb, seconds, flash)
            here = {"minutes": round(minutes, 1), "frames_per_second": round(speed)}
            row = {
                quantity: {"paper": paper[quantity][flash], "here": here[quantity]}
                for quantity in UNITS
            }
            rows.append({"subsampling": subsampling, "flash": flash, **row})
            print(
                f"{len(rows)} of 4 systems: {subsampling}, flash {flash}: {here}",
                flush=True,
            )  # each takes minutes
    return {
        "device": torch.cuda.get_device_name()
        if device == "cuda"
        else f"CPU, {torch.get_num_threads()} threads",
        "minutes_are": "measured"
        if device == "cuda"
        else f"counted for {memory_gb:g} GB",
        "seconds_of_speed": seconds,
        "encoder_conf": dict(encoder_conf),
        "rows": rows,
    }


def one_system(
    conf: Mapping[str, Any], device: str, memory_gb: float, seconds: float, flash: bool
) -> tuple[float, float]:
    """Return the longest context in minutes, and frames per second.

    In half precision on an accelerator, and when counting.
    """

    def make():
        return ctc_model(LongFastConformerEncoder(BANDS, **conf))

    model = make().to(device)
    speed = frames_per_second(model, seconds, device == "cuda", flash)
    if device == "cuda":
        return longest_context(fits_on_device(model, True, flash)) / 60.0, speed
    del model
    return longest_context(
        lambda length: count_peak(make, length, True, flash) <= memory_gb * 1e9
    ) / 60.0, speed


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--config",
        type=expand_home,
        help="training config (default: section train of conf/full.yaml)",
    )
    add(
        "--device",
        choices=["cpu", "cuda"],
        help="default: an accelerator if there is one",
    )
    add(
        "--memory-gb",
        type=float,
        default=80.0,
        help="memory for which a CPU counts, in 10^9 bytes",
    )
    add(
        "--seconds",
        type=float,
        default=30.0,
        help="length of the input whose speed is measured",
    )
    add("--output", type=expand_home, help="JSON file for the results")
    add(
        "--expdir",
        type=expand_home,
        help=(
            "where the recipe's table finds them: <subsampling>[_flash]/<quantity>.json"
        ),
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
