"""Make a small GPT-2 or BERT at random, with a tokenizer trained on text; bin.lm_adapt then trains it from scratch."""

import argparse
from collections.abc import Sequence
from pathlib import Path

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
    from espnet_ext.rescore.lm_training import make_language_model, small_model_line

    scorer = make_language_model(merged_files(args.config), args.text, args.output, args.seed)
    print(small_model_line(scorer, args.output))


if __name__ == "__main__":
    run_main(main)
