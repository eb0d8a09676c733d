"""``espnet-ext score``: error rates, and tests between systems."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.cli.options import FORMATS
from espnet_ext.errors import say, warn
from espnet_ext.scoring.normalise import FOR_MIXED_TEXT, NORMALISERS

COMPARED = ("wer", "cer", "mer", "sawer", "cpwer", "tcpwer")
RATES = {"word": ("WER", "words"), "char": ("CER", "chars"), "mixed": ("MER", "tokens")}
LONG_COLLAR = 60.0  # seconds; collars of 1 to 10 are usual

_reports = common.output("Write the reports into this folder.", required=False)
_hypotheses = common.path(
    "--hyp",
    "Hypotheses, in any of these formats; in Kaldi text an id alone is an empty one.",
    required=True,
)
_speakers = common.path("--utt2spk", "Score each speaker too.")


@click.group(cls=common.OrderedGroup)
def score() -> None:
    """Word, mixed and speaker-attributed error rates, and tests between systems."""


_normaliser = common.choice("--normaliser", NORMALISERS, "Normalise both texts first.")


def _check_collar(
    context: click.Context, parameter: click.Parameter, value: float
) -> float:
    if value >= LONG_COLLAR:
        say(
            f"warning: --collar is in seconds: words up to {value:g} s apart may match",
            error=True,
        )
    return value


def _formats(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format`` and ``--ref-format``."""
    what = "Format of the hypotheses. auto: by the file's name, or its first lines."
    return common.choice("--format", FORMATS, what, "form")(
        common.reference_format(function)
    )


_collar = click.option(
    "--collar",
    type=click.FloatRange(min=0, min_open=True),
    callback=_check_collar,
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="tcpWER: how far apart in time words may be that match.",
)


@score.command()
@common.references()
@_hypotheses
@_speakers
@common.choice("--unit", ("word", "char"), "What is counted.")
@common.choice(
    "--align",
    ("recording", "segment"),
    "What is aligned of recordings. segment: each segment of an STM with a CTM, as "
    "sclite does (without case, a;x as a, @ as nothing, and (a) may be left out).",
    "alignment",
)
@_formats
@_normaliser
@_reports
def wer(
    ref: Path, hyp: Path, output: Path | None, alignment: str, **options: Any
) -> None:
    """Word or character error rate of one system.

    Prints the rate with its 95% bootstrap interval. --output writes score.json,
    per_utterance.tsv, alignment.txt and, with --utt2spk, per_speaker.tsv.
    """
    from espnet_ext.scoring.score_files import evaluate

    by_segment = alignment == "segment"
    result, summary = evaluate(ref, hyp, output, by_segment=by_segment, **options)
    _print_score(result, summary, output)


@score.command()
@common.references()
@_hypotheses
@_speakers
@common.choice(
    "--normaliser",
    FOR_MIXED_TEXT,
    "Normalise both texts first. mandarin_english: case, punctuation, full width "
    "and noise marks do not count.",
)
@_formats
@_reports
def mer(ref: Path, hyp: Path, output: Path | None, **options: Any) -> None:
    """Mixed error rate of one system on code-switching speech.

    Counts Han characters and English words: both together (All), each language (CH and
    EN), and near the points where the language switches and elsewhere. --output writes
    what `score wer` does, measures.txt and parts/.
    """
    from espnet_ext.scoring.score_files import evaluate, format_measures
    from espnet_ext.text.mixed_text import find_other_letters

    result, summary = evaluate(ref, hyp, output, unit="mixed", **options)
    texts = [*result.reference.values(), *result.hypothesis.values()]
    others = find_other_letters(texts)
    if others:
        warn(f"letters that are neither Han nor Latin count as English: {others}")
    _print_score(result, summary, output)
    say(f"\n{format_measures(summary)}\n")
    say(
        f"{summary['switch_points']} switch points in "
        f"{summary['utterances_with_switch']} utterances; near: within "
        f"{summary['within']} of one. -filtered: the other language is deleted "
        "from both texts first"
    )


def _print_score(result: Any, summary: Mapping[str, Any], output: Path | None) -> None:
    from espnet_ext.scoring.score import advise_on_writing

    name, counted = RATES[result.unit]
    _print_rate(name, summary, counted)
    say(
        f"{summary['sentence_error_rate']:.2f} % of {summary['utterances']} "
        f"{result.whole}s have an error"
    )
    advice = advise_on_writing(result.of_writing, result.total.errors)
    if advice:
        warn(advice)
    if result.whole in ALIGNED:
        say(ALIGNED[result.whole])
    if result.speakers:
        rates = {}
        for speaker, counts in result.speakers.items():
            # Who says nothing in the reference has no rate.
            if counts.reference_length:
                rates[speaker] = 100 * counts.rate
        worst = max(rates, key=lambda speaker: rates[speaker])
        say(
            f"{len(result.speakers)} speakers, the worst {worst} at "
            f"{rates[worst]:.2f} %"
        )
    _print_end(result, output)


