"""Check that models that the authors have published are what their folders say."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.work.yaml_files import read_yaml

COMPARED = ("num_blocks", "attention_heads", "output_size", "positions")
ROTARY = ("rotary_base",)  # of models with rotary positions
CONTEXT = 0.03  # relative difference of contexts: the authors' 10 s are 10.24


def check_model(file: Path, system: str, config: Mapping[str, Any]) -> None:
    """Compare the config of a model with that of the system whose place it takes.

    Args:
        file: the model's ``config.yaml``.
        system: the system's name, which ends with its context, such as ``base_10``.
        config: the system's.

    Raises:
        InputError: no such file, another encoder or another context.
    """
    if not file.is_file():
        raise InputError(
            f"{file}: no such file: make it with local/import_checkpoint.py"
        )
    found = read_yaml(file)
    advice = f"is this the model of another system, or --scale another? ({file})"
    wanted = config["encoder_conf"]
    own = found.get("encoder_conf") or {}
    compared = COMPARED
    if wanted["positions"] == "rotary":
        compared += ROTARY
    for key in compared:
        if own.get(key) != wanted[key]:
            raise InputError(
                f"{system} has {key} {wanted[key]}, and its model {own.get(key)}: "
                f"{advice}"
            )
    seconds = config["chunk_conf"]["max_seconds"]
    context = (found.get("chunk_conf") or {}).get("max_seconds")
    is_number = isinstance(context, int | float)
    if not is_number or abs(context - seconds) > CONTEXT * seconds:
        raise InputError(
            f"{system} has a context of {seconds:g} s, and its model {context}: "
            f"{advice}"
        )
