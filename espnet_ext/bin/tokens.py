"""Learn the tokens of a data dir: writes tokens.txt, prior.txt and, for word pieces, bpe.model."""

import argparse
from pathlib import Path

from espnet_ext.codeswitch.mixed_text import has_han
from espnet_ext.codeswitch.mixed_units import MORE_THAN, write_mixed_tokens
from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.data.tokens import write_tokens
from espnet_ext.errors import InputError, run_main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="Kaldi text file")
    parser.add_argument(
        "--token-type",
        choices=["bpe", "unigram", "char", "word", "mixed"],
        default="bpe",
        help="mixed: Han characters of --text and word pieces of --english-text; ESPnet's token_type is then bpe",
    )
    parser.add_argument("--vocab-size", type=int, default=0, help="number of word pieces, at most")
    parser.add_argument(
        "--normalisation",
        choices=["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"],
        help="sentencepiece's rule, kept in its model; those with cf fold case (default: sentencepiece's, nmt_nfkc)",
    )
    parser.add_argument(
        "--english-text", type=Path, nargs="+", default=[], metavar="FILE", help="mixed: English Kaldi text files"
    )
    parser.add_argument(
        "--more-than",
        type=int,
        default=MORE_THAN,
        metavar="N",
        help="mixed: Han characters with more than N occurrences are units (default: %(default)s)",
    )
    parser.add_argument(
        "--symbols", nargs="+", default=[], metavar="WORD", help="words that are one token each, such as '<sc>'"
    )
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    args = parser.parse_args()
    if (args.token_type == "mixed") != bool(args.english_text):
        raise InputError("--token-type mixed and --english-text go together: give both or neither")
    if args.token_type == "mixed" and args.symbols:
        raise InputError("--symbols is for word pieces, characters and words: leave it out for --token-type mixed")
    texts = _texts(args.text)
    if args.token_type == "mixed":
        english = [text for path in args.english_text for text in _texts(path)]
        tokens = write_mixed_tokens(texts, english, args.output, args.vocab_size, args.more_than)
    else:
        tokens = write_tokens(
            texts, args.output, args.token_type, args.vocab_size, symbols=args.symbols, normalisation=args.normalisation
        )
    print(f"{len(tokens)} tokens -> {args.output / 'tokens.txt'}")
    pieces = len(tokens) - 2  # blank, unknown, start and end are no word pieces; sentencepiece counts the unknown one
    if args.token_type == "mixed":
        characters = sum(map(has_han, tokens))
        pieces -= characters + 1
        print(f"{characters} Han characters, {pieces} English word pieces")
    if args.vocab_size > pieces:
        print(f"The text gives no more word pieces than that: {args.vocab_size} were asked for.")


def _texts(path: Path) -> list[str]:
    return list(read_table(path).values())


if __name__ == "__main__":
    run_main(main)
