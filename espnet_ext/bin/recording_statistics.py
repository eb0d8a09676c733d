"""Compute the mean and deviation of each recording's mel spectrogram, with which training normalises its chunks."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.longform.recording_features import write_statistics
from espnet_ext.work.yaml_files import read_yaml


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="a data dir; wav.scp is read")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="statistics.scp goes here")
    parser.add_argument("--config", type=Path, metavar="YAML", help="training config, for its features_conf")
    parser.add_argument(
        "--keep-features", action="store_true", help="write the normalised features too, to features.scp and below"
    )
    parser.add_argument("--nj", type=int, default=1, help="number of processes (default: %(default)s)")
    parser.add_argument("--parallel", type=Path, metavar="YAML", help="cluster to run on")
    args = parser.parse_args(arguments)
    features_conf = (read_yaml(args.config).get("features_conf") or {}) if args.config else {}
    count = write_statistics(
        args.data, args.output, features_conf, keep_features=args.keep_features, nj=args.nj, parallel=args.parallel
    )
    print(f"{count} recordings -> {args.output / 'statistics.scp'}")


if __name__ == "__main__":
    run_main(main)
