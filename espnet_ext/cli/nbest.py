"""``espnet-ext nbest`` and ``espnet-ext rescore``: N-best lists, and a second pass over
them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.errors import say
from espnet_ext.rescore import SCORERS
from espnet_ext.scoring.normalise import NORMALISERS

NAME = "second_lm"  # of added scores
OF_FIRST_PASS = "first_pass"
FORMATS = (
    "auto",
    "espnet",
    "espnet3",
    "kaldi",
    "nemo",
    "icefall",
    "wenet",
    "whisper",
    "srilm",
    "jsonl",
)
DTYPES = ("float32", "bfloat16", "float16")
OF_MODELS = ("scorer", "casing", "dtype", "positions")  # of rescore, for each --lm


_format = common.choice(
    "--format",
    FORMATS,
    "Toolkit that wrote the lists; auto looks at the files.",
    "form",
)


@click.group(cls=common.OrderedGroup)
def nbest() -> None:
    """Convert N-best lists; oracle error rates.

    Lists are JSONL (.jsonl, .jsonl.gz), or what a decoder has written: the output
    folder of an ESPnet decoding with --nbest, nbest.scp of ESPnet3 (docs/espnet3.md),
    archives.* of Kaldi, a folder of SRILM's n-best files, preds_out*.tsv of NeMo
    beside its manifest, the output of WeNet's decoder_main --output_nbest, recogs-*.txt
    of icefall, JSON of Whisper and faster-whisper.
    """


@nbest.command()
@common.nbest()
@common.references("References of the lists, in any format.", required=False)
@common.reference_format
@_format
@common.choice("--normaliser", NORMALISERS, "Rules for hypotheses and references.")
@common.selection
@common.output("The JSONL file to write.", metavar="FILE")
def convert(
    nbest: Path,
    ref: Path | None,
    reference_form: str,
    form: str,
    normaliser: str,
    parts: Mapping[str, float],
    depth: int | None,
    output: Path,
) -> None:
    """Convert N-best lists of any decoder to JSONL.

    A text that comes again in its list is dropped. All parts of scores are kept, also
    those that --first-pass leaves out of the total.
    """
    from espnet_ext.nbest.selection import Selection
    from espnet_ext.nbest.sources import convert_lists, find_oddities
    from espnet_ext.scoring.normalise import find_normaliser

    rules = None if normaliser == "none" else find_normaliser(normaliser)[0]
    lists, notes = convert_lists(
        nbest,
        output,
        ref,
        selection=Selection(parts, depth),
        form=form,
        reference_form=reference_form,
        rules=rules,
    )
    for line in (*notes, *find_oddities(lists)):
        say(line, error=True)
    say(
        f"{len(lists)} lists, {sum(len(each.hyps) for each in lists)} hypotheses "
        f"-> {output}"
    )


@nbest.command()
@common.nbest()
@common.references("References of the lists, in any format.", required=False)
@common.reference_format
@_format
@common.selection
def oracle(
    nbest: Path,
    ref: Path | None,
    reference_form: str,
    form: str,
    parts: Mapping[str, float],
    depth: int | None,
) -> None:
    """Word error rate of the best hypothesis among the first n. Each n has a line.

    A text that comes again in its list does not count.
    """
    from espnet_ext.nbest.oracle import format_oracle_report, make_oracle_report
    from espnet_ext.nbest.selection import Selection, select_hypotheses
    from espnet_ext.nbest.sources import find_oddities, read_lists

    read = read_lists(nbest, ref, form, reference_form)
    lists, notes = select_hypotheses(read, Selection(parts, depth), nbest)
    for line in (*notes, *find_oddities(lists)):
        say(line, error=True)
    say("\n".join(format_oracle_report(make_oracle_report(lists, nbest))))


def _parse_weights(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    """Return weights by names of scores; a number alone does not say whose it is."""
    from espnet_ext.rescore.weights import FIRST_PASS

    found: dict[str, float] = {}
    for value in values:
        given, _, number = value.rpartition("=")
        if not given:
            raise click.BadParameter(
                f"{value!r} does not say whose weight it is: {OF_FIRST_PASS}={value} "
                f"or {NAME}={value}"
            )
        name = FIRST_PASS if given == OF_FIRST_PASS else given
        if name in found:
            raise click.BadParameter(f"{given} has two weights")
        try:
            found[name] = float(number)
        except ValueError:
            raise click.BadParameter(f"{value!r} is not NAME=NUMBER") from None
    return found


@click.command()
@common.nbest()
@common.references(
    "References of the lists, in any format, to print error rates.", required=False
)
@common.reference_format
@_format
@common.selection
@click.option(
    "--lm",
    required=True,
    multiple=True,
    metavar="DIR",
    help="Folder, GGUF file or hub name of a model; repeat it for several.",
)
@common.choice("--scorer", SCORERS, "Kind of score.  [default: as saved]", default=None)
@common.casing
@common.path(
    "--tune-on",
    "Development lists to tune the weights on; repeat it for several.",
    metavar="LISTS",
    several=True,
)
@common.path("--tune-ref", "References of each --tune-on, in any format.", several=True)
@common.path(
    "--utt2spk",
    "Speakers of --nbest: the units of the gain's interval.  [default: a file of "
    "this name beside the lists or references, or those in LibriSpeech's ids]",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    callback=_parse_weights,
    metavar="NAME=X",
    help=(
        "The weight of the first pass (first_pass, lambda of eq. 1) or of a language "
        "model (second_lm, second_lm2 ...), if it is known; others have 1."
    ),
)
@common.choice(
    "--dtype", DTYPES, "Number format of the model; bfloat16 for large ones."
)
@click.option(
    "--positions",
    type=common.COUNT,
    metavar="N",
    help="Most tokens of one forward pass.  [default: 1024]",
)
@common.path(
    "--scores",
    "Folder of kept scores, which any rescoring may use again.  [default: scores "
    "in --output]",
    metavar="DIR",
    kind=common.WRITTEN,
)
@common.ngpu(several=True)
@common.output("Folder for the results.")
def rescore(
    ref: Path | None,
    lm: tuple[str, ...],
    tune_ref: tuple[Path, ...],
    parts: Mapping[str, float],
    depth: int | None,
    ngpu: int,
    **options: Any,
) -> None:
    """Rescore N-best lists with language models: a second pass after any decoder
    (Shivakumar 2023).

    `espnet-ext nbest --help` says which lists are read. A language model is a folder or
    hub name of Hugging Face transformers. The weight of the first pass (lambda of eq.
    1) comes from --tune-on or --weight. --tune-on finds the weight with the fewest word
    errors on development lists, by exact line search. With several --lm it tunes all
    weights, one after the other until none lowers the errors.

    Prints the error rates of the first pass and of the result, the gain with its
    interval, and the errors by each tuned weight. Writes nbest.jsonl (re-ranked), text
    (the best hypotheses), and after tuning interpolation.json (the weights) and
    curves.tsv (the errors by weight).

    \b
    Example: the folders of two ESPnet decodings
      espnet-ext rescore --nbest exp/asr/decode_test --tune-on exp/asr/decode_dev \\
          --tune-ref dump/raw/dev/text --lm gpt2 --scorer causal --casing lower \\
          --output exp/asr/rescored_test
    """
    from espnet_ext.nbest.selection import Selection
    from espnet_ext.rescore import second_pass

    of_models = {option: options.pop(option) for option in OF_MODELS}
    job = second_pass.SecondPass(
        reference=ref,
        tune_references=tune_ref,
        selection=Selection(parts, depth),
        **options,
    )
    models = [
        second_pass.LanguageModel(
            path, f"{NAME}{number if number > 1 else ''}", **of_models
        )
        for number, path in enumerate(lm, start=1)
    ]
    second_pass.rescore(job, models, ngpu=ngpu, log=say)
    say(f"written to {job.output}")
