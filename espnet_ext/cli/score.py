"""``espnet-ext score``: error rates, and tests between systems."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.cli.lazy import OrderedGroup

NORMALISERS = ("none", "lower", "whisper_english", "librispeech", "mandarin_english")
MIXED_RULES = ("none", "lower", "mandarin_english")
COMPARED = ("wer", "cer", "mer", "sawer", "cpwer", "tcpwer")
FORMATS = ("auto", "kaldi", "trn", "stm", "ctm", "seglst")
RATES = {"word": "WER", "char": "CER", "mixed": "MER"}
LONG_COLLAR = 60.0  # seconds; collars of 1 to 10 are usual
NO_TIMES = "no tcpWER: some words have no times"
COUNTED = {"word": "words", "char": "chars", "mixed": "tokens"}


@click.group(cls=OrderedGroup)
def score() -> None:
    """Word, mixed and speaker-attributed error rates, and paired tests between systems."""


def _bootstrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the bootstrap."""
    replicas = click.option(
        "--replicas", type=common.COUNT, default=10_000, show_default=True, metavar="N", help="Bootstrap replicas."
    )
    return replicas(common.seed()(function))


def _resample(function: Callable[..., Any]) -> Callable[..., Any]:
    choice = click.Choice(["utterance", "speaker"])
    return click.option(
        "--resample", type=choice, default="utterance", show_default=True, help="What the bootstrap resamples."
    )(function)


def _unit(*units: str) -> Callable[..., Any]:
    return click.option("--unit", type=click.Choice(units), default="word", show_default=True, help="What is counted.")


def _normaliser(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--normaliser",
        type=click.Choice(NORMALISERS),
        default="none",
        show_default=True,
        help="Normalise both texts first.",
    )(function)


