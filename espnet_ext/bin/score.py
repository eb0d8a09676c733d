"""Word or character error rates of Kaldi text files, and a paired test between two systems.

wer: one system. Prints the rate with its 95% bootstrap interval; with --output writes score.json, per_utterance.tsv,
per_speaker.tsv (where --utt2spk is given) and alignment.txt.

compare: two systems on the same references. Repeat --ref, --hyp-a and --hyp-b (and --utt2spk) to pool test sets. Prints
the difference with its interval and p-value; with --output writes compare.json.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.files import write_json
from espnet_ext.scoring.bootstrap import REPLICAS
from espnet_ext.scoring.error_rate import ZERO
from espnet_ext.scoring.report import percent, summarise, write_reports
from espnet_ext.scoring.score import UNITS, compare, score_files

RATE_NAMES = {"word": "WER", "char": "CER"}


def main(argv: list[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)
    if arguments.command == "wer":
        _wer(arguments)
    else:
        _compare(arguments)


def _wer(arguments: argparse.Namespace) -> None:
    score = score_files(arguments.ref, arguments.hyp, unit=arguments.unit, utt2spk=arguments.utt2spk)
    summary = summarise(
        score, by_speaker=arguments.resample == "speaker", replicas=arguments.replicas, seed=arguments.seed
    )
    if arguments.output:
        write_reports(arguments.output, score, summary, alignment=not arguments.no_alignment)
    low, high = summary["ci95"]
    print(f"{RATE_NAMES[score.unit]} {summary['value']:.2f} %  (95% interval {low:.2f} to {high:.2f})")
    print(
        f"{summary['errors']} errors in {summary['words']} {score.unit}s: {summary['substitutions']} substitutions, "
        f"{summary['deletions']} deletions, {summary['insertions']} insertions"
    )
    print(f"{summary['sentence_error_rate']:.2f} % of {summary['utterances']} utterances hold an error")
    if score.speakers:
        worst = max(score.speakers, key=lambda name: score.speakers[name].rate)
        print(f"{len(score.speakers)} speakers, the worst {worst} at {100 * score.speakers[worst].rate:.2f} %")
    if arguments.output:
        print(f"written to {arguments.output}")


def _compare(arguments: argparse.Namespace) -> None:
    names = arguments.names.split(",")
    if len(names) != 2 or not all(names):
        raise InputError(f"--names {arguments.names}: give two names with a comma between")
    speakers = arguments.utt2spk or [None] * len(arguments.ref)
    if len({len(arguments.ref), len(arguments.hyp_a), len(arguments.hyp_b), len(speakers)}) != 1:
        raise InputError("--ref, --hyp-a and --hyp-b (and --utt2spk) must be given equally often, once a test set")
    pairs = [
        tuple(score_files(ref, hyp, unit=arguments.unit, utt2spk=utt2spk) for hyp in (hyp_a, hyp_b))
        for ref, hyp_a, hyp_b, utt2spk in zip(arguments.ref, arguments.hyp_a, arguments.hyp_b, speakers, strict=True)
    ]
    by_speaker = arguments.resample == "speaker"
    test = compare(pairs, by_speaker=by_speaker, replicas=arguments.replicas, seed=arguments.seed)
    totals = [sum((pair[side].total for pair in pairs), start=ZERO) for side in (0, 1)]
    systems = [
        {"name": name, "value": percent(total.rate), **asdict(total), "errors": total.errors}
        for name, total in zip(names, totals, strict=True)
    ]
    result = {
        "unit": arguments.unit,
        "a": systems[0],
        "b": systems[1],
        "difference": percent(test.difference),
        "ci95": [percent(limit) for limit in test.ci95],
        "p_value": test.p_value,
        "probability_of_improvement": test.probability_of_improvement,
        "words": totals[0].reference_length,
        "utterances": sum(len(pair[0].utterances) for pair in pairs),
        "bootstrap": {"replicas": arguments.replicas, "seed": arguments.seed, "resample": arguments.resample},
    }
    if arguments.output:
        write_json(Path(arguments.output) / "compare.json", result)
    rate = RATE_NAMES[arguments.unit]
    for system in systems:
        print(f"{rate} of {system['name']}: {system['value']:.2f} %  ({system['errors']} errors)")
    low, high = result["ci95"]
    print(f"{names[0]} less {names[1]}: {result['difference']:+.2f} points  (95% interval {low:+.2f} to {high:+.2f})")
    print(f"p = {test.p_value:.4f}, two-sided; {result['utterances']} utterances, {result['words']} {arguments.unit}s")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m espnet_ext.bin.score",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--unit", choices=UNITS, default="word", help="what is counted (default: word)")
    common.add_argument("--output", metavar="DIR", help="write the reports into this folder")
    common.add_argument("--seed", type=_count(0), default=0, help="of the bootstrap (default: 0)")
    common.add_argument("--replicas", type=_count(1), default=REPLICAS, help=f"of the bootstrap (default: {REPLICAS})")
    common.add_argument(
        "--resample", choices=("utterance", "speaker"), default="utterance", help="what the bootstrap draws"
    )
    wer = commands.add_parser("wer", parents=[common], allow_abbrev=False, help="score one system")
    wer.add_argument("--ref", required=True, help="Kaldi text file")
    wer.add_argument("--hyp", required=True, help="Kaldi text file; an id alone is an empty hypothesis")
    wer.add_argument("--utt2spk", help="score by speaker too")
    wer.add_argument("--no-alignment", action="store_true", help="do not write alignment.txt, half of the time")
    both = commands.add_parser("compare", parents=[common], allow_abbrev=False, help="test one system against another")
    both.add_argument("--ref", action="append", required=True, help="Kaldi text file")
    both.add_argument("--hyp-a", action="append", required=True, help="of the first system")
    both.add_argument("--hyp-b", action="append", required=True, help="of the second system")
    both.add_argument("--utt2spk", action="append", help="for --resample speaker")
    both.add_argument("--names", default="a,b", help="of the two systems (default: a,b)")
    return parser


def _count(least: int):
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {value}")
        return value

    return parse


if __name__ == "__main__":
    run_main(main)
