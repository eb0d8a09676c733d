#!/usr/bin/env python3
"""Longest context in training and frames per second, of Conformer and FastConformer (P5, Table 1).

Both without and with flash attention. On an accelerator everything is measured. On a CPU the longest context is counted
for an accelerator with --memory-gb, and the speed is measured in single precision.

Example:
  local/bench_context.py --output exp/full/results/context.json
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.tables.plan import load_scale
from espnet_ext.upstream.logs import without_warnings
from espnet_ext.work.files import write_json
from espnet_ext.work.yaml_files import read_yaml

RECIPE = Path(__file__).parents[1]
UNITS = {"minutes": "min", "frames_per_second": "frames/s"}


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    if args.memory_gb <= 0 or args.seconds <= 0:
        raise InputError("--memory-gb and --seconds must be above 0")
    config = read_yaml(args.config) if args.config else load_scale(RECIPE, "full")["train"]
    encoder_conf = config.get("encoder_conf", {})
    with without_warnings():  # ESPnet's, that there is no decoder
        import context_table

        result = context_table.measure(
            encoder_conf, args.device, args.memory_gb, args.seconds, partial(print, flush=True)
        )
    print(context_table.as_text(result))
    if args.output:
        write_json(args.output, result)
        print("written:", args.output)
    if args.expdir:
        for row in result["rows"]:
            folder = args.expdir / (row["subsampling"] + ("_flash" if row["flash"] else ""))
            for quantity, unit in UNITS.items():
                write_json(folder / f"{quantity}.json", {"value": row[quantity]["here"], "unit": unit})


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, help="training config (default: section train of conf/full.yaml)")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: an accelerator if there is one")
    parser.add_argument("--memory-gb", type=float, default=80.0, help="memory for which a CPU counts, in 10^9 bytes")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of the input whose speed is measured")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    parser.add_argument(
        "--expdir", type=Path, help="where the recipe's table finds them: <subsampling>[_flash]/<quantity>.json"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
