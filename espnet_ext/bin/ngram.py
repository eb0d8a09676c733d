"""Estimate an n-gram language model over a model's tokens: an ARPA file for bin.ctc_decode_long --lm."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.longform.ngram import write_token_ngram


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="Kaldi text file")
    parser.add_argument("--tokens", type=Path, required=True, help="tokens.txt of the acoustic model")
    parser.add_argument("--bpemodel", type=Path, required=True, help="its sentencepiece model")
    parser.add_argument("--order", type=int, default=4, help="(default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True, metavar="ARPA", help="the file to write")
    args = parser.parse_args(arguments)
    write_token_ngram(args.text, args.tokens, args.bpemodel, args.order, args.output)
    print(f"{args.order}-gram model -> {args.output}")


if __name__ == "__main__":
    run_main(main)
