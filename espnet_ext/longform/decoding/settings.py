"""Settings of moving windows, as configs and commands give them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from espnet_ext.errors import InputError
from espnet_ext.work.settings import Positive, StrictMapping, Whole

SHORTEST = 1.0  # seconds of a window: below that nothing can be heard
# louder noise leaves nothing of the recording, and softer noise nothing of the noise
MOST_DB = 100.0

Stride = Annotated[float, Field(strict=True, gt=0, le=1)]
Decibels = Annotated[float, Field(strict=True, ge=-MOST_DB, le=MOST_DB)]


class WindowSettings(StrictMapping):
    """How windows move over a recording (P5, section 2.2).

    ``window`` is in seconds (None: ``max_seconds`` of the model's ``chunk_conf``),
    ``stride`` the distance between the starts of two windows as a share of one,
    ``batch_seconds`` the audio that is encoded at once, at least one window, and
    ``precision`` ``float32``, or ``bfloat16`` for half of the memory on GPUs.
    """

    window: Positive | None = None
    stride: Stride = 0.125
    batch_seconds: Positive = 60.0
    precision: Literal["float32", "bfloat16"] = "float32"


def find_trained_seconds(config: Mapping[str, Any], source: Path) -> float | None:
    """Return the longest sequences of a model's training, in seconds.

    The config says it in ``chunk_conf``, as ``max_seconds``; None: it does not say.
    ``source`` is the config's file.
    """
    chunks = config.get("chunk_conf") or {}
    if not isinstance(chunks, Mapping):
        raise InputError(f"{source}: chunk_conf is {chunks!r}, but must be a mapping")
    seconds = chunks.get("max_seconds")
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InputError(f"{source}: max_seconds is {seconds!r}, but must be a number")
    return float(seconds)


class DecodeSettings(WindowSettings):
    """Set how windows move, and what noise is added to recordings.

    Noise is of a ``noise`` kind, at a signal-to-noise ratio ``snr`` in dB, with a
    ``seed``.
    """

    noise: Literal["music", "noise", "speech"] | None = None
    snr: Decibels | None = None
    seed: Whole = 0

    @model_validator(mode="after")
    def _check_noise(self) -> Self:
        if (self.noise is None) != (self.snr is None):
            raise ValueError("noise and snr go together: give both or neither")
        return self
