"""Write a data dir's utterances at other speeds, as those of new speakers, with Lhotse manifests beside it."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.multitalker.speed import perturb_speed


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--data", type=Path, required=True, help="Kaldi data dir, audio at 16 kHz")
    parser.add_argument("--factors", type=float, nargs="+", required=True, help="such as 0.9 1.1")
    parser.add_argument("--output", type=Path, required=True, help="the data dir to write; manifests go there too")
    parser.add_argument("--nj", type=int, default=2, help="number of processes (default: %(default)s)")
    args = parser.parse_args(argv)
    data = perturb_speed(args.data, args.factors, args.output, nj=args.nj)

    from espnet_ext.data.manifests import from_data_dir, write_manifests  # Lhotse imports torch

    write_manifests(*from_data_dir(data), args.output)
    print(f"{len(data.utt2spk)} utterances, {len(set(data.utt2spk.values()))} speakers -> {args.output}")


if __name__ == "__main__":
    run_main(main)
