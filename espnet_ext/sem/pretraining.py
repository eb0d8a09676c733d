"""Layer-wise pre-training of a BLSTM encoder with max-pooling: the plan, and parameters carried from step to step.

The scheme is that of P2's reference [17] (Zeyer et al. 2018) in its published configuration. First a small encoder with
a high time reduction learns to align. Then layers are added below its top layer. Then it gets its final time reduction,
and last its label smoothing.
"""

import argparse
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write
from espnet_ext.work.yaml_files import deep_merge, read_yaml, write_yaml

if TYPE_CHECKING:
    import torch

LAYER = re.compile(r"encoder\.layers\.(\d+)\.")


@dataclass(frozen=True)
class PretrainSettings:
    """Settings of a pre-training.

    Attributes:
        start_layers: layers of the first steps.
        time_reduction: product of the pooling factors, except in the last step.
        first_epochs: epochs of the first step, which has no dropout.
        epochs: epochs of each other step.
    """

    start_layers: int = 2
    time_reduction: int = 32
    first_epochs: int = 10
    epochs: int = 5


@dataclass(frozen=True)
class PretrainStep:
    """One training of the plan.

    Attributes:
        name: such as ``layers2_reduction32_nodropout``.
        layers: number of encoder layers.
        config: its complete training config.
    """

    name: str
    layers: int
    config: dict[str, Any]


def parse_settings(values: Mapping[str, Any]) -> PretrainSettings:
    """Settings from YAML.

    Raises:
        InputError: an unknown name, or a value that is not a whole number of at least 1.
    """
    known = PretrainSettings.__dataclass_fields__
    for name, value in values.items():
        if name not in known:
            raise InputError(f"pre-training: unknown setting {name}: only {', '.join(known)} are known")
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"pre-training: {name} must be a whole number of at least 1, not {value!r}")
    return PretrainSettings(**values)


def plan(config: Mapping[str, Any], settings: PretrainSettings) -> list[PretrainStep]:
    """The trainings before that of ``config`` itself, first to last.

    1. ``start_layers`` layers with the high time reduction, without dropout and label smoothing;
    2. the same with dropout;
    3. one more layer per step, up to the number in ``config``;
    4. the time reduction of ``config``. Only the training after it has label smoothing.

    A schedule ``warmup_plateau`` continues from step to step if ``num_iters_per_epoch`` gives the length of an epoch.

    Raises:
        InputError: the encoder is not ``blstm_maxpool``, or numbers of layers or time reductions do not fit.
    """
    encoder = config.get("encoder_conf") or {}
    if config.get("encoder") != "blstm_maxpool" or "num_layers" not in encoder or "pooling" not in encoder:
        raise InputError("pre-training needs encoder: blstm_maxpool, with num_layers and pooling in its encoder_conf")
    last = encoder["num_layers"]
    if settings.start_layers > last:
        raise InputError(f"pre-training starts with {settings.start_layers} layers, but the encoder has only {last}")
    shapes = [(layers, high_reduction(layers, settings)) for layers in range(settings.start_layers, last + 1)]
    names = [f"layers{layers}_reduction{settings.time_reduction}" for layers, _ in shapes]
    last_shape = (last, list(encoder["pooling"]))
    shapes = [shapes[0], *shapes, last_shape]
    names = [f"{names[0]}_nodropout", *names, f"layers{last}_reduction{math.prod(last_shape[1])}"]
    steps, updates = [], 0
    for number, (name, (layers, pooling)) in enumerate(zip(names, shapes, strict=True)):
        epochs = settings.epochs if number else settings.first_epochs
        over = {
            "encoder_conf": {"num_layers": layers, "pooling": pooling} | ({} if number else {"dropout_rate": 0.0}),
            "model_conf": {"lsm_weight": 0.0},
            "max_epoch": epochs,
            "patience": None,
            "keep_nbest_models": 1,
        }
        steps.append(PretrainStep(name, layers, continued(deep_merge(config, over), updates)))
        updates += epochs * (config.get("num_iters_per_epoch") or 0)
    return steps


def final_config(config: Mapping[str, Any], settings: PretrainSettings) -> dict[str, Any]:
    """``config`` as it is trained after the plan: its schedule continues that of the last step."""
    epochs = sum(step.config["max_epoch"] for step in plan(config, settings))
    return continued(dict(config), epochs * (config.get("num_iters_per_epoch") or 0))


