"""The hyperparameters of a scorer's training: their names, defaults and ranges."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from espnet_ext.rescore import SCORERS
from espnet_ext.rescore.models.language_model import CASINGS
from espnet_ext.work.settings import Count, Flag, Positive, StrictMapping, Whole, one_of


class TrainingSettings(StrictMapping):
    """Set the hyperparameters of a training.

    Attributes:
        batch_size: examples per update.
        epochs: passes over the examples, each in its own order.
        max_steps: most updates; None for no limit.
        lr: learning rate after ``warmup_steps``, the updates of the linear warm-up from 0; it then falls linearly.
        grad_clip: largest norm of the gradient.
        evaluate_every: updates between evaluations; None for ten evaluations in all.
        checkpoint_minutes: most time between checkpoints.
        seed: for the examples' order, dropout and all other random numbers.
    """

    batch_size: Count
    epochs: Count = 1
    max_steps: Count | None = None
    lr: Positive = 1e-5
    warmup_steps: Whole = 0
    grad_clip: Positive = 1.0
    evaluate_every: Count | None = None
    checkpoint_minutes: Positive = 10.0
    seed: Whole = 0

    def steps(self, examples: int) -> int:
        """Return the total number of updates.

        >>> TrainingSettings(batch_size=4, epochs=3).steps(10), TrainingSettings(batch_size=4, max_steps=2).steps(10)
        (9, 2)
        """
        steps = math.ceil(examples / self.batch_size) * self.epochs
        return steps if self.max_steps is None else min(steps, self.max_steps)


def _model(value: Any) -> str:
    if value in (None, ""):
        raise ValueError("lm is missing: give the folder or hub name of a language model")
    if not isinstance(value, str):
        raise ValueError(f"must be the folder or hub name of a language model, is {value!r}")
    return value


class ModelSettings(TrainingSettings):
    """Set what trainings of a language model of ``transformers`` need besides their hyperparameters.

    Attributes:
        lm: folder or hub name of the model.
        scorer, casing: see :func:`espnet_ext.rescore.models.scorers.load_lm`.
        gradient_checkpointing, amp: see :meth:`espnet_ext.rescore.models.language_model.LmScorer.prepare_training`.
    """

    lm: Annotated[str, BeforeValidator(_model)] = Field("", validate_default=True)
    scorer: Annotated[str, one_of(SCORERS)] | None = None
    casing: Annotated[str, one_of(CASINGS)] | None = None
    gradient_checkpointing: Flag = False
    amp: Flag = False

    def training(self) -> TrainingSettings:
        """Return the hyperparameters alone."""
        return TrainingSettings(**{name: getattr(self, name) for name in TrainingSettings.model_fields})
