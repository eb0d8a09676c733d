"""Decode Kaldi data dirs with an ESPnet ASR model, on several processes or a cluster.

Writes text, token, token_int and score to the output folder. With several --config, each data dir is decoded with each
of them, and the models are loaded once. Options of espnet2.bin.asr_inference follow after `--`, as
in `... --nj 4 -- --beam_size 10 --nbest 5`, or stand in the YAML of --config. A killed run goes on where it stopped.
"""

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.upstream.decode import Decoding, decode_all


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-config", type=Path, required=True, help="config.yaml of the trained model")
    parser.add_argument("--model", type=Path, required=True, help="its parameters, such as valid.acc.ave.pth")
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="Kaldi data dirs, without segments")
    parser.add_argument(
        "--output", type=Path, nargs="+", required=True, help="a folder for each data dir; with the next config, again"
    )
    parser.add_argument(
        "--config", type=Path, nargs="+", default=[None], help="YAML with options of espnet2.bin.asr_inference"
    )
    parser.add_argument("--lm-config", type=Path, help="config.yaml of a language model")
    parser.add_argument("--lm-file", type=Path, help="its parameters")
    parser.add_argument("--nj", type=int, default=1, help="number of processes or cluster jobs (default: 1)")
    parser.add_argument("--parallel", type=Path, help="conf/parallel/*.yaml; default: processes on this machine")
    parser.add_argument("--ngpu", type=int, default=0, help="1: decode on a GPU (default: 0)")
    parser.add_argument("options", nargs="*", help="after `--`: options of espnet2.bin.asr_inference")
    args = parser.parse_args(argv)
    pairs = list(product(args.config, args.data))
    if len(pairs) != len(args.output):
        raise InputError(
            f"{len(args.config)} configs for {len(args.data)} data dirs make {len(pairs)} results, but --output names "
            f"{len(args.output)} folders: give one each"
        )
    jobs = [
        Decoding(
            model_config=args.model_config,
            model_file=args.model,
            data=data,
            output=output,
            config=config,
            lm_config=args.lm_config,
            lm_file=args.lm_file,
            ngpu=args.ngpu,
            options=tuple(args.options),
        )
        for (config, data), output in zip(pairs, args.output, strict=True)
    ]
    for job, count in zip(jobs, decode_all(jobs, nj=args.nj, parallel=args.parallel), strict=True):
        print(f"{count} utterances -> {job.output / 'text'}")


if __name__ == "__main__":
    run_main(main)
