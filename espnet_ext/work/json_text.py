"""JSON from files that others wrote; every fault of the text is a ValueError."""

import json
from collections.abc import Callable
from typing import Any

from espnet_ext.errors import InputError


def parse_json(text: str, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON; refuse what is nested too deeply (not with ``RecursionError``) and half of a surrogate pair.

    A whole number beyond the range of a float is read as infinity, like ``1e999``.

    >>> parse_json('{"a": [1, "\\\\u4f60"]}')
    {'a': [1, '你']}

    Raises:
        ValueError: not JSON, nested too deeply, or a string in it is not Unicode and could not be written again.
    """
    try:
        value = json.loads(text, parse_int=_number, object_pairs_hook=object_pairs_hook)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair, which is no character") from None
    return value


def refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that comes twice in an object, as a hook of :func:`parse_json`; Python takes the last in silence."""
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise InputError(f"{key} comes twice in one object: keep one")
        table[key] = value
    return table


def _number(digits: str) -> int | float:
    number = float(digits)
    return number if abs(number) == float("inf") else int(digits)
