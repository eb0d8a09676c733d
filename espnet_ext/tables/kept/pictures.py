"""Kept pictures and their data: a PNG carries the digest of the JSON that it was drawn from.

``attention.png`` is drawn from the facts ``attention.json``, ``figure1.png`` from the result ``figure1.json``.
"""

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.tables.kept.facts import read_facts
from espnet_ext.tables.kept.result_files import read_results

STAMP = "Data"  # the key of the PNG's text
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def digest(data: Any) -> str:
    """SHA-256 of data as JSON; the same for the same data on every machine.

    >>> digest({"b": 1.5, "a": [1, 2]}) == digest({"a": [1, 2], "b": 1.5})
    True
    """
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def drawn_part(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a figure's picture shows of its result: all but the tests of claims, and how it was made."""
    shown = {key: value for key, value in result.items() if key not in ("claims", "meta", "scores")}
    return shown | {"corpus": result["meta"]["corpus"]}


def data_of(picture: Path) -> Any:
    """The data of a kept picture, from the JSON of its name.

    Raises:
        InputError: there is no such file, or it is neither facts nor a figure's result.
    """
    source = picture.with_suffix(".json")
    if not source.is_file():
        raise InputError(f"{picture}: its data are not kept: put {source.name} beside it, or delete it")
    kept = json.loads(source.read_text(encoding="utf-8"))
    return drawn_part(read_results(source)) if "figure" in kept else read_facts(source)["values"]


def check_picture(picture: Path) -> None:
    """Refuse a kept picture that was not drawn from the data beside it.

    Raises:
        InputError: the data are missing or others, or the file is no PNG.
    """
    if stamp_of(picture) != digest(data_of(picture)):
        raise InputError(f"{picture}: not drawn from {picture.stem}.json as it is now: draw it again, or delete it")


def stamp_of(picture: Path) -> str | None:
    """The digest that a PNG carries; None if it has none.

    Raises:
        InputError: no PNG, or one that is cut off.
    """
    content = picture.read_bytes()
    place = len(_SIGNATURE)
    if content[:place] != _SIGNATURE:
        raise InputError(f"{picture}: not a PNG")
    while place + 8 <= len(content):
        length, kind = struct.unpack(">I4s", content[place : place + 8])
        body = content[place + 8 : place + 8 + length]
        if kind == b"tEXt" and body.startswith(STAMP.encode() + b"\0"):
            return body.partition(b"\0")[2].decode("latin-1")
        if kind == b"IEND":
            return None
        place += length + 12
    raise InputError(f"{picture}: cut off; draw it again")
