"""Values that people write into YAML files: their types, and one line about one that is wrong."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from espnet_ext.errors import InputError

_POWER = re.compile(r"[-+]?[0-9.]+e[-+]?[0-9]+", re.IGNORECASE)


class StrictMapping(BaseModel):
    """A mapping in a file. Unknown keys are refused with the names of those there are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"must be a mapping (key: value), is {value!r}")
        names = [field.alias or name for name, field in cls.model_fields.items()]
        for key in value:
            if key not in names:
                raise ValueError(f"unknown key {key!r}; {known(names)}")
        return value


def fault(content: Mapping[str, Any], error: ValidationError) -> str:
    """Say the first thing that is wrong, in one line: its place in the content, and what is expected there."""
    first = error.errors(include_url=False)[0]
    missing = first["type"] == "missing"
    place = _place(content, first["loc"][:-1] if missing else first["loc"])
    text = f"the key {first['loc'][-1]!r} is missing" if missing else _message(dict(first))
    return f"{place}: {text}" if place else text


def known(names: Sequence[str] | Mapping[str, Any]) -> str:
    """Return the end of a message about an unknown name: the names there are."""
    return "known are " + ", ".join(names) if names else "there are none"


def _place(content: Any, location: tuple[int | str, ...]) -> str:
    """Where in the file an error is, such as ``tables.1.rows[0] (baseline).paper[2]``.

    What pydantic adds to a location, such as the branch of a union, is not in the file and is left out.
    """
    place = ""
    for part in location:
        if isinstance(content, dict) and part in content:
            content = content[part]
            place += f".{part}" if place else str(part)
        elif isinstance(content, list) and isinstance(part, int):
            content = content[part]
            name = content.get("name") if isinstance(content, dict) else None
            place += f"[{part}]" + (f" ({name})" if isinstance(name, str) else "")
    return place


_MESSAGES = {
    "int_type": "must be a whole number, is {value!r}",
    "float_type": "must be a number, is {value!r}",
    "float_parsing": "must be a number, is {value!r}",
    "dict_type": "must be a mapping (key: value), is {value!r}",
    "tuple_type": "must be a list with at least one item, is {value!r}",
    "too_short": "must be a list with at least one item, is {value!r}",
    "literal_error": "must be {expected}, is {value!r}",
}


def _message(error: Mapping[str, Any]) -> str:
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context["error"])
    message = _MESSAGES.get(error["type"], "{text} (is {value!r})")
    return message.format(value=error["input"], text=error["msg"], expected=context.get("expected"))


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
    """Return the values of a config as its schema has them.

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


def one_line(value: Any) -> str:
    """Return the text of a value, without space around it; raises ValueError unless it is one line of text."""
    if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
        raise ValueError(f"must be one line of text (a number in quotes), is {value!r}")
    return value.strip()


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


def _number_of(kind: Any, fits: Callable[[float], bool], what: str) -> BeforeValidator:
    return BeforeValidator(partial(_number, kind=kind, fits=fits, what=what))


def one_of(names: Collection[str]) -> BeforeValidator:
    """Return a validator that refuses all texts but these."""
    return BeforeValidator(partial(_choice, names=names))


Text = Annotated[str, BeforeValidator(one_line)]
Count = Annotated[int, _number_of(int, lambda value: value >= 1, "a whole number of at least 1")]
Whole = Annotated[int, _number_of(int, lambda value: value >= 0, "a whole number of at least 0")]
Positive = Annotated[float, _number_of(int | float, lambda value: value > 0, "a number above 0")]
Weight = Annotated[float, _number_of(int | float, lambda value: value >= 0, "a number of at least 0")]
Share = Annotated[float, _number_of(int | float, lambda value: 0 <= value < 1, "a number from 0 to below 1")]
Between = Annotated[float, _number_of(int | float, lambda value: 0 < value < 1, "a number between 0 and 1")]
Flag = Annotated[bool, BeforeValidator(_flag)]
