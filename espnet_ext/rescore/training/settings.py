"""The hyperparameters of a scorer's training, and their reader."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from espnet_ext.errors import InputError

# Schedules of transformers.get_scheduler that need only the warm-up and the number of updates.
SCHEDULES = ("linear", "cosine", "constant_with_warmup")


@dataclass(frozen=True)
class TrainingSettings:
    """Hyperparameters of a training.

    Attributes:
        batch_size: examples per update.
        epochs: passes over the examples, each in its own order.
        max_steps: most updates; None for no limit.
        lr: learning rate after the warm-up.
        schedule: how the learning rate changes afterwards, one of ``SCHEDULES``.
        warmup_steps: updates of the linear warm-up from 0.
        weight_decay: AdamW's.
        grad_clip: largest norm of the gradient.
        evaluate_every: updates between evaluations; None for ten evaluations in all.
        checkpoint_minutes: most time between checkpoints.
        seed: for the examples' order, dropout and all other random numbers.

    Raises:
        InputError: a number is out of range.
    """

    batch_size: int
    epochs: int = 1
    max_steps: int | None = None
    lr: float = 1e-5
    schedule: str = "linear"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    grad_clip: float = 1.0
    evaluate_every: int | None = None
    checkpoint_minutes: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "max_steps", "evaluate_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}: give at least 1")
        if self.schedule not in SCHEDULES:
            raise InputError(f"no schedule {self.schedule}: choose one of {', '.join(SCHEDULES)}")
        for name in ("lr", "grad_clip", "checkpoint_minutes"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}: give a number above 0")

    def steps(self, examples: int) -> int:
        """Total number of updates.

        >>> TrainingSettings(batch_size=4, epochs=3).steps(10)
        9
        >>> TrainingSettings(batch_size=4, epochs=3, max_steps=5).steps(10)
        5
        """
        steps = math.ceil(examples / self.batch_size) * self.epochs
        return steps if self.max_steps is None else min(steps, self.max_steps)


def parse_settings(values: Mapping[str, Any], **given: Any) -> TrainingSettings:
    """Hyperparameters from YAML, overridden by ``given`` ones.

    Raises:
        InputError: an unknown name, or a value of another type.
    """
    known = TrainingSettings.__dataclass_fields__
    merged = {**values, **given}
    for name, value in merged.items():
        if name not in known:
            raise InputError(f"training: unknown setting {name}: known are {', '.join(known)}")
        whole = "int" in str(known[name].type)
        number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if name == "schedule" or (value is None and known[name].default is None):
            continue
        if not number:
            raise InputError(
                f"training: {name} must be a {'whole ' if whole else ''}number, not {value!r} (YAML reads 1e-5 as "
                "text: write 1.0e-5)"
            )
    if "batch_size" not in merged:
        raise InputError("training: batch_size is not set")
    return TrainingSettings(**merged)


def read_config(
    values: Mapping[str, Any], options: Mapping[str, Any], seed: int, what: str
) -> tuple[dict[str, Any], TrainingSettings]:
    """A training's config: the values of its own ``options``, which have defaults, and the hyperparameters.

    Raises:
        InputError: ``lm`` is missing in the training called ``what``, or as :func:`parse_settings`.
    """
    chosen = {name: values.get(name, default) for name, default in options.items()}
    if chosen["lm"] is None:
        raise InputError(f"{what}: lm is missing: give the folder or hub name of a language model")
    return chosen, parse_settings({name: value for name, value in values.items() if name not in options}, seed=seed)