def _collar(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if value >= LONG_COLLAR:
        click.echo(f"warning: --collar is in seconds: words up to {value:g} s apart may match", err=True)
    return value


def _timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options for transcripts of other toolkits."""
    collar = click.option(
        "--collar",
        type=click.FloatRange(min=0, min_open=True),
        callback=_collar,
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="tcpWER: how far apart in time words may be that match.",
    )
    form = click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        default="auto",
        show_default=True,
        help="Format of the hypotheses. auto: by the file's name, or its first lines.",
    )
    return collar(form(function))


def _within(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--within", type=common.COUNT, default=1, show_default=True, metavar="N", help="Tokens near a switch point."
    )(function)


def _one_system(function: Callable[..., Any]) -> Callable[..., Any]:
    """The files of one system, and its reports."""
    for decorate in (
        click.option(
            "--alignment/--no-alignment", default=True, help="Write alignment.txt, which takes half the time."
        ),
        common.output("Write the reports into this folder.", required=False),
        common.path("--utt2spk", "Score each speaker too."),
        common.path("--hyp", "Kaldi text with the hypotheses; an id alone is an empty one.", required=True),
        common.references(),
    ):
        function = decorate(function)
    return function


@score.command()
@_one_system
@_unit("word", "char")
@_normaliser
@common.path("--kinds", "Table of utterance and the kind of each word: an error rate for each kind.")
@_resample
@_bootstrap
def wer(ref: Path, hyp: Path, output: Path | None, resample: str, replicas: int, seed: int, **options: Any) -> None:
    """Word or character error rate of one system.

    Prints the rate with its 95% bootstrap interval. --output writes score.json, per_utterance.tsv, alignment.txt and,
    with --utt2spk, per_speaker.tsv.
    """
    from espnet_ext.scoring.evaluate import Draws, evaluate_words
    from espnet_ext.scoring.score import MUCH_WRITING

    draws = Draws(replicas, seed, resample == "speaker")
    result, summary = evaluate_words(ref, hyp, output, draws=draws, **options)
    _print_score(result, summary, output)
    if result.of_writing > MUCH_WRITING * result.total.errors:
        click.echo(
            f"{result.of_writing} of the {result.total.errors} errors are only case or punctuation: --normaliser lower "
            "leaves case out, whisper_english and librispeech punctuation too",
            err=True,
        )


@score.command()
@_one_system
@_within
@click.option(
    "--rules",
    type=click.Choice(MIXED_RULES),
    default="none",
    show_default=True,
    help="Apply to both texts first. mandarin_english: case, punctuation, full width and noise marks do not count.",
)
@click.option(
    "--scripts",
    default="Han,Latin",
    show_default=True,
    metavar="A,B",
    help="The scripts of the two languages, by their names in Unicode.",
)
@_resample
@_bootstrap
def mer(
    ref: Path,
    hyp: Path,
    output: Path | None,
    scripts: str,
    resample: str,
    replicas: int,
    seed: int,
    **options: Any,
) -> None:
    """Mixed error rate of one system on code-switching speech.

    Counts Han characters and English words: both together (All), each language (CH and EN), and near the points where
    the language switches and elsewhere. Other languages are told apart by their --scripts: characters count where
    words are not spaced (Thai, kana), words elsewhere. --output writes what `score wer` does, measures.txt and parts/.
    """
    from espnet_ext.codeswitch.mixed_text import script_pair
    from espnet_ext.scoring.evaluate import Draws, evaluate_mixed
    from espnet_ext.scoring.score_files import measures_table

    draws, languages = Draws(replicas, seed, resample == "speaker"), script_pair(scripts)
    result, summary = evaluate_mixed(ref, hyp, output, languages=languages, draws=draws, **options)
    _print_score(result, summary, output)
    click.echo(f"\n{measures_table(summary)}\n")
    click.echo(
        f"{summary['switch_points']} switch points in {summary['utterances_with_switch']} utterances; near: within "
        f"{options['within']} of one. -filtered: the other language is deleted from both texts first"
    )


def _print_score(result: Any, summary: dict[str, Any], output: Path | None) -> None:
    from espnet_ext.scoring.evaluate import describe_errors

    low, high = summary["ci95"]
    click.echo(f"{RATES[result.unit]} {summary['value']:.2f} %  (95% interval {low:.2f} to {high:.2f})")
    click.echo(describe_errors(summary, COUNTED[result.unit]))
    click.echo(f"{summary['sentence_error_rate']:.2f} % of {summary['utterances']} utterances have an error")
    if result.speakers:
        worst = max(result.speakers, key=lambda name: result.speakers[name].rate)
        rate = 100 * result.speakers[worst].rate
        click.echo(f"{len(result.speakers)} speakers, the worst {worst} at {rate:.2f} %")
    _print_written(output)


def _print_written(output: Path | None) -> None:
    if output:
        click.echo(f"written to {output}")


@score.command()
@common.references("STM or SegLST (JSON) with the references.")
@common.path("--hyp", "STM, CTM or SegLST (JSON) with the hypotheses; a CTM's channels are speakers.", required=True)
@common.path("--groups", "Table of recording and condition: score each condition too.")
@_normaliser
@click.option("--meeteval/--no-meeteval", default=True, help="Compute cpWER, tcpWER and ORC-WER too.")
@_timed
@common.output("Write the reports into this folder.", required=False)
@_bootstrap
def sa(ref: Path, hyp: Path, output: Path | None, collar: float, replicas: int, seed: int, **options: Any) -> None:
    """Speaker-attributed error rates of one system.

    SA-WER counts words only under the right speaker. Beside it stand cpWER, tcpWER (where all words have times),
    ORC-WER and the error of speaker counting. A recording that a CTM does not name counts as silence.
    """
    from espnet_ext.scoring.evaluate import Draws, describe_errors, evaluate_speakers
    from espnet_ext.scoring.score_files import measures_table

    result, summary = evaluate_speakers(ref, hyp, output, collar=collar, draws=Draws(replicas, seed), **options)
    low, high = summary["ci95"]
    click.echo(f"SA-WER {summary['value']:.2f} %  (95% interval {low:.2f} to {high:.2f})")
    click.echo(describe_errors(summary, f"words of {summary['utterances']} recordings"))
    if "cpwer" in summary:
        bound = " at most" if result.orc_greedy else ""
        timed = f"tcpWER {summary['tcpwer']['value']:.2f} % (collar {collar:g} s)" if "tcpwer" in summary else NO_TIMES
        click.echo(
            f"cpWER {summary['cpwer']['value']:.2f} %, ORC-WER{bound} {summary['orcwer']['value']:.2f} %, {timed}"
        )
    counting = summary["speaker_counting"]
    click.echo(
        f"speaker counting error {counting['value']:.2f} %: {counting['missed']} missed and {counting['false_alarms']} "
        f"too many of {counting['speakers']}; {summary['unknown_speakers']} were not in the reference"
    )
    if "measures" in summary:
        click.echo(f"\n{measures_table(summary)}\n")
    _print_written(output)


@score.command()
@common.references("The reference: Kaldi text, trn, STM, CTM or SegLST (JSON).")
@click.option(
    "--system",
    "systems",
    multiple=True,
    required=True,
    metavar="NAME=FILE[,FILE...]",
    help="A system: one hypothesis file, or one for each seed, in the same order for all. Repeat it.",
)
@click.option("--metric", type=click.Choice(COMPARED), default="wer", show_default=True, help="The error rate.")
@_timed
@click.option(
    "--ref-format",
    "reference_form",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="Format of the reference.",
)
@common.path("--utt2spk", "Speakers of utterances or recordings: the units of the test.")
@_normaliser
@click.option(
    "--utterances",
    type=common.COUNT,
    default=10_000,
    show_default=True,
    metavar="N",
    help="Utterances that can be browsed, those with most errors first.",
)
@common.output("Write compare.json, .html, .md and .tex into this folder.", required=False)
def compare(
    ref: Path,
    systems: tuple[str, ...],
    metric: str,
    collar: float,
    normaliser: str,
    utterances: int,
    output: Path | None,
    **options: Any,
) -> None:
    """Compare systems of any toolkit on one reference.

    Prints their error rates and a paired test of each two of them, corrected for the number of pairs (Holm). With three
    seeds or more a system the test covers other trainings and other speakers; with fewer, other speakers only.
    compare.html shows the aligned errors of all systems side by side. docs/comparing.md has examples for each format.
    """
    from espnet_ext.pages.compare import write_comparison
    from espnet_ext.scoring.alignments import Measure
    from espnet_ext.scoring.comparison import compare_systems, parse_system
    from espnet_ext.scoring.comparison_tables import plain_text

    measure = Measure(metric, normaliser, collar)
    compared = compare_systems(ref, [parse_system(text) for text in systems], measure, **options)
    if output:
        write_comparison(output, compared, utterances)
    click.echo(plain_text(compared.result))
    _print_written(output)
