"""N-best lists: convert them to JSONL, their oracle error rate, and what they hold.

Lists are JSONL, the output folder of an ESPnet decoding with --nbest, or the JSON of masked-LM-scoring tools (.json).

convert: writes JSONL, with references if --ref gives them; --distinct drops a text that came before in its list.

oracle: word error rate of the best hypothesis among the first n, for n = 1, 2 ...; --text writes the choice of the last
n as Kaldi text, --output the numbers as JSON.

stats: how many lists and hypotheses there are, and how many distinct texts a list has.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.nbest.sources import convert_lists, read_lists
from espnet_ext.nbest.statistics import (
    describe,
    oracle_lines,
    oracle_report,
    statistics_lines,
    write_choice,
    write_statistics,
)
from espnet_ext.work.files import write_json


def main(argv: Sequence[str] | None = None) -> None:
    args = _parser().parse_args(argv)
    args.run(args)


def _convert(args: argparse.Namespace) -> None:
    lists = convert_lists(args.nbest, args.output, args.ref, args.distinct)
    print(f"{len(lists)} lists, {sum(len(nbest.hyps) for nbest in lists)} hypotheses -> {args.output}")


def _oracle(args: argparse.Namespace) -> None:
    lists = read_lists(args.nbest, args.ref)
    report = oracle_report(lists, args.depth)
    if args.text:
        write_choice(args.text, lists, args.depth)
    if args.output:
        write_json(args.output, report)
    print("\n".join(oracle_lines(report)))


def _stats(args: argparse.Namespace) -> None:
    found = describe(read_lists(args.nbest, args.ref))
    if args.output:
        write_statistics(args.output, found)
    print("\n".join(statistics_lines(found, args.wanted)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m espnet_ext.bin.nbest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--nbest", type=Path, required=True, help="lists: .jsonl, ESPnet's folder, or .json")
    common.add_argument("--ref", type=Path, metavar="TEXT", help="Kaldi text with their references")
    convert = commands.add_parser("convert", parents=[common], allow_abbrev=False, help="to JSONL")
    convert.add_argument("--output", type=Path, required=True, metavar="FILE", help="JSONL")
    convert.add_argument("--distinct", action="store_true", help="keep the best of each text")
    convert.set_defaults(run=_convert)
    best = commands.add_parser("oracle", parents=[common], allow_abbrev=False, help="error rates of 1-best and oracle")
    best.add_argument("--depth", type=_count, metavar="N", help="look at the first N hypotheses (default: all)")
    best.add_argument("--text", type=Path, metavar="FILE", help="write the oracle's choice as Kaldi text")
    best.add_argument("--output", type=Path, metavar="FILE", help="write the numbers as JSON")
    best.set_defaults(run=_oracle)
    stats = commands.add_parser("stats", parents=[common], allow_abbrev=False, help="what the lists hold")
    stats.add_argument(
        "--wanted", type=_count, metavar="N", help="count lists with fewer distinct texts (default: longest)"
    )
    stats.add_argument("--output", type=Path, metavar="FILE", help="write the numbers as JSON")
    stats.set_defaults(run=_stats)
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


if __name__ == "__main__":
    run_main(main)