ALIGNED = {
    "recording": "whole recordings are aligned; sclite aligns each segment of an STM: "
    "--align segment",
    "segment": "each segment is aligned, as sclite does, without case",
}


def _print_end(result: Any, output: Path | None) -> None:
    silent = result.silent
    if silent:
        say(
            f"in {len(silent)} {result.whole}s nothing is said ({silent[0]}): what is "
            "recognised there is inserted"
        )
    if output:
        say(f"written to {output}")


def _print_rate(name: str, summary: Mapping[str, Any], counted: str) -> None:
    from espnet_ext.scoring.score_files import describe_interval

    say(f"{name} {summary['value']:.2f} %  ({describe_interval(summary)})")
    say(
        f"{summary['errors']} errors in {summary['words']} {counted}: "
        f"{summary['substitutions']} substitutions, "
        f"{summary['deletions']} deletions, {summary['insertions']} insertions"
    )


@score.command()
@common.references("STM or SegLST (JSON) with the references.")
@common.path(
    "--hyp",
    "STM, CTM or SegLST (JSON) with the hypotheses; a CTM's channels are speakers.",
    required=True,
)
@common.path("--groups", "Table of recording and condition: score each condition too.")
@_formats
@_normaliser
@_collar
@_reports
def sa(ref: Path, hyp: Path, output: Path | None, **options: Any) -> None:
    """Speaker-attributed error rates of one system.

    SA-WER counts words only under the right speaker. Beside it stand cpWER, tcpWER
    (where all words have times) and the error of speaker counting. A recording that a
    CTM does not name counts as silence.
    """
    from espnet_ext.scoring.score import advise_on_writing
    from espnet_ext.scoring.score_files import format_measures
    from espnet_ext.scoring.speaker_attributed import evaluate_speakers

    result, summary = evaluate_speakers(ref, hyp, output, **options)
    _print_rate("SA-WER", summary, f"words of {summary['utterances']} recordings")
    times = "no tcpWER: times are missing"
    tcp = summary.get("tcpwer")
    if tcp:
        times = f"tcpWER {tcp['value']:.2f} % (collar {tcp['collar']:g} s)"
    say(f"cpWER {summary['cpwer']['value']:.2f} %, {times}")
    named = 0  # speakers who are given words, and are in the reference
    unknown = []
    for recording, own in result.pairs.items():
        for name, (real, words) in own.items():
            if words and real:
                named += 1
            elif words:
                unknown.append(f"{name} of {recording}")
    counting = summary["speaker_counting"]
    example = f" ({unknown[0]})" if unknown else ""
    say(
        f"speaker counting error {counting['value']:.2f} %: {counting['missed']} "
        f"missed and {counting['false_alarms']} too many of {counting['speakers']}; "
        f"{summary['unknown_speakers']} were not in the reference{example}"
    )
    if unknown and not named:
        warn(
            f"{hyp}: no speaker has a name of {ref}, so SA-WER counts each word "
            "as missed and inserted: see cpWER"
        )
    if "measures" in summary:
        say(f"\n{format_measures(summary)}\n")
    advice = advise_on_writing(*result.of_writing)
    if advice:
        warn(advice)
    _print_end(result.score, output)


@score.command()
@common.references("The reference: Kaldi text, trn, STM, CTM or SegLST (JSON).")
@click.option(
    "--system",
    "systems",
    multiple=True,
    required=True,
    metavar="NAME=FILE[,FILE...]",
    help=(
        "A system: one hypothesis file, or one for each seed, in the same order for "
        "all. Repeat it."
    ),
)
@common.choice("--metric", COMPARED, "The error rate.")
@_collar
@_formats
@common.path(
    "--utt2spk", "Speakers of utterances or recordings: the units of the test."
)
@_normaliser
@common.output("Write compare.json and compare.html into this folder.", required=False)
def compare(
    ref: Path,
    systems: tuple[str, ...],
    metric: str,
    collar: float,
    normaliser: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Compare systems of any toolkit on one reference.

    Prints their error rates and a paired test of each two of them, corrected for the
    number of pairs (Holm). With three seeds or more a system the test covers other
    trainings and other speakers; with fewer, other speakers only. compare.html shows
    the aligned errors of all systems side by side. docs/comparing.md has examples for
    each format.
    """
    from espnet_ext.pages.compare import write_comparison
    from espnet_ext.scoring.alignments import Measure
    from espnet_ext.scoring.comparison import compare_systems, parse_system
    from espnet_ext.scoring.comparison_tables import format_comparison

    measure = Measure(metric, normaliser, collar)
    context = click.get_current_context()
    # Files within the value of an option, which no Utf8Path has seen.
    read = []
    for text in systems:
        system = parse_system(text)
        files = tuple(common.spool_pipe(path, context) for path in system.files)
        read.append(replace(system, files=files))
    compared = compare_systems(ref, read, measure, **options)
    if output:
        write_comparison(output, compared)
    say(format_comparison(compared.result))
    if output:
        say(f"written to {output}")
