"""Train a language model of transformers on text: next tokens if it is causal, masked tokens if it is bidirectional.

Writes the model with the lowest loss on the development text to OUTPUT/model, and what happened to
OUTPUT/training.json. A killed run goes on where it stopped.
"""

from collections.abc import Sequence
from pathlib import Path

from espnet_ext.bin.lm_options import parse_training, training_parser
from espnet_ext.data.lm_text import sample, sentences
from espnet_ext.errors import run_main


def main(argv: Sequence[str] | None = None) -> None:
    parser = training_parser(__doc__)
    parser.add_argument("--scorer", choices=("causal", "pll"), help="default: what suits the model")
    for name, role in (("", "to train on"), ("dev-", "to choose the model by")):
        parser.add_argument(
            f"--{name}text", type=Path, nargs="+", default=[], help=f"{role}: a sentence a line; plain or .gz"
        )
        parser.add_argument(f"--{name}transcripts", type=Path, nargs="+", default=[], help=f"{role}: Kaldi text")
    args, config = parse_training(parser, argv, {"scorer": None})
    masking = {name: config.pop(name) for name in ("mask_probability",) if name in config}
    text = sample(sentences(args.text, args.transcripts), config.pop("sentences", None), args.seed)
    dev_text = list(sentences(args.dev_text, args.dev_transcripts))

    from espnet_ext.rescore.lm_training import train_lm
    from espnet_ext.rescore.scorers import load_lm
    from espnet_ext.rescore.training import device_for, parse_settings, summary

    settings, device = parse_settings(config, seed=args.seed), device_for(args.ngpu)
    scorer = load_lm(args.lm, args.scorer, casing=args.casing).to(device)
    print(summary(args.output, train_lm(scorer, text, dev_text, settings, args.output, **masking)))


if __name__ == "__main__":
    run_main(main)
