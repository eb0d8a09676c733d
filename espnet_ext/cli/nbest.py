"""``espnet-ext nbest`` and ``espnet-ext rescore``: N-best lists, and a second pass over them."""

from pathlib import Path

import click

from espnet_ext.cli import options as common
from espnet_ext.cli.lazy import OrderedGroup
from espnet_ext.cli.score import NORMALISERS


@click.group(cls=OrderedGroup)
def nbest() -> None:
    """Convert and describe N-best lists; oracle error rates.

    Lists are JSONL (.jsonl), or what a decoder has written: the output folder of an ESPnet decoding with --nbest,
    archives.* of Kaldi, a folder of SRILM's n-best files, preds_out_width*.tsv of NeMo beside its manifest, the output
    of WeNet's decoder_main --output_nbest, recogs-*.txt of icefall, JSON of Whisper and faster-whisper, JSON of
    masked-LM-scoring tools.
    """


@nbest.command()
@common.nbest()
@common.references("Kaldi text with the references of the lists.", required=False)
@common.nbest_format()
@click.option("--distinct", is_flag=True, help="Drop a hypothesis whose text came before in its list.")
@click.option(
    "--normaliser",
    type=click.Choice(NORMALISERS),
    default="none",
    show_default=True,
    help="Rules for hypotheses and references.",
)
@common.output("The JSONL file to write.", metavar="FILE")
def convert(nbest: Path, ref: Path | None, form: str, distinct: bool, normaliser: str, output: Path) -> None:
    """Convert N-best lists of any decoder to JSONL."""
    from espnet_ext.nbest.sources import convert_lists, warnings_of
    from espnet_ext.scoring.normalise import normaliser_called

    rules = None if normaliser == "none" else normaliser_called(normaliser)[0]
    lists = convert_lists(nbest, output, ref, only_distinct=distinct, form=form, rules=rules)
    for warning in warnings_of(lists):
        click.echo(warning, err=True)
    click.echo(f"{len(lists)} lists, {sum(len(each.hyps) for each in lists)} hypotheses -> {output}")


@nbest.command()
@common.nbest()
@common.references("Kaldi text with the references of the lists.", required=False)
@common.nbest_format()
@click.option("--depth", type=common.COUNT, metavar="N", help="Look at the first N hypotheses only.  [default: all]")
@common.path("--best-text", "Write the oracle's choices as Kaldi text.")
@common.output("Write the numbers as JSON.", metavar="FILE", required=False)
def oracle(
    nbest: Path, ref: Path | None, form: str, depth: int | None, best_text: Path | None, output: Path | None
) -> None:
    """Word error rate of the best hypothesis among the first n.

    Prints it for n = 1, 2 ... up to --depth.
    """
    from espnet_ext.nbest.sources import read_lists, warnings_of
    from espnet_ext.nbest.statistics import oracle_lines, oracle_report, write_choice
    from espnet_ext.work.files import write_json

    lists = read_lists(nbest, ref, form)
    report = oracle_report(lists, depth)
    for warning in warnings_of(lists):
        click.echo(warning, err=True)
    if best_text:
        write_choice(best_text, lists, depth)
    if output:
        write_json(output, report)
    click.echo("\n".join(oracle_lines(report)))


@nbest.command()
@common.nbest()
@common.references("Kaldi text with the references of the lists.", required=False)
@common.nbest_format()
@click.option(
    "--wanted", type=common.COUNT, metavar="N", help="Count the lists with fewer distinct texts.  [default: longest]"
)
@common.output("Write the numbers as JSON.", metavar="FILE", required=False)
def stats(nbest: Path, ref: Path | None, form: str, wanted: int | None, output: Path | None) -> None:
    """How many lists, hypotheses and distinct texts there are."""
    from espnet_ext.nbest.sources import read_lists
    from espnet_ext.nbest.statistics import describe, statistics_lines, write_statistics

    found = describe(read_lists(nbest, ref, form))
    if output:
        write_statistics(output, found)
    click.echo("\n".join(statistics_lines(found, wanted)))


@click.command()
@common.nbest()
@common.references("Kaldi text with the references of the lists, to print error rates.", required=False)
@click.option("--lm", required=True, metavar="DIR", help="Folder or hub name of a transformers model.")
@click.option("--scorer", type=click.Choice(common.SCORERS), help="Kind of score.  [default: as saved]")
@click.option("--pooling", type=click.Choice(common.POOLINGS), help="Pooling of --scorer pooled.  [default: as saved]")
@common.casing()
@click.option("--name", help="Name of the added scores in the lists.  [default: the scorer's]")
@common.path(
    "--tune-on", "Development lists to tune the weight on; repeat it for several.", metavar="LISTS", several=True
)
@common.path("--tune-ref", "Kaldi text with the references of each --tune-on.", several=True)
@click.option("--weight", type=float, metavar="LAMBDA", help="The weight of the first pass, if it is known.")
@common.path("--weight-file", "The interpolation.json of an earlier run, for its weight.")
@common.ngpu()
@common.output("Folder for the results.")
def rescore(
    nbest: Path,
    ref: Path | None,
    lm: str,
    scorer: str | None,
    pooling: str | None,
    casing: str | None,
    name: str | None,
    tune_on: tuple[Path, ...],
    tune_ref: tuple[Path, ...],
    weight: float | None,
    weight_file: Path | None,
    ngpu: int,
    output: Path,
) -> None:
    """Rescore N-best lists with a language model: a second pass after any decoder (Shivakumar 2023).

    Lists are JSONL (`espnet-ext nbest convert` makes it), the output folder of an ESPnet decoding with --nbest, or the
    JSON of masked-LM-scoring tools. The language model is a folder or hub name of Hugging Face transformers. The weight
    of the first pass (lambda of eq. 1) comes from one of --tune-on, --weight and --weight-file. --tune-on finds the
    weight with the fewest word errors on development lists, by exact line search.

    Writes nbest.jsonl (re-ranked), text (the best hypotheses), and after tuning interpolation.json (the weight) and its
    curve.

    \b
    Example: the folders of two ESPnet decodings
      espnet-ext rescore --nbest exp/asr/decode_test --tune-on exp/asr/decode_dev \\
          --tune-ref dump/raw/dev/text --lm gpt2 --scorer causal --casing lower \\
          --output exp/asr/rescored_test
    """
    from espnet_ext.rescore import second_pass

    job = second_pass.SecondPass(
        nbest=nbest,
        output=output,
        name=name or scorer or "lm",
        reference=ref,
        tune_references=tune_ref,
        tune_on=tune_on,
        weight=weight,
        weight_file=weight_file,
    )
    model = second_pass.LanguageModel(lm, scorer=scorer, pooling=pooling, casing=casing)
    second_pass.rescore(job, model, ngpu=ngpu, say=click.echo)
    click.echo(f"written to {output}")
