"""Learn the tokens of a data dir: writes tokens.txt and, for word pieces, bpe.model."""

import argparse
from pathlib import Path

from espnet_ext.data.kaldi import read_table
from espnet_ext.data.tokens import write_tokens
from espnet_ext.errors import run_main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="Kaldi text file")
    parser.add_argument("--token-type", choices=["bpe", "unigram", "char", "word"], default="bpe")
    parser.add_argument("--vocab-size", type=int, default=0, help="number of word pieces, at most")
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    args = parser.parse_args()
    texts = list(read_table(args.text).values())
    tokens = write_tokens(texts, args.output, args.token_type, args.vocab_size)
    print(f"{len(tokens)} tokens -> {args.output / 'tokens.txt'}")
    # blank, unknown, start and end are no word pieces; sentencepiece counts the unknown one
    if args.vocab_size > len(tokens) - 2:
        print(f"The text gives no more word pieces than that: {args.vocab_size} were asked for.")


if __name__ == "__main__":
    run_main(main)
