"""The numbers that moving windows and their search take."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from espnet_ext.errors import InputError

OPTIONS = "the options"  # the source of settings that are options of a command
SHORTEST = 1.0  # seconds of a window: below that nothing can be heard
MOST_DB = 100.0  # louder noise leaves nothing of the recording, and softer noise nothing of the noise

_MOST = sys.float_info.max  # whole numbers of a YAML file may be larger
_ABOVE_0: Callable[[Any], bool] = lambda value: 0 < value <= _MOST  # noqa: E731
# Name -> what it may be, in a test and in words.
_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "window": (_ABOVE_0, "a number above 0"),
    "batch_seconds": (_ABOVE_0, "a number above 0, such as 60"),
    "beam_size": (lambda value: isinstance(value, int) and value > 0, "a whole number above 0, such as 20"),
    "stride": (lambda value: 0 < value <= 1, "above 0 and at most 1 (windows), such as 0.125"),
    "snr": (lambda value: abs(value) <= MOST_DB, f"a number of dB between -{MOST_DB:g} and {MOST_DB:g}, such as 10"),
    "lm_weight": (lambda value: abs(value) <= _MOST, "a number, such as 1"),
}
_OPTIONAL = ("window", "beam_size", "snr", "lm_weight")


def check_numbers(settings: Mapping[str, Any], source: str) -> None:
    """Raise an InputError for a setting that is no number, or NaN, or that makes no sense.

    Args:
        settings: some of the numbers by name; what else it holds is not looked at.
        source: what messages call the settings. Of ``OPTIONS`` they name the option.
    """
    for name, (fits, wanted) in _RULES.items():
        value = settings.get(name)
        if name not in settings or (value is None and name in _OPTIONAL):
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not fits(value):
            called = f"--{name.replace('_', '-')}" if source == OPTIONS else f"{source}: {name}"
            raise InputError(f"{called} must be {wanted}, not {value!r}")
