"""The numbers that moving windows and their search take."""

import math
from collections.abc import Mapping
from typing import Any

from espnet_ext.errors import InputError


def check_numbers(settings: Mapping[str, Any], source: str) -> None:
    """Raise an InputError for a setting that is NaN, infinite or, where that makes no sense, not above 0."""
    for name, value in settings.items():
        if name in ("window", "batch_seconds", "beam_size") and value is not None and not 0 < value < math.inf:
            raise InputError(f"{source}: {name} must be a number above 0, not {value}")
        if name in ("snr", "lm_weight") and value is not None and not math.isfinite(value):
            raise InputError(f"{source}: {name} must be a number, not {value}")
        if name == "stride" and not 0 < value <= 1:
            raise InputError(f"{source}: stride must be above 0 and at most 1 (windows), not {value}")
