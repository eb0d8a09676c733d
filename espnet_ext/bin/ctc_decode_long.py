"""Decode recordings of any length with a model's CTC: windows move over a recording, posteriors are averaged (P5, 2.2).

Works with any ESPnet model with CTC. Models of bin.asr_train_long take their features and their window's length from
their config. Memory does not depend on the length of a recording.

Several data dirs are decoded with one load of the model: give --data and --output as often, and --config once for all
or once for each.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.longform.decode import SETTINGS, LongDecoding, decode_long, long_decoding
from espnet_ext.longform.noise import MUSAN
from espnet_ext.work.yaml_files import read_yaml


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--model-config", type=Path, required=True, metavar="YAML", help="config.yaml of the model")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="its checkpoint")
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, metavar="DIR", help="data dirs; recordings of wav.scp"
    )
    parser.add_argument(
        "--output", type=Path, nargs="+", required=True, metavar="DIR", help="text and decode.json go here"
    )
    parser.add_argument(
        "--config", type=Path, nargs="+", default=[], metavar="YAML", help="the options down to --lm-weight, in YAML"
    )
    parser.add_argument("--window", type=float, metavar="S", help="seconds (default: the model's max_seconds)")
    parser.add_argument("--stride", type=float, help=f"of a window (default: {SETTINGS['stride']})")
    parser.add_argument("--batch", type=int, metavar="N", help=f"windows at once (default: {SETTINGS['batch']})")
    parser.add_argument("--noise", choices=MUSAN, help="mix noise in")
    parser.add_argument("--snr", type=float, help="signal-to-noise ratio in dB")
    parser.add_argument("--seed", type=int, help=f"of the noise (default: {SETTINGS['seed']})")
    parser.add_argument("--beam-size", type=int, metavar="N", help="beam search (default: the best path)")
    parser.add_argument("--lm-weight", type=float, help="(default: 1 with --lm)")
    parser.add_argument("--lm", type=Path, metavar="ARPA", help="n-gram model over the model's tokens")
    parser.add_argument("--zeroed", type=Path, metavar="FILE", help="silence these regions: `recording start end`")
    parser.add_argument("--musan", type=Path, metavar="DIR", help="MUSAN (default: music is generated)")
    parser.add_argument("--ngpu", type=int, default=0, help="0 or 1 (default: %(default)s)")
    parser.add_argument("--nj", type=int, default=1, help="number of processes (default: %(default)s)")
    parser.add_argument("--parallel", type=Path, metavar="YAML", help="cluster to run on")
    args = parser.parse_args(arguments)
    if len(args.data) != len(args.output):
        raise InputError("--data and --output must be given equally often")
    configs = args.config * len(args.data) if len(args.config) == 1 else args.config or [None] * len(args.data)
    if len(configs) != len(args.data):
        raise InputError("--config must be given once, or as often as --data")
    places = zip(args.data, args.output, configs, strict=True)
    count = decode_long(*(_job(args, *place) for place in places), nj=args.nj, parallel=args.parallel)
    print(f"{count} recordings -> {', '.join(str(output / 'text') for output in args.output)}")


def _job(args: argparse.Namespace, data: Path, output: Path, config: Path | None) -> LongDecoding:
    """The decoding of one data dir: options of the command line go before those of the config."""
    given = {name: getattr(args, name) for name in SETTINGS if getattr(args, name) is not None}
    if args.lm and config is None:
        if "beam_size" not in given:
            raise InputError("--lm needs a beam search: give --beam-size")
        given.setdefault("lm_weight", 1.0)
    return long_decoding(
        (read_yaml(config) if config else {}) | given,
        model_config=args.model_config,
        model_file=args.model,
        data=data,
        output=output,
        lm=args.lm,
        zeroed=args.zeroed,
        musan=args.musan,
        ngpu=args.ngpu,
        source=str(config or "the command line"),
    )


if __name__ == "__main__":
    run_main(main)
