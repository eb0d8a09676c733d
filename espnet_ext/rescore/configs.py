"""Values of the configs of trainings: their types, and one line about one that is wrong."""

import math
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationError

from espnet_ext.errors import InputError
from espnet_ext.results.plans.schema import StrictMapping, fault

_POWER = re.compile(r"[-+]?[0-9.]+e[-+]?[0-9]+", re.IGNORECASE)


class SettingError(InputError):
    """A setting that is wrong or missing.

    Attributes:
        name: the setting; empty if it has an unknown name.
        fault: what is wrong with it, and what is expected.
    """

    def __init__(self, what: str, name: str, fault: str):
        super().__init__(f"{what}: {fault}")
        self.name, self.fault = name, fault


def checked[Schema: StrictMapping](schema: type[Schema], values: Mapping[str, Any], what: str) -> Schema:
    """The values of a config as its schema has them.

    Args:
        schema: names, types, ranges and defaults.
        values: as YAML has them.
        what: begins the message: where the values come from, or what they are for.

    Raises:
        SettingError: a name is unknown or missing, or a value is of another type or out of range.
    """
    try:
        return schema.model_validate(dict(values))
    except ValidationError as error:
        place = error.errors(include_url=False)[0]["loc"]
        raise SettingError(what, str(place[0]) if place else "", fault(values, error)) from error


def _number(value: Any, kind: Any, fits: Callable[[float], bool], what: str) -> Any:
    number = isinstance(value, kind) and not isinstance(value, bool)
    if number and (isinstance(value, int) or math.isfinite(value)) and fits(value):
        return value
    hint = " (YAML reads 1e-5 as text: write 1.0e-5)" if isinstance(value, str) and _POWER.fullmatch(value) else ""
    raise ValueError(f"must be {what}, is {value!r}{hint}")


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, is {value!r}")
    return value


def _choice(value: Any, names: Collection[str]) -> str:
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"must be one of {', '.join(names)}, is {value!r}")
    return value


def _numbers(kind: Any, fits: Callable[[float], bool], what: str) -> BeforeValidator:
    return BeforeValidator(partial(_number, kind=kind, fits=fits, what=what))


def one_of(names: Collection[str]) -> BeforeValidator:
    """What refuses all texts but these."""
    return BeforeValidator(partial(_choice, names=names))


Count = Annotated[int, _numbers(int, lambda value: value >= 1, "a whole number of at least 1")]
Whole = Annotated[int, _numbers(int, lambda value: value >= 0, "a whole number of at least 0")]
Positive = Annotated[float, _numbers(int | float, lambda value: value > 0, "a number above 0")]
Weight = Annotated[float, _numbers(int | float, lambda value: value >= 0, "a number of at least 0")]
Share = Annotated[float, _numbers(int | float, lambda value: 0 <= value < 1, "a number from 0 to below 1")]
Between = Annotated[float, _numbers(int | float, lambda value: 0 < value < 1, "a number between 0 and 1")]
Flag = Annotated[bool, BeforeValidator(_flag)]
