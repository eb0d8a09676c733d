"""Layer-wise pre-training of a BLSTM encoder with max-pooling: the plan, and parameters carried from step to step.

The scheme is that of P2's reference [17] (Zeyer et al. 2018) in its published configuration. First a small encoder
with a high time reduction learns to align, on short utterances to begin with. Then layers are added below its top
layer. Then it gets its final time reduction, and last its label smoothing.
"""

import argparse
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from espnet_ext.errors import InputError
from espnet_ext.sem.curriculum import Selection
from espnet_ext.work.files import atomic_write, write_json
from espnet_ext.work.settings import Count, StrictMapping, Whole, checked
from espnet_ext.work.yaml_files import deep_merge, read_yaml, write_yaml

if TYPE_CHECKING:
    import torch

LAYER = re.compile(r"encoder\.layers\.(\d+)\.")
FINAL = "final"  # the training that the steps lead to
WHAT = "pre-training"  # begins messages about its settings


class PretrainSettings(StrictMapping):
    """Settings of a pre-training.

    Attributes:
        start_layers: layers of the first steps.
        time_reduction: product of the pooling factors, except in the last step.
        first_epochs: epochs without dropout, with the first layers.
        epochs: epochs of each step after these.
        first_max_tokens: longest transcript, in tokens, in the epochs without dropout (None: as later).
        short_epochs: how many of the epochs without dropout see short utterances only.
        short_mean_chars: mean length of their transcripts, in characters.
        short_parts: the parts of the corpus that they are of (empty: all).
    """

    start_layers: Count = 2
    time_reduction: Count = 32
    first_epochs: Count = 10
    epochs: Count = 5
    first_max_tokens: Count | None = None
    short_epochs: Whole = 0
    short_mean_chars: Count | None = None
    short_parts: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_epochs(self) -> Self:
        if self.short_epochs >= self.first_epochs:
            raise ValueError(
                f"short_epochs ({self.short_epochs}) must be fewer than first_epochs ({self.first_epochs})"
            )
        return self


@dataclass(frozen=True)
class PretrainStep:
    """One training of the plan.

    Attributes:
        name: such as ``layers2_reduction32_nodropout``; ``final`` for the one that the others lead to.
        selection: what it sees of the training set.
        config: its complete training config.
    """

    name: str
    selection: Selection
    config: dict[str, Any]


def plan(config: Mapping[str, Any], settings: PretrainSettings, max_tokens: int | None = None) -> list[PretrainStep]:
    """The trainings that lead to ``config``, first to last, and it itself as ``final``.

    1. ``start_layers`` layers with the high time reduction, without dropout in the encoder and without label smoothing;
       the first ``short_epochs`` on short utterances;
    2. the same with dropout;
    3. one more layer per step, up to the number in ``config``;
    4. the time reduction of ``config``;
    5. the training itself, with label smoothing. ``max_epoch`` counts the epochs of all steps.

    A schedule ``newbob_multi_epoch`` continues from step to step, and so do the moments of ``continued_adam`` where a
    step has no new parameters.

    Args:
        config: config of the training itself.
        settings: of its pre-training.
        max_tokens: longest transcript, in tokens, that any step sees (None: any).

    Raises:
        InputError: the encoder is not ``blstm_maxpool``; numbers of layers or time reductions do not fit; or
            ``max_epoch`` is used up by the steps.
    """
    encoder = config.get("encoder_conf") or {}
    if not grows(config) or "num_layers" not in encoder or "pooling" not in encoder:
        raise InputError("pre-training needs encoder: blstm_maxpool, with num_layers and pooling in its encoder_conf")
    last = encoder["num_layers"]
    if settings.start_layers > last:
        raise InputError(f"pre-training starts with {settings.start_layers} layers, but the encoder has only {last}")
    shapes = [(layers, high_reduction(layers, settings)) for layers in range(settings.start_layers, last + 1)]
    names = [f"layers{layers}_reduction{settings.time_reduction}" for layers, _ in shapes]
    first, every = Selection(settings.first_max_tokens or max_tokens), Selection(max_tokens)
    short = Selection(first.max_tokens, settings.short_mean_chars, settings.short_parts)
    begin = [
        (f"{names[0]}_nodropout_short", short, settings.short_epochs),
        (f"{names[0]}_nodropout", first, settings.first_epochs - settings.short_epochs),
    ]
    nodropout = {"encoder_conf": _shape(*shapes[0]) | {"dropout_rate": 0.0}}
    steps = [_step(config, name, selection, epochs, nodropout) for name, selection, epochs in begin if epochs]
    whole = f"layers{last}_reduction{math.prod(encoder['pooling'])}"
    for name, shape in [*zip(names, shapes, strict=True), (whole, (last, list(encoder["pooling"])))]:
        steps.append(_step(config, name, every, settings.epochs, {"encoder_conf": _shape(*shape)}))
    left = config["max_epoch"] - sum(step.config["max_epoch"] for step in steps)
    if left < 1:
        raise InputError(f"pre-training takes all of the {config['max_epoch']} epochs (max_epoch): have more of them")
    return [*steps, PretrainStep(FINAL, every, {**config, "max_epoch": left})]


