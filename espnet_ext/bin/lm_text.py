"""Make a language model's training text from a text file, such as librispeech-lm-norm.txt.gz."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.data.lm_text import write_lm_text
from espnet_ext.errors import run_main


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="a sentence a line; plain or .gz")
    parser.add_argument("--output", type=Path, required=True, help="Kaldi table with the lines' numbers as ids")
    args = parser.parse_args(argv)
    print(f"{write_lm_text(args.text, args.output):,} sentences -> {args.output}")


if __name__ == "__main__":
    run_main(main)
