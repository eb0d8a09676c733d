"""The plan of P2's layer-wise pre-training: which layers, when, on what.

The encoder is one of BLSTM layers. The scheme is the published configuration of P2's
reference [17] (Zeyer et al. 2018): a small encoder with a high time reduction learns to
align; layers are added below its top one; then come the final time reduction and label
smoothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from pydantic import model_validator

from espnet_ext.errors import InputError
from espnet_ext.registry import strip_package
from espnet_ext.sem.curriculum import Selection
from espnet_ext.work.settings import Count, Share, StrictMapping, Whole


class PretrainSettings(StrictMapping):
    """Set a pre-training."""

    # layers of the first stages
    start_layers: Count = 2
    # product of the pooling factors, except in the last stage
    time_reduction: Count = 32
    # epochs without dropout, with the first layers
    first_epochs: Count = 10
    # epochs of each stage after these
    epochs: Count = 5
    # of a transcript in the epochs without dropout (None: as later)
    first_max_tokens: Count | None = None
    # how many of the epochs without dropout see short utterances only
    short_epochs: Whole = 0
    # mean length of their transcripts, in characters
    short_mean_chars: Count | None = None
    # the parts of the corpus that they are of (empty: all)
    short_parts: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_epochs(self) -> Self:
        if self.short_epochs >= self.first_epochs:
            raise ValueError(
                f"short_epochs ({self.short_epochs}) must be less than "
                f"first_epochs ({self.first_epochs})"
            )
        return self


class Stage(StrictMapping):
    """Set some epochs with the same network, on the same utterances.

    ``num_layers``, ``pooling`` and ``dropout_rate`` are those of
    :meth:`espnet_ext.sem.blstm_maxpool.BLSTMMaxPoolEncoder.use`; ``shape_file``: as
    ESPnet's ``train_shape_file``; ``num_iters_per_epoch``: updates of an epoch, None
    for a pass.
    """

    epochs: Count
    num_layers: Count
    pooling: tuple[Count, ...]
    dropout_rate: Share
    shape_file: str = ""
    num_iters_per_epoch: Count | None = None

    @property
    def network(self) -> dict[str, Any]:
        """Return the arguments of the encoder's ``use``."""
        return {
            "num_layers": self.num_layers,
            "pooling": self.pooling,
            "dropout_rate": self.dropout_rate,
        }


def can_grow(config: Mapping[str, Any]) -> bool:
    """Say whether a config's encoder can be trained layer by layer."""
    return strip_package(config.get("encoder")) == "blstm_maxpool"


def plan_stages(
    config: Mapping[str, Any],
    settings: PretrainSettings,
    max_tokens: int | None = None,
) -> list[tuple[Stage, Selection]]:
    """Plan the stages before the whole network is trained, first to last.

    - ``start_layers`` layers with the high time reduction, without dropout in the
      encoder; the first ``short_epochs`` on short utterances;
    - the same with dropout;
    - one more layer per stage, up to the number in ``config``, of the training;
    - the time reduction of ``config``.

    None has label smoothing, or sees transcripts of more than ``max_tokens`` tokens.
    The epochs that are left of ``max_epoch`` train the whole network with it. Raises
    InputError for another encoder than ``blstm_maxpool``, layers or time reductions
    that do not fit, or if the stages use up ``max_epoch``.
    """
    encoder = config.get("encoder_conf") or {}
    if not can_grow(config) or "num_layers" not in encoder or "pooling" not in encoder:
        raise InputError(
            "pre-training needs encoder: blstm_maxpool, with num_layers and "
            "pooling in its encoder_conf"
        )
    last = encoder["num_layers"]
    dropout = encoder.get("dropout_rate", 0.0)
    if settings.start_layers > last:
        raise InputError(
            f"pre-training starts with {settings.start_layers} layers, but the "
            f"encoder has only {last}"
        )
    shapes = []
    for layers in range(settings.start_layers, last + 1):
        shapes.append((layers, spread_reduction(layers, settings.time_reduction)))
    every = Selection(max_tokens)
    first = Selection(settings.first_max_tokens or max_tokens)
    short = Selection(first.max_tokens, settings.short_mean_chars, settings.short_parts)
    stages = []
    # Without dropout, as the configuration of [17] has it until the first layers align.
    for epochs, selection in (
        (settings.short_epochs, short),
        (settings.first_epochs - settings.short_epochs, first),
    ):
        if epochs:
            stages.append((_make_stage(epochs, shapes[0], 0.0), selection))
    shapes.append((last, tuple(encoder["pooling"])))
    for shape in shapes:
        stages.append((_make_stage(settings.epochs, shape, dropout), every))
    if sum(stage.epochs for stage, _ in stages) >= config["max_epoch"]:
        raise InputError(
            f"pre-training takes all of the {config['max_epoch']} epochs "
            "(max_epoch): have more of them"
        )
    return stages


def _make_stage(
    epochs: int,
    shape: tuple[int, tuple[int, ...]],
    dropout_rate: float,
) -> Stage:
    num_layers, pooling = shape
    return Stage(
        epochs=epochs,
        num_layers=num_layers,
        pooling=pooling,
        dropout_rate=dropout_rate,
    )


def spread_reduction(layers: int, time_reduction: int) -> tuple[int, ...]:
    """Return pooling factors of 2 after all layers but the top one.

    The last is larger, to give the whole reduction.

    >>> spread_reduction(2, 32), spread_reduction(4, 32)
    ((32,), (2, 2, 8))
    """
    # What all layers but the top one and the one below it reduce to.
    below = 2 ** (layers - 2) if layers > 1 else 0
    if not below or time_reduction % below or time_reduction < below:
        raise InputError(
            f"pre-training: a time reduction of {time_reduction} is impossible "
            f"with {layers} layers if all but the top one are pooled by 2 or more"
        )
    return (*[2] * (layers - 2), time_reduction // below)


def make_staged_config(
    config: Mapping[str, Any],
    stages: Sequence[tuple[Stage, Selection]],
    seen: Callable[[Selection], tuple[str, float]],
) -> dict[str, Any]:
    """Return the config of a training that follows a plan.

    ``seen`` gives the shape file of a selection and the share of the audio that it
    holds. An epoch has that share of the updates, so that a number of epochs stays a
    pass over what is seen.
    """
    listed: list[dict[str, Any]] = []
    updates = config.get("num_iters_per_epoch")
    for stage, selection in stages:
        shapes, share = seen(selection)
        sized = max(1, round(updates * share)) if updates else None
        changes = {"shape_file": shapes, "num_iters_per_epoch": sized}
        listed.append(stage.model_dump(mode="json") | changes)
    # The last stage sees what the whole network is trained on, and so has as many
    # updates in an epoch.
    last = listed[-1]["num_iters_per_epoch"]
    return {**config, "stages": listed, "num_iters_per_epoch": last}
