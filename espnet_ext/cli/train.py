"""``espnet-ext train``: language models for rescoring."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.rescore import SCORERS

Paths = tuple[Path, ...]


@click.group(cls=common.OrderedGroup)
def train() -> None:
    """Train language models for rescoring.

    ESPnet trains the ASR models: python -m espnet_ext.bin.asr_train, with all options
    of espnet2.bin.asr_train.
    """


def _add_training_options(scorers: tuple[str, ...]) -> common.Decorator:
    """Add the options of every training of a transformers model."""
    decorators = (
        common.output("Folder of the training; the best model is in model/."),
        common.ngpu(several=True),
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            metavar="N",
            help="Seed of chance.  [default: 0]",
        ),
        common.config(
            "Settings such as batch_size and lr; also lm, scorer, casing.",
            required=True,
        ),
        common.casing,
        common.choice(
            "--scorer",
            scorers,
            "Kind of score.  [default: what suits the model]",
            default=None,
        ),
        click.option(
            "--lm",
            metavar="DIR",
            help="Folder of a model and its tokenizer, or a name on the hub.",
        ),
    )

    # In reverse, as click lists the option of the last decorator first.
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in decorators:
            function = decorator(function)
        return function

    return decorate


@train.command()
@_add_training_options(("causal", "pll"))
@common.path(
    "--text",
    "Text to train on, one sentence per line, plain or .gz; repeat it for several.",
    several=True,
)
@common.path(
    "--transcripts", "Kaldi text to train on; repeat it for several.", several=True
)
@common.path("--dev-text", "Text to choose the model by, like --text.", several=True)
@common.path("--dev-transcripts", "Kaldi text to choose the model by.", several=True)
def lm(
    config: Path,
    ngpu: int,
    output: Path,
    text: Paths,
    transcripts: Paths,
    dev_text: Paths,
    dev_transcripts: Paths,
    **given: Any,
) -> None:
    """Train a transformers language model on text.

    A causal model learns to predict the next token, a bidirectional one masked tokens.
    Writes the model with the lowest loss on the development text, and training.json. A
    killed run resumes where it stopped.
    """
    from espnet_ext.rescore.training.lm_training import TextFiles, adapt_language_model

    texts = TextFiles(text, transcripts)
    dev_texts = TextFiles(dev_text, dev_transcripts)
    values = common.merge_settings(config, given)
    adapt_language_model(
        values, texts, dev_texts, output, source=str(config), ngpu=ngpu
    )


@train.command()
@_add_training_options(SCORERS)
@common.nbest(
    "N-best lists with references to train on; repeat it for several.", several=True
)
@common.path(
    "--dev",
    "N-best lists to choose the model by; repeat it for several.",
    metavar="LISTS",
    required=True,
    several=True,
)
@common.depth
def mwer(
    config: Path,
    ngpu: int,
    output: Path,
    nbest: Paths,
    dev: Paths,
    **given: str | int | None,
) -> None:
    """Train a language model to rescore N-best lists.

    The loss is the minimum word error rate (Shivakumar 2023, eq. 5 to 12). Lists have
    references and any format that `espnet-ext nbest --help` names; hypotheses and
    references must be normalised alike. Writes the model that rescores the development
    lists best, and training.json. A killed run resumes where it stopped.
    """
    from espnet_ext.rescore.training.mwer_training import train_rescorer

    train_rescorer(
        common.merge_settings(config, given),
        nbest,
        dev,
        output,
        source=str(config),
        ngpu=ngpu,
    )
