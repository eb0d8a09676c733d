"""Sweeps of ``conf/tables.yaml``: one system or decoding for each value of a setting that a row names."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from espnet_ext.tables.plans.schema import SWEPT_KEYS, Choice, SystemEntry
from espnet_ext.work.settings import fault, known
from espnet_ext.work.yaml_files import deep_merge


def at_values(what: str, choice: Choice, sweep: Mapping[str, Mapping[str, Any] | None]) -> tuple[str, dict[str, Any]]:
    """The name of what a sweep makes at the values of a choice, and its settings.

    Args:
        what: ``system`` or ``decoding``, for messages.
        choice: the name, with a value for each setting.
        sweep: the settings; one with labels takes one of them as its value.

    >>> at_values("system", Choice("sem", (-80.0, 0)), {"conf.low": None, "conf.high": None})
    ('sem_m80_0', {'conf.low': -80.0, 'conf.high': 0})

    Raises:
        ValueError: not one value for each setting, or one that is no number, name or label.
    """
    if len(choice.values) != len(sweep):
        settings = ", ".join(sweep) or "none, since it has no sweep"
        raise ValueError(f"the {what} {choice.name!r} takes a value for {settings}; got {list(choice.values)}")
    labels, made = [], {}
    for value, (setting, options) in zip(choice.values, sweep.items(), strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"a value of {setting} must be a number or a name, is {value!r}")
        label = label_of(value)
        if options and label not in options:
            raise ValueError(f"unknown label of {setting} {label!r}; {known(options)}")
        made[setting] = options[label] if options else value
        labels.append(label)
    return "_".join([choice.name, *labels]), made


def label_of(value: float | str) -> str:
    """How a value is written in a name: a number in its shortest form, with ``m`` for minus.

    >>> [label_of(value) for value in (-80.0, 0.1, "shared")]
    ['m80', '0.1', 'shared']
    """
    return value if isinstance(value, str) else f"{value:g}".replace("-", "m")


def system_at(entry: SystemEntry, settings: Mapping[str, Any]) -> SystemEntry:
    """A system at the values of its sweep, without the sweep.

    Raises:
        ValueError: a value that the system's key does not take.
    """
    own = {key: value for key, value in settings.items() if key in SWEPT_KEYS}
    others = {key: value for key, value in settings.items() if key not in SWEPT_KEYS}
    content = entry.model_dump(exclude={"sweep"}, exclude_unset=True)
    content |= own | {"overrides": overrides_at(entry.overrides, others)}
    try:
        return SystemEntry.model_validate(content)
    except ValidationError as error:
        raise ValueError(fault(content, error)) from error


def overrides_at(overrides: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides with settings by dotted names merged into them.

    >>> overrides_at({"normalize": "sem"}, {"normalize_conf.low": -80})
    {'normalize': 'sem', 'normalize_conf': {'low': -80}}
    """
    merged = dict(overrides)
    for setting, value in settings.items():
        for key in reversed(setting.split(".")):
            value = {key: value}
        merged = deep_merge(merged, value)
    return merged
