#!/usr/bin/env python3
"""Measure the latency column of P3, Table 1: ten random hypotheses of 64 tokens, by every scorer, at full size.

Weights are random: what they are does not change the time. Writes JSON and prints a table beside the paper's numbers.

Example:
  local/bench_latency.py --output exp/mini/latency.json
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.files import write_json
from espnet_ext.tables.meta import hardware, versions


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    import torch

    from espnet_ext.rescore.latency import HYPOTHESES, TOKENS, survey

    torch.set_num_threads(args.threads)
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    size = {} if args.layers is None else {"num_hidden_layers": args.layers}
    found = []
    print(f"{HYPOTHESES} hypotheses of {TOKENS} tokens; on the CPU {args.threads} threads; P3's on an Nvidia T4")
    print(f"{'scorer':32}{'device':8}{'ms':>10}{'runs':>6}{'P3, ms':>8}")
    for device in devices:
        for row in survey(device, args.runs, args.seconds, **size):
            found.append(asdict(row))
            paper = "-" if row.paper is None else row.paper
            print(f"{row.name:32}{row.device:8}{row.milliseconds:10.1f}{row.runs:6}{paper:>8}", flush=True)
    meta = {"threads": args.threads, "layers": args.layers, "hardware": hardware(), "versions": versions()}
    write_json(args.output, {"rows": found, "meta": meta})
    print("written:", args.output)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="JSON of the results")
    parser.add_argument("--runs", type=int, default=50, help="most runs a scorer (default: 50)")
    parser.add_argument(
        "--seconds", type=float, default=60, help="no run of a scorer starts after so long (default: 60); 3 always do"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: 1)")
    parser.add_argument("--layers", type=int, help="layers of both models (default: 12, as GPT-2 and BERT have)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
