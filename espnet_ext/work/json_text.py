"""JSON from files of others, with all that is wrong with it as one kind of error."""

import json
from collections.abc import Callable
from typing import Any


def parse_json(text: str, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """``json.loads``, which raises ``RecursionError`` for what is nested too deeply and takes half of a surrogate pair.

    A whole number beyond the range of a float is read as infinity, as ``1e999`` is.

    >>> parse_json('{"a": [1, "\\\\u4f60"]}')
    {'a': [1, '你']}

    Raises:
        ValueError: no JSON; nested too deeply; a text in it that is no Unicode, and so could not be written again.
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


def _number(digits: str) -> int | float:
    number = float(digits)
    return number if abs(number) == float("inf") else int(digits)
