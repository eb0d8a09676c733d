"""Word, character and mixed error rates of Kaldi text files, and a paired test between two systems.

wer: one system. Prints the rate with its 95% bootstrap interval; with --output writes score.json, per_utterance.tsv,
per_speaker.tsv (where --utt2spk is given) and alignment.txt.

mer: the same for Mandarin-English text, in Han characters and English words: of both together (All), of each language
(CH and EN), and near the points where the language changes and elsewhere; with --output also measures.txt and parts/.

sa: speaker-attributed transcripts (SegLST, JSON): SA-WER, where words count only under the right name, and beside it
cpWER, ORC-WER and the error of speaker counting. --groups (a table of recording and condition) gives each condition's.

compare: two systems on the same references. Repeat --ref, --hyp-a and --hyp-b (and --utt2spk) to pool test sets. Prints
the difference with its interval and p-value; with --output writes compare.json. --unit mixed compares all that mer has.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from espnet_ext.codeswitch.mixed_text import has_han, mixed_tokens
from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.errors import InputError, run_main
from espnet_ext.multitalker.turns import read_turns
from espnet_ext.scoring.bootstrap import REPLICAS
from espnet_ext.scoring.error_rate import ZERO
from espnet_ext.scoring.mixed import score_mixed_files
from espnet_ext.scoring.normalise import NONE, NORMALISERS, normaliser_called
from espnet_ext.scoring.report import comparison_table, measures_table, percent, summarise, write_reports
from espnet_ext.scoring.score import UNITS, Score, compare, score_files
from espnet_ext.scoring.speaker_attributed import score_speakers, summarise_speakers, write_speaker_reports
from espnet_ext.scoring.switch_points import WITHIN, count_switches
from espnet_ext.work.files import write_json

RATE_NAMES = {"word": "WER", "char": "CER", "mixed": "MER"}
COUNTED = {"word": "words", "char": "chars", "mixed": "tokens"}


def main(argv: list[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)
    arguments.run(arguments)


def _wer(arguments: argparse.Namespace) -> None:
    normaliser, name = normaliser_called(arguments.normaliser)
    score = score_files(
        arguments.ref, arguments.hyp, unit=arguments.unit, utt2spk=arguments.utt2spk, normaliser=normaliser
    )
    _write(arguments, score, _summary(arguments, score, name))


def _mer(arguments: argparse.Namespace) -> None:
    score = score_mixed_files(arguments.ref, arguments.hyp, utt2spk=arguments.utt2spk, within=arguments.within)
    switches = count_switches(map(mixed_tokens, score.reference.values()), has_han)
    summary = {**_summary(arguments, score), "within": arguments.within, **switches}
    _write(arguments, score, summary)
    print(f"\n{measures_table(summary)}\n")
    print(
        f"{switches['switch_points']} switch points in {switches['utterances_with_switch']} utterances; near: within "
        f"{arguments.within} of one. -filtered: the other language deleted from both texts before"
    )


def _summary(arguments: argparse.Namespace, score: Score, normaliser: str = NONE) -> dict[str, Any]:
    by_speaker = arguments.resample == "speaker"
    return summarise(
        score, by_speaker=by_speaker, replicas=arguments.replicas, seed=arguments.seed, normaliser=normaliser
    )


def _write(arguments: argparse.Namespace, score: Score, summary: dict[str, Any]) -> None:
    if arguments.output:
        write_reports(arguments.output, score, summary, alignment=not arguments.no_alignment)
    low, high = summary["ci95"]
    print(f"{RATE_NAMES[score.unit]} {summary['value']:.2f} %  (95% interval {low:.2f} to {high:.2f})")
    _say_errors(summary, COUNTED[score.unit])
    print(f"{summary['sentence_error_rate']:.2f} % of {summary['utterances']} utterances hold an error")
    if score.speakers:
        worst = max(score.speakers, key=lambda name: score.speakers[name].rate)
        print(f"{len(score.speakers)} speakers, the worst {worst} at {100 * score.speakers[worst].rate:.2f} %")
    if arguments.output:
        print(f"written to {arguments.output}")


def _say_errors(summary: Mapping[str, Any], counted: str) -> None:
    print(
        f"{summary['errors']} errors in {summary['words']} {counted}: {summary['substitutions']} substitutions, "
        f"{summary['deletions']} deletions, {summary['insertions']} insertions"
    )


def _sa(arguments: argparse.Namespace) -> None:
    result = score_speakers(
        read_turns(arguments.ref),
        read_turns(arguments.hyp),
        groups=read_table(arguments.groups) if arguments.groups else None,
        meeteval=not arguments.no_meeteval,
        names=(arguments.ref, arguments.hyp),
    )
    summary = summarise_speakers(result, replicas=arguments.replicas, seed=arguments.seed)
    if arguments.output:
        write_speaker_reports(arguments.output, result, summary)
    low, high = summary["ci95"]
    print(f"SA-WER {summary['value']:.2f} %  (95% interval {low:.2f} to {high:.2f})")
    _say_errors(summary, f"words of {summary['utterances']} recordings")
    if "cpwer" in summary:
        bound = " at most" if result.orc_greedy else ""
        print(f"cpWER {summary['cpwer']['value']:.2f} %, ORC-WER{bound} {summary['orcwer']['value']:.2f} %")
    counting = summary["speaker_counting"]
    print(
        f"speaker counting error {counting['value']:.2f} %: {counting['missed']} missed and {counting['false_alarms']} "
        f"too many of {counting['speakers']}; {summary['unknown_speakers']} were not in the reference"
    )
    if "measures" in summary:
        print(f"\n{measures_table(summary)}\n")
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
        (_score(arguments, ref, hyp_a, utt2spk), _score(arguments, ref, hyp_b, utt2spk))
        for ref, hyp_a, hyp_b, utt2spk in zip(arguments.ref, arguments.hyp_a, arguments.hyp_b, speakers, strict=True)
    ]
    result = {
        "unit": arguments.unit,
        "normaliser": normaliser_called(arguments.normaliser)[1],
        **_comparison(arguments, names, pairs),
        "utterances": sum(len(pair[0].utterances) for pair in pairs),
        "bootstrap": {"replicas": arguments.replicas, "seed": arguments.seed, "resample": arguments.resample},
    }
    parts = {name: [(a.parts[name], b.parts[name]) for a, b in pairs] for name in pairs[0][0].parts}
    counted = {name: some for name, some in parts.items() if any(a.total.reference_length for a, _ in some)}
    if counted:
        result["measures"] = {name: _comparison(arguments, names, some) for name, some in counted.items()}
    if arguments.output:
        write_json(Path(arguments.output) / "compare.json", result)
    rate = RATE_NAMES[arguments.unit]
    for system in (result["a"], result["b"]):
        print(f"{rate} of {system['name']}: {system['value']:.2f} %  ({system['errors']} errors)")
    low, high = result["ci95"]
    print(f"{names[0]} less {names[1]}: {result['difference']:+.2f} points  (95% interval {low:+.2f} to {high:+.2f})")
    counted_in = f"{result['utterances']} utterances, {result['words']} {COUNTED[arguments.unit]}"
    print(f"p = {result['p_value']:.4f}, two-sided; {counted_in}")
    if counted:
        print(f"\n{comparison_table(result)}\n")
        print("the p-values are not corrected for their number")


def _score(arguments: argparse.Namespace, reference: str, hypothesis: str, utt2spk: str | None) -> Score:
    normaliser, name = normaliser_called(arguments.normaliser)
    if arguments.unit == "mixed":
        if name != NONE:
            raise InputError("--normaliser is for --unit word and char: mixed text has its own rules")
        return score_mixed_files(reference, hypothesis, utt2spk=utt2spk, within=arguments.within)
    return score_files(reference, hypothesis, unit=arguments.unit, utt2spk=utt2spk, normaliser=normaliser)


def _comparison(
    arguments: argparse.Namespace, names: Sequence[str], pairs: Sequence[tuple[Score, Score]]
) -> dict[str, Any]:
    by_speaker = arguments.resample == "speaker"
    test = compare(pairs, by_speaker=by_speaker, replicas=arguments.replicas, seed=arguments.seed)
    totals = [sum((pair[side].total for pair in pairs), start=ZERO) for side in (0, 1)]
    systems = [
        {"name": name, "value": percent(total.rate), **asdict(total), "errors": total.errors}
        for name, total in zip(names, totals, strict=True)
    ]
    return {
        "a": systems[0],
        "b": systems[1],
        "difference": percent(test.difference),
        "ci95": [percent(limit) for limit in test.ci95],
        "p_value": test.p_value,
        "probability_of_improvement": test.probability_of_improvement,
        "words": totals[0].reference_length,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m espnet_ext.bin.score",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--output", metavar="DIR", help="write the reports into this folder")
    common.add_argument("--seed", type=_count(0), default=0, help="of the bootstrap (default: 0)")
    common.add_argument("--replicas", type=_count(1), default=REPLICAS, help=f"of the bootstrap (default: {REPLICAS})")
    drawn = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    drawn.add_argument(
        "--resample", choices=("utterance", "speaker"), default="utterance", help="what the bootstrap draws"
    )
    one = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    one.add_argument("--ref", required=True, help="Kaldi text file")
    one.add_argument("--hyp", required=True, help="Kaldi text file; an id alone is an empty hypothesis")
    one.add_argument("--utt2spk", help="score by speaker too")
    one.add_argument("--no-alignment", action="store_true", help="do not write alignment.txt, half of the time")
    switch = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    switch.add_argument(
        "--within", type=_count(1), default=WITHIN, metavar="N", help=f"tokens near a switch (default: {WITHIN})"
    )
    wer = commands.add_parser("wer", parents=[common, drawn, one], allow_abbrev=False, help="score one system")
    _add_unit(wer, [unit for unit in UNITS if unit != "mixed"])
    _add_normaliser(wer)
    wer.set_defaults(run=_wer)
    mer = commands.add_parser(
        "mer", parents=[common, drawn, one, switch], allow_abbrev=False, help="score one system on Mandarin-English"
    )
    mer.set_defaults(run=_mer)
    speakers = commands.add_parser(
        "sa", parents=[common], allow_abbrev=False, help="score one system's speaker-attributed transcripts"
    )
    speakers.add_argument("--ref", required=True, help="SegLST: the utterances")
    speakers.add_argument("--hyp", required=True, help="SegLST: what was recognised")
    speakers.add_argument("--groups", help="table of recording and condition: score by condition too")
    speakers.add_argument("--no-meeteval", action="store_true", help="SA-WER alone")
    speakers.set_defaults(run=_sa)
    both = commands.add_parser(
        "compare", parents=[common, drawn, switch], allow_abbrev=False, help="test one system against another"
    )
    _add_unit(both, UNITS)
    _add_normaliser(both)
    both.set_defaults(run=_compare)
    both.add_argument("--ref", action="append", required=True, help="Kaldi text file")
    both.add_argument("--hyp-a", action="append", required=True, help="of the first system")
    both.add_argument("--hyp-b", action="append", required=True, help="of the second system")
    both.add_argument("--utt2spk", action="append", help="for --resample speaker")
    both.add_argument("--names", default="a,b", help="of the two systems (default: a,b)")
    return parser


def _add_unit(parser: argparse.ArgumentParser, units: Sequence[str]) -> None:
    parser.add_argument("--unit", choices=units, default="word", help="what is counted (default: word)")


def _add_normaliser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--normaliser", choices=NORMALISERS, default=NONE, help="what both texts go through first (default: none)"
    )


def _count(least: int):
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {value}")
        return value

    return parse


if __name__ == "__main__":
    run_main(main)
