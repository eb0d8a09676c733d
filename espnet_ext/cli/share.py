"""``espnet-ext pack`` and ``espnet-ext upload``: share a trained model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from espnet_ext.cli import options as common
from espnet_ext.errors import InputError


@click.command()
@click.argument("system", type=common.PATH)
@click.option("--output", type=common.PATH, metavar="FILE", help="The archive.  [default: SYSTEM.zip, here]")
@click.option("--decoding", default="default", show_default=True, help="The recipe's decoding whose search is packed.")
@common.path("--model", "Checkpoint.  [default: the average in the folder]")
@common.config("Options of espnet2.bin.asr_inference, instead of the recipe's.")
@common.path("--lm-config", "The config.yaml of a language model.", metavar="YAML")
@common.path("--lm-file", "Checkpoint of the language model.")
@common.path("--prior-file", "The token prior, prior.txt of the token stage.")
@click.option("--licence", default="", metavar="NAME", help="Licence of the weights, as hubs name it: cc-by-4.0.")
@click.option("--language", default="", metavar="A,B", help="Languages, as codes: en,zh.")
def pack(
    system: Path,
    output: Path | None,
    decoding: str,
    model: Path | None,
    config: Path | None,
    lm_config: Path | None,
    lm_file: Path | None,
    prior_file: Path | None,
    licence: str,
    language: str,
) -> None:
    """Pack a trained model into one archive, with a model card.

    SYSTEM is the folder of a training: of a recipe, such as egs/librispeech_sem/exp/mini/baseline/seed1, whose search,
    language model and row of results are packed too; or of ESPnet, such as exp/asr_train_conformer.
    """
    from espnet_ext.sharing import pack as packing

    if (lm_config is None) != (lm_file is None):
        raise InputError("a language model needs both --lm-config and --lm-file")
    found = packing.of_recipe(system, decoding)
    given: dict[str, Any] = {
        "model": model,
        "search": common.settings(config, {}) if config else None,
        "lm": (lm_config, lm_file) if lm_config else None,
        "prior": prior_file,
        "licence": licence or None,
        "language": common.names(language) or None,
    }
    found = replace(found, **{name: value for name, value in given.items() if value is not None})
    name = "_".join(part.name for part in (system.resolve().parent, system.resolve()))
    target = packing.pack(found, output or Path(f"{name}.zip"))
    click.echo(f"{target}: {target.stat().st_size / 1e6:.1f} MB. Load it: espnet_ext.load({str(target)!r})")


@click.command()
@click.argument("archive", type=common.PATH)
@click.argument("name")
@click.option("--private", is_flag=True, help="Only you and those whom you admit can read it.")
def upload(archive: Path, name: str, private: bool) -> None:
    """Upload a packed model to the hub as NAME, which is user/model.

    Log in first: hf auth login.
    """
    from espnet_ext.sharing.find import upload as to_hub

    click.echo(f"uploaded: {to_hub(archive, name, private=private)}")
