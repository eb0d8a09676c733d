#!/usr/bin/env python3
"""Measure the longest context and the speed of training (P5, Table 1).

Of Conformer and FastConformer, both without and with flash attention. On an accelerator
everything is measured. On a CPU the longest context is counted for an accelerator with
--memory-gb, and the speed is measured in single precision.

Example:
  local/bench_context.py --output exp/full/results/context.json
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from context_cost import (
    BANDS,
    count_peak,
    find_longest_context,
    make_ctc_model,
    make_device_test,
    measure_frames_per_second,
)
from tabulate import tabulate

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.longform.long_fastconformer import LongFastConformerEncoder
from espnet_ext.tables.plan import load_scale
from espnet_ext.upstream.logs import suppress_warnings
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
    if args.config:
        config = read_yaml(args.config)
    else:
        config = load_scale(RECIPE, "full")["train"]
    with suppress_warnings():  # ESPnet's, that there is no decoder
        result = measure(
            config.get("encoder_conf", {}), args.device, args.memory_gb, args.seconds
        )
    print(format_table(result))
    if args.output:
        write_json(args.output, result)
        print("written:", args.output)
    if args.expdir:
        write_quantities(result, args.expdir)


def format_table(result: Mapping[str, Any]) -> str:
    """Return the numbers as a table, with the paper's beside ours."""
    columns = list(product(UNITS, ("paper", "here")))
    head = ["subsampling", "flash"]
    head += [f"{quantity}, {whose}" for quantity, whose in columns]
    rows = []
    for row in result["rows"]:
        numbers = [row[quantity][whose] for quantity, whose in columns]
        rows.append([row["subsampling"], row["flash"], *numbers])
    table = tabulate(rows, head)
    return f"{table}\n{result['device']}; minutes are {result['minutes_are']}"


def write_quantities(result: Mapping[str, Any], expdir: Path) -> None:
    """Write our numbers where the recipe's table finds those of a system."""
    for row in result["rows"]:
        system = row["subsampling"]
        if row["flash"]:
            system += "_flash"
        for quantity, unit in UNITS.items():
            content = {"value": row[quantity]["here"], "unit": unit}
            write_json(expdir / system / f"{quantity}.json", content)


def measure(
    encoder_conf: Mapping[str, Any],
    device: str | None,
    memory_gb: float,
    seconds: float,
) -> dict[str, Any]:
    """Measure the speed of all four systems, and their longest context.

    ``device`` is "cpu", "cuda", or None: an accelerator if there is one. The speed is
    on an input of so many seconds, the context on a CPU that of ``memory_gb`` 10^9
    bytes. The subsampling in ``encoder_conf`` is replaced. Each row has ``minutes`` and
    ``frames_per_second``, with the paper's.
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
            minutes, speed = measure_system(conf, device, memory_gb, seconds, flash)
            here = {"minutes": round(minutes, 1), "frames_per_second": round(speed)}
            row: dict[str, Any] = {"subsampling": subsampling, "flash": flash}
            for quantity in UNITS:
                # without flash attention first
                of_paper = paper[quantity][flash]
                row[quantity] = {"paper": of_paper, "here": here[quantity]}
            rows.append(row)
            # each takes minutes
            print(
                f"{len(rows)} of 4 systems: {subsampling}, flash {flash}: {here}",
                flush=True,
            )
    name = f"CPU, {torch.get_num_threads()} threads"
    minutes_are = f"counted for {memory_gb:g} GB"
    if device == "cuda":
        name = torch.cuda.get_device_name()
        minutes_are = "measured"
    return {
        "device": name,
        "minutes_are": minutes_are,
        "seconds_of_speed": seconds,
        "encoder_conf": dict(encoder_conf),
        "rows": rows,
    }


def measure_system(
    conf: Mapping[str, Any], device: str, memory_gb: float, seconds: float, flash: bool
) -> tuple[float, float]:
    """Return the longest context in minutes, and frames per second.

    In half precision on an accelerator, and when counting.
    """

    def make():
        return make_ctc_model(LongFastConformerEncoder(BANDS, **conf))

    model = make().to(device)
    speed = measure_frames_per_second(model, seconds, device == "cuda", flash)
    if device == "cuda":
        fits = make_device_test(model, True, flash)
    else:
        del model  # which counting makes anew, of fake tensors

        def fits(length: int) -> bool:
            return count_peak(make, length, True, flash) <= memory_gb * 1e9

    return find_longest_context(fits) / 60.0, speed


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
