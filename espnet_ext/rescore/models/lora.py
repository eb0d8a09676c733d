"""What language models of billions of parameters need in training: LoRA, and activations computed again.

LoRA (Hu et al. 2022) trains two small matrices beside each linear layer; the model itself stays as it is, in bfloat16
if wanted. ``transformers`` loads what is saved by its folder: the matrices, and the name of the model they belong to.
"""

from collections.abc import Iterable
from typing import Any

import torch

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.language_model import LmScorer
from espnet_ext.work.settings import Count, Share, StrictMapping, Text


class Lora(StrictMapping):
    """LoRA's options.

    Attributes:
        r: rank of the matrices.
        alpha: their product is multiplied by alpha / r.
        dropout: of their input.
        targets: names of layers; by default all linear ones but the vocabulary's.
    """

    r: Count = 8
    alpha: Count = 16
    dropout: Share = 0.0
    targets: tuple[Text, ...] = ()


def adaptation(scorer: LmScorer) -> dict[str, Any]:
    """Return what :func:`prepare` was told that the parameters do not show, for a training's key."""
    found: dict[str, Any] = {"amp": True} if scorer.amp else {}
    for own in getattr(scorer.model, "peft_config", {}).values():
        found["lora"] = {"alpha": own.lora_alpha, "dropout": own.lora_dropout}
    return found


def prepare(scorer: LmScorer, lora: Lora | None, gradient_checkpointing: bool, amp: bool = False) -> None:
    """Make a loaded model ready for training.

    Args:
        scorer: its model is changed in place. With ``lora`` only its matrices, in float32, and a pooling layer learn:
            those that the model has, or else new ones.
        lora: None trains all parameters.
        gradient_checkpointing: keep no activations inside of layers, and compute them again: less memory, a third more
            time.
        amp: compute in bfloat16, with parameters and their updates in float32.
    """
    model = scorer.model
    has_matrices = getattr(model, "_hf_peft_config_loaded", False)
    if lora is not None:
        _train_lora(model, lora) if has_matrices else _add_lora(model, lora)
    elif has_matrices:
        raise InputError("the model has matrices of LoRA: set lora, with the options that they were trained with")
    elif model.dtype != torch.float32 and model.dtype != torch.float64:
        raise InputError(
            f"dtype {str(model.dtype).removeprefix('torch.')}: its parameters are too coarse for small updates: train "
            "with lora, or leave dtype at float32 and set amp"
        )
    scorer.amp = amp
    if gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def _add_lora(model: Any, lora: Lora) -> None:
    try:
        from peft import LoraConfig
    except ImportError:
        raise InputError("lora needs peft: pip install peft") from None
    config = LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets) or "all-linear",
    )
    try:
        model.add_adapter(config)
    except ValueError as error:
        raise InputError(f"lora: {str(error).splitlines()[0]}") from None
    _in_float32(model)


def _train_lora(model: Any, lora: Lora) -> None:
    """Let the matrices learn that a model was loaded with."""
    (own,) = model.peft_config.values()
    has = {"r": own.r, "alpha": own.lora_alpha, "dropout": own.lora_dropout, "targets": _names(own.target_modules)}
    wanted = {**lora.model_dump(), "targets": _names(lora.targets) or has["targets"]}
    for name, value in wanted.items():
        if has[name] != value:
            raise InputError(
                f"lora: the model has matrices with {name} {has[name]}, not {value}: give the options that they have, "
                "or train the model that they belong to"
            )
    own.inference_mode = False
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)
    _in_float32(model)


def _names(layers: Iterable[str]) -> str:
    return layers if isinstance(layers, str) else ", ".join(sorted(layers))


def _in_float32(model: Any) -> None:
    """What learns has small updates, for which half precision is too coarse."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
