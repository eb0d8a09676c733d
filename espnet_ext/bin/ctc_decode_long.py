"""Decode recordings of any length with a model's CTC: windows move over a recording, posteriors are averaged (P5, 2.2).

Works with any ESPnet model with CTC. Models of bin.asr_train_long take their features and their window's length from
their config. Memory does not depend on the length of a recording.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.data.noise import MUSAN
from espnet_ext.errors import InputError, run_main
from espnet_ext.search.ctc import BeamSettings
from espnet_ext.task.decode_long import LongDecoding, Noise, decode_long


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--model-config", type=Path, required=True, metavar="YAML", help="config.yaml of the model")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="its checkpoint")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="data dir; recordings of wav.scp")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="text and decode.json go here")
    parser.add_argument("--window", type=float, metavar="S", help="seconds (default: the model's max_seconds)")
    parser.add_argument("--stride", type=float, default=0.125, help="of a window (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="windows at once (default: %(default)s)")
    parser.add_argument("--zeroed", type=Path, metavar="FILE", help="silence these regions: `recording start end`")
    parser.add_argument("--noise", choices=MUSAN, help="mix noise in")
    parser.add_argument("--snr", type=float, help="signal-to-noise ratio in dB")
    parser.add_argument("--musan", type=Path, metavar="DIR", help="MUSAN (default: music is generated)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise (default: %(default)s)")
    parser.add_argument("--beam-size", type=int, metavar="N", help="beam search (default: the best path)")
    parser.add_argument("--lm", type=Path, metavar="ARPA", help="n-gram model over the model's tokens")
    parser.add_argument("--lm-weight", type=float, default=1.0, help="(default: %(default)s)")
    parser.add_argument("--ngpu", type=int, default=0, help="0 or 1 (default: %(default)s)")
    parser.add_argument("--nj", type=int, default=1, help="number of processes (default: %(default)s)")
    parser.add_argument("--parallel", type=Path, metavar="YAML", help="cluster to run on")
    args = parser.parse_args(arguments)
    if (args.noise is None) != (args.snr is None):
        raise InputError("--noise and --snr go together: give both or neither")
    if args.lm and not args.beam_size:
        raise InputError("--lm needs a beam search: give --beam-size")
    job = LongDecoding(
        model_config=args.model_config,
        model_file=args.model,
        data=args.data,
        output=args.output,
        window=args.window,
        stride=args.stride,
        batch=args.batch,
        zeroed=args.zeroed,
        noise=Noise(args.noise, args.snr, args.musan, args.seed) if args.noise else None,
        beam=BeamSettings(args.lm, args.lm_weight, beam_size=args.beam_size) if args.beam_size else None,
        ngpu=args.ngpu,
    )
    count = decode_long(job, nj=args.nj, parallel=args.parallel)
    print(f"{count} recordings -> {args.output / 'text'}")


if __name__ == "__main__":
    run_main(main)
