"""``espnet-ext pack``: share a trained model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.errors import InputError, say


@click.command()
@click.argument("system", type=common.PATH)
@common.output(
    "Zip archive or new folder.  [default: SYSTEM.zip, here]",
    metavar="FILE",
    required=False,
)
@click.option(
    "--decoding",
    default="default",
    show_default=True,
    help="The recipe's decoding whose search is packed.",
)
@common.path("--model", "Checkpoint.  [default: the average in the folder]")
@common.config("Options of espnet2.bin.asr_inference, instead of the recipe's.")
@common.path("--lm-config", "The config.yaml of a language model.", metavar="YAML")
@common.path("--lm-file", "Checkpoint of the language model.")
@common.path(
    "--include",
    "File outside of the training's folders that may be packed; can be repeated.",
    several=True,
)
@click.option(
    "--licence",
    default="",
    metavar="NAME",
    help="Licence of the weights, as hubs name it: cc-by-4.0.",
)
@click.option(
    "--dataset",
    default="",
    metavar="ID",
    help="The corpus on the hub, such as openslr/librispeech_asr.",
)
@click.option(
    "--language", default="", metavar="A,B", help="Languages, as codes: en,zh."
)
def pack(
    system: Path,
    output: Path | None,
    decoding: str,
    model: Path | None,
    config: Path | None,
    lm_config: Path | None,
    lm_file: Path | None,
    licence: str,
    dataset: str,
    language: str,
    **given: Any,
) -> None:
    """Pack a trained model into one archive, with a model card.

    SYSTEM is the folder of a training: of a recipe, such as
    egs/librispeech_sem/exp/mini/baseline/seed1, whose search, language model and row of
    results are packed too; or of ESPnet, such as exp/asr_train_conformer. To put a
    folder on the hub: hf upload user/model FOLDER.
    """
    from espnet_ext.sharing import pack as packing

    if (lm_config is None) != (lm_file is None):
        raise InputError("a language model needs both --lm-config and --lm-file")
    found = packing.describe_recipe(system, decoding)
    card = replace(
        found.card,
        corpus=dataset or found.card.corpus,
        licence=licence,
        dataset=dataset,
        language=common.split_names(language),
    )
    # What the command line has comes before what the recipe says.
    found = packing.replace_parts(
        found,
        model=model or found.model,
        search=common.merge_settings(config, {}) if config else found.search,
        lm=(lm_config, lm_file) if lm_config and lm_file else found.lm,
        card=card,
        **given,
    )
    # Of a recipe, the folder's own name is a seed's, and the one above it the system's.
    whole = system.resolve()
    target = output or Path(f"{whole.parent.name}_{whole.name}.zip")
    for path in packing.pack(found, target):
        say(f"packed: {path}")
    say(f"{target}: load it with espnet_ext.load({str(target)!r})")
