"""The hyperparameters of a scorer's training: their names, defaults and ranges."""

import math
from typing import Annotated

from espnet_ext.rescore import SCORERS
from espnet_ext.rescore.models.language_model import CASINGS
from espnet_ext.work.settings import (
    Count,
    Flag,
    Positive,
    StrictMapping,
    Whole,
    require_one_of,
)


class TrainingSettings(StrictMapping):
    """Set the hyperparameters of a training."""

    batch_size: Count  # examples per update
    epochs: Count = 1  # passes over the examples, each in its own order
    max_steps: Count | None = None  # most updates; None for no limit
    lr: Positive = 1e-5  # after the warm-up; it then falls linearly
    warmup_steps: Whole = 0  # updates of the linear warm-up from 0
    grad_clip: Positive = 1.0  # largest norm of the gradient
    # updates between evaluations; None for ten evaluations in all
    evaluate_every: Count | None = None
    group_by_length: Flag = False  # batches of examples that are about equally long
    checkpoint_minutes: Positive = 10.0  # most time between checkpoints
    seed: Whole = 0  # for the examples' order, dropout and all other random numbers

    def count_updates(self, examples: int) -> int:
        """Return the total number of updates.

        >>> TrainingSettings(batch_size=4, epochs=3).count_updates(10)
        9
        >>> TrainingSettings(batch_size=4, max_steps=2).count_updates(10)
        2
        """
        steps = math.ceil(examples / self.batch_size) * self.epochs
        return steps if self.max_steps is None else min(steps, self.max_steps)


class ModelSettings(TrainingSettings):
    """Set what trainings of a model need besides their hyperparameters.

    ``lm`` is its folder, or a name on the hub. ``scorer`` and ``casing`` are those of
    :func:`espnet_ext.rescore.models.scorers.load_lm`, the others those of
    :meth:`espnet_ext.rescore.models.language_model.LmScorer.prepare_training`.
    """

    lm: str
    scorer: Annotated[str, require_one_of(SCORERS)] | None = None
    casing: Annotated[str, require_one_of(CASINGS)] | None = None
    gradient_checkpointing: Flag = False
    amp: Flag = False
    use_tf32: Flag = False

    def select_training(self) -> TrainingSettings:
        """Return the hyperparameters alone."""
        return TrainingSettings(
            **{name: getattr(self, name) for name in TrainingSettings.model_fields}
        )
