"""Train a language model of transformers on text: next tokens if it is causal, masked tokens if it is bidirectional.

Writes the model with the lowest loss on the development text to OUTPUT/model, and what happened to
OUTPUT/training.json. A killed run goes on where it stopped.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.data.lm_text import sample, sentences
from espnet_ext.errors import run_main
from espnet_ext.yaml_files import merged_files


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--lm", required=True, help="folder of a model and its tokenizer, or a name on the hub")
    parser.add_argument("--casing", help="how sentences are written for it: lower, upper, sentence or as-is")
    for name, role in (("", "to train on"), ("dev-", "to choose the model by")):
        parser.add_argument(
            f"--{name}text", type=Path, nargs="+", default=[], help=f"{role}: a sentence a line; plain or .gz"
        )
        parser.add_argument(f"--{name}transcripts", type=Path, nargs="+", default=[], help=f"{role}: Kaldi text")
    parser.add_argument(
        "--config",
        type=Path,
        nargs="+",
        required=True,
        help="YAML: batch_size, lr, sentences ...; later ones win",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the examples' choice and order (default: 0)")
    parser.add_argument("--ngpu", type=int, default=0, help="1: train on a GPU (default: 0)")
    parser.add_argument("--output", type=Path, required=True, help="folder of the training")
    args = parser.parse_args(argv)
    config = merged_files(args.config)
    masking = {name: config.pop(name) for name in ("mask_probability",) if name in config}
    text = sample(sentences(args.text, args.transcripts), config.pop("sentences", None), args.seed)
    dev_text = list(sentences(args.dev_text, args.dev_transcripts))

    from espnet_ext.rescore.lm_training import train_lm
    from espnet_ext.rescore.scorers import load_lm
    from espnet_ext.rescore.training import device_for, parse_settings, summary

    settings, device = parse_settings(config, seed=args.seed), device_for(args.ngpu)
    scorer = load_lm(args.lm, casing=args.casing).to(device)
    print(summary(args.output, train_lm(scorer, text, dev_text, settings, args.output, **masking)))


if __name__ == "__main__":
    run_main(main)
