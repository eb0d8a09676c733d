"""Check values that people write into YAML files, and say in a line what is wrong."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    model_validator,
)

from espnet_ext.errors import InputError
from espnet_ext.work.files import parse_json

# YAML 1.1 reads a power as a number only with a dot, and a sign of the exponent.
POWER = re.compile(r"[-+]?[0-9.]+e[-+]?[0-9]+", re.IGNORECASE)


class StrictMapping(BaseModel):
    """A mapping in a file, whose unknown keys are refused with the known ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"must be a mapping (key: value), is {value!r}")
        # Before pydantic's own check (extra="forbid"), which does not name the known.
        names = [field.alias or name for name, field in cls.model_fields.items()]
        for key in value:
            if key not in names:
                raise ValueError(f"unknown key {key!r}; {list_known(names)}")
        return value


def find_fault(content: Any, error: ValidationError) -> str:
    """Find the first thing that is wrong: its place, and what is expected there.

    A place is such as ``tables.1.rows[0] (baseline).paper[2]``, without what pydantic
    adds, as the branch of a union.
    """
    first = error.errors(include_url=False)[0]
    location = first["loc"]
    if first["type"] == "missing":
        text = f"the key {location[-1]!r} is missing"
        location = location[:-1]
    else:
        text = _describe_error(dict(first))
    place = ""
    inside = content
    # Parts that are not in the content are pydantic's: the branches of a union.
    for part in location:
        if isinstance(inside, dict) and part in inside:
            inside = inside[part]
            place += f".{part}" if place else str(part)
        elif isinstance(inside, list) and isinstance(part, int):
            inside = inside[part]
            name = inside.get("name") if isinstance(inside, dict) else None
            place += f"[{part}]"
            if isinstance(name, str):
                place += f" ({name})"
    return f"{place}: {text}" if place else text


def list_known(names: Sequence[str] | Mapping[str, Any]) -> str:
    """List the names there are, to end a message about an unknown one."""
    return "known are " + ", ".join(names) if names else "there are none"


_MESSAGES = {  # by pydantic's kind of error; ``text`` is its own message
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "dict_type": "must be a mapping (key: value)",
    "tuple_type": "must be a list with at least one item",
    "too_short": "must be a list with at least one item",
    "literal_error": "must be {expected}",
}


def _describe_error(error: Mapping[str, Any]) -> str:
    """Write what is expected of a value, and what it is."""
    context = error.get("ctx", {})
    value = error["input"]
    # Raised by a validator of ours, whose message is whole.
    if error["type"] == "value_error":
        return str(context["error"])
    if error["type"] not in _MESSAGES:
        return f"{error['msg']} (is {value!r})"
    hint = ""
    if isinstance(value, str) and POWER.fullmatch(value):
        hint = " (YAML reads 1e-5 as text: write 1.0e-5)"
    return f"{_MESSAGES[error['type']].format_map(context)}, is {value!r}{hint}"


def check_settings[Schema: StrictMapping](
    schema: type[Schema], values: Mapping[str, Any], what: str
) -> Schema:
    """Check the values of a config, and give them the types and defaults of a schema.

    The message of an InputError begins with ``what``: where the values come from, or
    what they are for.
    """
    try:
        return schema.model_validate(dict(values))
    except ValidationError as error:
        raise InputError(f"{what}: {find_fault(values, error)}") from error


def read_settings[Schema: BaseModel](
    schema: type[Schema], path: Path, advice: str
) -> Schema:
    """Read settings that were written beside a result, as JSON.

    The message of an InputError ends with ``advice``.
    """
    content: Any = None
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        return schema.model_validate(content)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file: {advice}") from None
    except ValidationError as error:
        raise InputError(f"{path}: {find_fault(content, error)}: {advice}") from error
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}): {advice}") from None


def parse_line(value: Any) -> str:
    """Return the text of a value, without space around it.

    Raises ValueError: it is not one line of text.
    """
    if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
        raise ValueError(f"must be one line of text (a number in quotes), is {value!r}")
    return value.strip()


def require_one_of(names: Collection[str]) -> BeforeValidator:
    """Return a validator that refuses all texts but these."""

    def choose(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"must be one of {', '.join(names)}, is {value!r}")
        return value

    return BeforeValidator(choose)


Text = Annotated[str, BeforeValidator(parse_line)]
Count = Annotated[int, Field(strict=True, ge=1)]
Whole = Annotated[int, Field(strict=True, ge=0)]
_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[_Number, Field(gt=0)]
Weight = Annotated[_Number, Field(ge=0)]
Share = Annotated[_Number, Field(ge=0, lt=1)]
Between = Annotated[_Number, Field(gt=0, lt=1)]
Flag = StrictBool
