"""Rescore N-best lists with a language model: P3's second pass behind any decoder.

Lists are JSONL (`bin.nbest convert` makes it), the output folder of an ESPnet decoding with --nbest, or the JSON of
masked-LM-scoring tools. The language model is a folder or hub name of Hugging Face transformers. The weight of the
first pass against it is tuned on development lists by exact line search over their word errors, and used unseen.

Example: the folders of two ESPnet decodings

  python -m espnet_ext.bin.rescore --nbest exp/asr/decode_test_clean --tune-on exp/asr/decode_dev_clean \\
      --tune-ref dump/raw/dev_clean/text --lm gpt2 --scorer causal --casing lower --output exp/asr/rescored_test_clean

writes nbest.jsonl (re-ranked), text (the best hypotheses), interpolation.json (the tuned weight) and its curve.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.rescore.second_pass import LanguageModel, SecondPass, outcome_lines, second_pass

SCORERS = ("causal", "pll", "pooled")


def main(argv: Sequence[str] | None = None) -> None:
    args = _parser().parse_args(argv)
    job = SecondPass(
        nbest=args.nbest,
        output=args.output,
        name=args.name or args.scorer or "lm",
        reference=args.ref,
        tune_references=tuple(args.tune_ref),
        tune_on=tuple(args.tune_on or ()),
        weight=args.weight,
        weight_file=args.weight_file,
    )
    model = LanguageModel(args.lm, scorer=args.scorer, pooling=args.pooling, casing=args.casing, ngpu=args.ngpu)
    print("\n".join(outcome_lines(second_pass(job, model.load))))
    print(f"written to {args.output}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m espnet_ext.bin.rescore",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--nbest", type=Path, required=True, help="lists: .jsonl, ESPnet's folder, or .json")
    parser.add_argument("--ref", type=Path, help="Kaldi text with their references, to print error rates")
    parser.add_argument("--lm", required=True, metavar="DIR", help="folder or hub name of a transformers model")
    parser.add_argument("--scorer", choices=SCORERS, help="default: as saved, or what suits the model")
    parser.add_argument(
        "--pooling", choices=("last", "cls", "attention"), help="of --scorer pooled (default: as saved)"
    )
    parser.add_argument(
        "--casing", help="how text is written for the model: as-is, lower ... (default: as saved, as-is)"
    )
    parser.add_argument("--name", help="of the added scores in the lists (default: the scorer's)")
    weight = parser.add_mutually_exclusive_group(required=True)
    weight.add_argument("--tune-on", type=Path, nargs="+", metavar="DEV", help="development lists, used jointly")
    weight.add_argument("--weight", type=float, metavar="LAMBDA", help="lambda of P3, eq. 1, if it is known")
    weight.add_argument("--weight-file", type=Path, metavar="FILE", help="interpolation.json of an earlier run")
    parser.add_argument(
        "--tune-ref", type=Path, nargs="+", default=[], metavar="TEXT", help="Kaldi text for each of --tune-on"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="OUT", help="folder for the results")
    parser.add_argument("--ngpu", type=int, choices=(0, 1), default=0, help="1: score on a GPU (default: 0)")
    return parser


if __name__ == "__main__":
    run_main(main)
