#!/usr/bin/env python3
"""Measure the latency column of P3, Table 1: ten random hypotheses of 64 tokens, by every scorer, at full size.

Weights are random: what they are does not change the time. A GPU is taken if there is one. Writes JSON, and for each
config of a system given (lm, scorer, pooling) FOLDER/<system>/latency.json beside it, which tables read.

Example:
  local/bench_latency.py --output exp/mini/latency.json --systems exp/mini/configs/gpt2_mwer.yaml
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.results.meta import hardware, versions
from espnet_ext.work.files import write_json
from espnet_ext.work.yaml_files import read_yaml


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    wanted = {path: read_yaml(path) for path in args.systems}
    import torch

    from espnet_ext.rescore.latency import HYPOTHESES, TOKENS, Kind, survey

    torch.set_num_threads(args.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = "a GPU" if device == "cuda" else f"the CPU, {args.threads} threads"
    size = {} if args.layers is None else {"num_hidden_layers": args.layers}
    print(f"{HYPOTHESES} hypotheses of {TOKENS} tokens, on {where}")
    print(f"{'scorer':36}{'ms':>10}{'runs':>6}")
    found = []
    for row in survey(device, args.runs, args.seconds, **size):
        found.append(row)
        print(f"{row.kind!s:36}{row.milliseconds:10.1f}{row.runs:6}", flush=True)
    meta = {"threads": args.threads, "layers": args.layers, "hardware": hardware(), "versions": versions()}
    write_json(args.output, {"rows": [asdict(row) for row in found], "meta": meta})
    print("written:", args.output)
    for path, config in wanted.items():
        kind = Kind(config.get("lm", ""), config.get("scorer", ""), config.get("pooling"))
        if kind not in (row.kind for row in found):
            raise InputError(f"{path}: no scorer '{kind}' is measured: {', '.join(str(row.kind) for row in found)}")
        (time,) = (row.milliseconds for row in found if row.kind == kind)
        quantity = args.output.parent / path.stem / "latency.json"
        quantity.parent.mkdir(parents=True, exist_ok=True)
        write_json(quantity, {"value": round(time, 1), "unit": "ms", "device": device, "meta": meta})


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="JSON of the results")
    parser.add_argument("--systems", type=Path, nargs="+", default=[], metavar="YAML", help="configs of systems")
    parser.add_argument("--runs", type=int, default=50, help="most runs a scorer (default: 50)")
    parser.add_argument(
        "--seconds", type=float, default=60, help="no further run of a scorer starts after so long (default: 60)"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: 1)")
    parser.add_argument("--layers", type=int, help="layers of both models (default: 12, as GPT-2 and BERT have)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
