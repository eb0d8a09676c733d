"""Make a small GPT-2 or BERT at random, with a tokenizer trained on text; bin.lm_adapt then trains it from scratch."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.data.lm_text import sentences
from espnet_ext.errors import run_main
from espnet_ext.work.yaml_files import merged_files


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="a sentence a line; plain or .gz")
    parser.add_argument(
        "--config", type=Path, nargs="+", required=True, help="YAML: kind, vocabulary, casing, config; later ones win"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the parameters (default: 0)")
    parser.add_argument("--output", type=Path, required=True, help="folder, as transformers writes it")
    args = parser.parse_args(argv)
    config, text = merged_files(args.config), list(sentences(args.text))

    from espnet_ext.rescore.small_models import make_small_model, parse_recipe

    scorer = make_small_model(parse_recipe(config), text, args.seed)
    scorer.save(args.output)
    parameters = sum(parameter.numel() for parameter in scorer.parameters())
    print(f"{args.output}: {config['kind']} with {parameters:,} parameters and {len(scorer.tokenizer)} tokens")


if __name__ == "__main__":
    run_main(main)
