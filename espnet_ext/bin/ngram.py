"""Estimate an n-gram language model over a model's tokens: an ARPA file for bin.ctc_decode_long --lm."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.data.kaldi import read_table
from espnet_ext.data.tokens import BLANK, SOS_EOS, UNKNOWN
from espnet_ext.errors import InputError, run_main
from espnet_ext.longform.ngram import estimate, write_arpa


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="Kaldi text file")
    parser.add_argument("--tokens", type=Path, required=True, help="tokens.txt of the acoustic model")
    parser.add_argument("--bpemodel", type=Path, required=True, help="its sentencepiece model")
    parser.add_argument("--order", type=int, default=4, help="(default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True, metavar="ARPA", help="the file to write")
    args = parser.parse_args(arguments)
    for path in (args.tokens, args.bpemodel):
        if not path.is_file():
            raise InputError(f"{path}: no such file: run the token stage first")
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(args.bpemodel))
    tokens = args.tokens.read_text(encoding="utf-8").split("\n")
    vocabulary = [token for token in tokens if token and token not in (BLANK, SOS_EOS, UNKNOWN)]
    known = set(vocabulary)
    texts = (
        [piece if piece in known else UNKNOWN for piece in pieces.encode(text, out_type=str)]
        for text in read_table(args.text).values()
    )
    write_arpa(args.output, estimate(texts, args.order, vocabulary))
    print(f"{args.order}-gram model -> {args.output}")


if __name__ == "__main__":
    run_main(main)
