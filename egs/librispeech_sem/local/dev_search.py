#!/usr/bin/env python3
"""Decode the dev sets with one training and one or several searches, and keep the word error rates.

Searches and corpora are settled by it before a test set is decoded. The search of --config comes first
(decode_default.yaml, which stage 7 writes); each --search changes some of its options.

Example:
  local/dev_search.py --exp exp/mini --data data/mini --training baseline/seed1 --average best3 \\
    --config exp/mini/configs/decode_default.yaml --search 'normalize_length: false' --search 'beam_size: 8' \\
    --output results/search.json
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.scoring.score_files import evaluate
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.work.yaml_files import read_yaml, write_yaml

SETS = ("dev-clean", "dev-other")
SHOWN = ("normalize_length", "penalty", "beam_size")


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    own = read_yaml(args.config)
    rows = decode_dev(args.exp / args.training, args.average, args.data, searches(own, args.search), args.nj)
    about = f"Word error rates in % of {args.training} on the dev sets, by search"
    write_facts(args.output, about, shlex.join(["local/dev_search.py", *(argv or sys.argv[1:])]), {"rows": rows})
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    print("written:", args.output)


def searches(own: dict[str, Any], changes: Sequence[str]) -> list[dict[str, Any]]:
    """The search, and each change of it.

    Raises:
        InputError: a change that is not "option: value", or of an option that the search does not have.
    """
    found = [own]
    for text in changes:
        change = yaml.safe_load(text)
        if not isinstance(change, dict) or set(change) - set(own):
            raise InputError(f"--search {text!r}: give options of the search as 'name: value'; it has {', '.join(own)}")
        found.append({**own, **change})
    return found


def decode_dev(
    folder: Path, average: str, data: Path, settings: Sequence[dict[str, Any]], nj: int
) -> list[dict[str, Any]]:
    """Decode both dev sets with each search; what is decoded already is not decoded again."""
    from espnet_ext.upstream.decode import Decoding, decode_all  # imports torch

    jobs = []
    for number, search in enumerate(settings):
        output = folder / "dev_search" / str(number)
        write_yaml(output / "decode.yaml", search, "Search of local/dev_search.py")
        model = folder / f"{average}.ave.pth"
        jobs += [
            Decoding(folder / "config.yaml", model, data / part, output / part, output / "decode.yaml") for part in SETS
        ]
    decode_all(jobs, nj=nj)
    scores = [evaluate(job.data / "text", job.output / "text")[1]["value"] for job in jobs]
    return [
        {name: search[name] for name in SHOWN} | dict(zip(SETS, pair, strict=True))
        for search, pair in zip(settings, zip(scores[::2], scores[1::2], strict=True), strict=True)
    ]


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--exp", type=Path, required=True, metavar="DIR", help="the recipe's folder of systems")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="its data dirs")
    parser.add_argument("--training", required=True, metavar="SYSTEM/SEED", help="such as baseline/seed1")
    parser.add_argument("--average", default="best3", metavar="NAME", help="the averaged model, such as best3")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the search")
    parser.add_argument("--search", action="append", default=[], metavar="OPTIONS", help="'beam_size: 8'; repeat it")
    parser.add_argument("--nj", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
