"""Train a language model to rescore N-best lists: minimum word error rate (P3, eq. 5 to 12).

Writes what rescores the development lists best to OUTPUT/model, and what happened to OUTPUT/training.json. Lists are
JSONL, ESPnet's output folder, or masked-LM-scoring JSON (.json), with references, hypotheses and references normalised
alike. A killed run goes on where it stopped.
"""

from collections.abc import Sequence
from pathlib import Path

from espnet_ext.bin.lm_options import parse_training, training_parser
from espnet_ext.errors import run_main

# those that the config may have, with their defaults
OPTIONS = {"scorer": None, "pooling": None, "first_pass_weight": None, "ce_weight": 0.0}


def main(argv: Sequence[str] | None = None) -> None:
    parser = training_parser(__doc__)
    parser.add_argument("--nbest", type=Path, nargs="+", required=True, help="lists to train on")
    parser.add_argument("--dev", type=Path, nargs="+", required=True, help="lists to choose the model by, all together")
    parser.add_argument("--scorer", choices=("causal", "pll", "pooled"), help="default: as the model was saved")
    parser.add_argument("--pooling", choices=("last", "cls", "attention"), help="of a pooled scorer")
    parser.add_argument(
        "--first-pass-weight",
        type=float,
        help="lambda of eq. 8 and 9 (default: tuned on the development lists; 1 for a pooled scorer)",
    )
    parser.add_argument("--ce-weight", type=float, help="alpha of MWER + alpha CE (default: 0)")
    args, config = parse_training(parser, argv, OPTIONS)

    from espnet_ext.rescore.mwer import train_rescorer
    from espnet_ext.rescore.training import summary

    values = {**config, **{name: getattr(args, name) for name in ("lm", "casing", *OPTIONS)}}
    report = train_rescorer(values, args.nbest, args.dev, args.output, seed=args.seed, ngpu=args.ngpu)
    print(summary(args.output, report))


if __name__ == "__main__":
    run_main(main)