def grows(config: Mapping[str, Any]) -> bool:
    """Return whether the encoder of a training config is one that can be trained layer by layer."""
    return config.get("encoder") == "blstm_maxpool"


def _shape(layers: int, pooling: list[int]) -> dict[str, Any]:
    return {"num_layers": layers, "pooling": pooling}


def _step(
    config: Mapping[str, Any], name: str, selection: Selection, epochs: int, over: Mapping[str, Any]
) -> PretrainStep:
    own = {"model_conf": {"lsm_weight": 0.0}, "max_epoch": epochs, "patience": None, "keep_nbest_models": 1, **over}
    return PretrainStep(name, selection, deep_merge(config, own))


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


def write_plan(
    config: Path,
    settings: Mapping[str, Any],
    folder: Path,
    max_tokens: int | None = None,
    audio_share: Callable[[Selection], float] = lambda selection: 1.0,
) -> list[tuple[PretrainStep, Path]]:
    """Write the configs of the steps and of the training that they lead to.

    Args:
        config: config of the training itself.
        settings: as in YAML (see :class:`PretrainSettings`).
        folder: where the configs go, ``<name>.yaml``.
        max_tokens: longest transcript, in tokens, that any step sees.
        audio_share: the share of the audio that a selection holds. An epoch has that share of the updates, so that a
            number of epochs stays a pass over what is seen.

    Returns:
        The steps and their configs, first to last; the training itself comes last, as ``final``.

    Raises:
        InputError: settings or a config that do not fit (see :func:`plan`).
    """
    written = []
    for number, step in enumerate(plan(read_yaml(config), checked(PretrainSettings, settings, WHAT), max_tokens)):
        path = folder / f"{step.name}.yaml"
        values = sized(step.config, audio_share(step.selection))
        if values.get("scheduler") == "newbob_multi_epoch" and number:
            values = deep_merge(values, {"scheduler_conf": {"history": str(history_file(folder, step.name))}})
        if values.get("optim") == "continued_adam" and number:
            values = deep_merge(values, {"optim_conf": {"moments": str(moments_file(folder, step.name))}})
        write_yaml(path, values, f"Pre-training: {step.name} of {config}")
        written.append((step, path))
    return written


def sized(config: Mapping[str, Any], share: float) -> dict[str, Any]:
    """A config whose epochs have this share of the updates."""
    updates = config.get("num_iters_per_epoch")
    return {**config, "num_iters_per_epoch": max(1, round(updates * share))} if updates else dict(config)


def history_file(configs: Path, name: str) -> Path:
    """The learning rates and dev scores of all steps before one, beside the configs."""
    return configs / f"{name}.history.json"


def moments_file(configs: Path, name: str) -> Path:
    """The optimiser's moments that a step begins with, in the folder of its initial parameters."""
    return configs.parent / "initial" / name / "moments.pth"


def carry_parameters(before: str, config: Path, seed: int, output: str, history: str, moments: str) -> list[str]:
    """Write the initial parameters of a step, carried over from the step before; a file for ``--init_param``.

    Args:
        before: folder of the step before, as ESPnet's training leaves it.
        config: training config of the next step; options that it does not set are as in ``before/config.yaml``.
        seed: seed of the new layers' values.
        output: the file to write.
        history: file for the learning rates and dev scores of all epochs so far, if the schedule keeps them.
        moments: file for the optimiser's moments, written if the next step has no new parameters.

    Returns:
        Names of the new parameters and buffers.

    Raises:
        InputError: a file that cannot be read, or parameters that do not fit (see `carry`).
    """
    import torch
    from espnet2.tasks.asr import ASRTask

    from espnet_ext import register
    from espnet_ext.upstream.checkpoint import LATEST, load_checkpoint, load_parameters

    trained = read_yaml(Path(before) / "config.yaml")
    after = deep_merge(trained, read_yaml(config))
    model = Path(before) / LATEST
    old = load_parameters(model)
    register()
    torch.manual_seed(seed)
    new = ASRTask.build_model(argparse.Namespace(**after)).state_dict()
    layers = [each["encoder_conf"]["num_layers"] for each in (trained, after)]
    state, fresh = carry(old, new, *layers)
    with atomic_write(output, "wb") as file:
        torch.save(state, file)
    checkpoint = load_checkpoint(Path(before) / "checkpoint.pth")
    Path(moments).unlink(missing_ok=True)
    if checkpoint["optimizers"] and not fresh:
        with atomic_write(moments, "wb") as file:
            torch.save(checkpoint["optimizers"][0]["state"], file)
    past = [state for state in checkpoint["schedulers"] if state]
    if past and "past" in past[0]:
        write_json(history, past[0]["past"])
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


def remove_checkpoints(folder: str) -> None:
    """Remove all parameters from the folder of a step whose parameters have been carried over; its logs stay."""
    for path in sorted(Path(folder).glob("*.pth")):
        path.unlink(missing_ok=True)
        print(f"removed {path}")