def high_reduction(layers: int, settings: PretrainSettings) -> list[int]:
    """Pooling factors 2 after all layers but the top one; the last factor is larger, to give the whole reduction.

    >>> high_reduction(2, PretrainSettings()), high_reduction(4, PretrainSettings())
    ([32], [2, 2, 8])

    Raises:
        InputError: a single layer, or a time reduction that is not a multiple of the other factors.
    """
    below = 2 ** (layers - 2) if layers > 1 else 0
    if not below or settings.time_reduction % below or settings.time_reduction < below:
        raise InputError(
            f"pre-training: a time reduction of {settings.time_reduction} is impossible with {layers} layers "
            "if all but the top one are pooled by 2 or more"
        )
    return [2] * (layers - 2) + [settings.time_reduction // below]


def continued(config: dict[str, Any], updates: int) -> dict[str, Any]:
    """``config`` with a learning-rate schedule that continues after ``updates``, if its class can do that."""
    if config.get("scheduler") != "warmup_plateau" or not updates:
        return config
    return deep_merge(config, {"scheduler_conf": {"start_step": updates}})


def write_plan(config: Path, settings: Mapping[str, Any], folder: Path) -> list[tuple[str, Path]]:
    """Write the configs of the steps and of the training that they lead to.

    Args:
        config: config of the training itself.
        settings: as in YAML (see `parse_settings`).
        folder: where the configs go, ``<name>.yaml``.

    Returns:
        Names of the steps and their configs, first to last; the training itself comes last, as ``final``.

    Raises:
        InputError: settings or a config that do not fit (see `parse_settings`, `plan`).
    """
    values, parsed = read_yaml(config), parse_settings(settings)
    steps = [(step.name, step.config) for step in plan(values, parsed)]
    written = []
    for name, step in [*steps, ("final", final_config(values, parsed))]:
        write_yaml(folder / f"{name}.yaml", step, f"Pre-training: {name} of {config}")
        written.append((name, folder / f"{name}.yaml"))
    return written


def carry_parameters(model: Path, model_config: Path, config: Path, seed: int, output: Path) -> list[str]:
    """Write the initial parameters of a step, carried over from the step before; a file for ``--init_param``.

    Args:
        model: the parameters that the step before has trained.
        model_config: the ``config.yaml`` that ESPnet wrote beside them.
        config: training config of the next step; options that it does not set are as in ``model_config``.
        seed: seed of the new layers' values.
        output: the file to write.

    Returns:
        Names of the new parameters and buffers.

    Raises:
        InputError: a file that cannot be read, or parameters that do not fit (see `carry`).
    """
    import torch
    from espnet2.tasks.asr import ASRTask

    from espnet_ext import register
    from espnet_ext.upstream.checkpoint import load_parameters

    before = read_yaml(model_config)
    after = deep_merge(before, read_yaml(config))
    old = load_parameters(model)
    register()
    torch.manual_seed(seed)
    new = ASRTask.build_model(argparse.Namespace(**after)).state_dict()
    layers = [each["encoder_conf"]["num_layers"] for each in (before, after)]
    state, fresh = carry(old, new, *layers)
    with atomic_write(output, "wb") as file:
        torch.save(state, file)
    print(f"{output}: {len(state) - len(fresh)} parameters and buffers of {model}, {len(fresh)} new ones")
    for name in fresh:
        print(f"new: {name} {tuple(state[name].shape)}")
    return fresh


def carry(
    old: "Mapping[str, torch.Tensor]", new: "Mapping[str, torch.Tensor]", old_layers: int, new_layers: int
) -> "tuple[dict[str, torch.Tensor], list[str]]":
    """Parameters and buffers for a step from those of the step before, by name.

    The top layer stays on top, and the others stay at the bottom. New layers go in between, with the values of ``new``.

    Args:
        old: the trained model, with ``old_layers`` encoder layers.
        new: the next model as initialised, with ``new_layers``.

    Returns:
        The parameters and buffers of the next model; the names of those that are not from ``old``.

    Raises:
        InputError: a parameter of ``old`` that ``new`` lacks, one of ``new`` outside the new layers that ``old`` lacks,
            or another shape; the message names it.
    """
    carried = {rename(name, old_layers, new_layers): value for name, value in old.items()}
    unknown = [name for name in carried if name not in new]
    if unknown:
        raise InputError(f"pre-training: {unknown[0]} of the step before has no place in the next model")
    for name, value in carried.items():
        if value.shape != new[name].shape:
            raise InputError(
                f"pre-training: {name} is {tuple(value.shape)} in the step before, {tuple(new[name].shape)} in the next"
            )
    fresh = [name for name in new if name not in carried]
    expected = range(old_layers - 1, new_layers - 1)
    layers = {name: LAYER.match(name) for name in fresh}
    stray = [name for name, layer in layers.items() if layer is None or int(layer[1]) not in expected]
    if stray:
        raise InputError(f"pre-training: {stray[0]} of the next model is in no new layer, and the step before lacks it")
    return {name: carried.get(name, value) for name, value in new.items()}, fresh


def rename(name: str, old_layers: int, new_layers: int) -> str:
    """The name in the next model: only the number of the top layer changes.

    >>> rename("encoder.layers.1.forwards.bias_ih_l0", 2, 3), rename("encoder.layers.0.forwards.bias_ih_l0", 2, 3)
    ('encoder.layers.2.forwards.bias_ih_l0', 'encoder.layers.0.forwards.bias_ih_l0')
    """
    top = f"encoder.layers.{old_layers - 1}."
    return f"encoder.layers.{new_layers - 1}.{name.removeprefix(top)}" if name.startswith(top) else name
