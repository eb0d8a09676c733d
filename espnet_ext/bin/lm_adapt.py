"""Train a language model of transformers on text: next tokens if it is causal, masked tokens if it is bidirectional.

Writes the model with the lowest loss on the development text to OUTPUT/model, and what happened to
OUTPUT/training.json. A killed run goes on where it stopped.
"""

from collections.abc import Sequence
from pathlib import Path

from espnet_ext.bin.lm_options import parse_training, training_parser
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

    from espnet_ext.rescore.lm_training import TextFiles, adapt_language_model
    from espnet_ext.rescore.training import summary

    values = {**config, "lm": args.lm, "casing": args.casing, "scorer": args.scorer}
    texts, dev_texts = (
        TextFiles(tuple(text), tuple(transcripts))
        for text, transcripts in ((args.text, args.transcripts), (args.dev_text, args.dev_transcripts))
    )
    report = adapt_language_model(values, texts, dev_texts, args.output, seed=args.seed, ngpu=args.ngpu)
    print(summary(args.output, report))


if __name__ == "__main__":
    run_main(main)
