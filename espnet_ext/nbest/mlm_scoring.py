"""N-best lists in the JSON of masked-LM-scoring tools (Shin et al. 2019; Salazar et al. 2020, P3's [2] and [4])::

    {"1-2-3": {"ref": "the cat", "hyp_1": {"score": -1.5, "text": "the cat"}, "hyp_2": ...}, ...}

The hypotheses are ranked by their number. ``ref`` may be absent. Those tools can do without scores; a second pass
cannot.
"""

import re
from pathlib import Path
from typing import Any

from espnet_ext.data.kaldi import text_lines
from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest, hypothesis_of
from espnet_ext.work.json_text import parse_json

_HYPOTHESIS = re.compile(r"hyp_([1-9][0-9]{0,8})")


def read_mlm_scoring(path: str | Path) -> list[NBest]:
    """Read lists from such a file, sorted by utterance.

    Raises:
        InputError: the file is missing, empty or not such JSON; an utterance comes twice, or has a key that is neither
            ``ref`` nor ``hyp_<number>``; what :class:`espnet_ext.nbest.lists.NBest` refuses.
    """
    try:
        records = parse_json("\n".join(text_lines(Path(path))), _without_twins)
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}); N-best lists of one a line must be named .jsonl") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not isinstance(records, dict) or not records:
        raise InputError(f"{path}: no object of utterances: is it the JSON of a masked-LM-scoring tool?")
    try:
        return [_nbest(utterance, records[utterance]) for utterance in sorted(records)]
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python's reader keeps the last of two equal keys, and so would lose a list in silence."""
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise InputError(f"{key} comes twice in one object: keep one")
        table[key] = value
    return table


def _nbest(utterance: str, record: Any) -> NBest:
    if not isinstance(record, dict):
        raise InputError(f"{utterance}: not an object with ref and hyp_1, hyp_2 ...")
    ranked: dict[int, Any] = {}
    for key, value in record.items():
        match = _HYPOTHESIS.fullmatch(key)
        if match:
            ranked[int(match[1])] = value
        elif key != "ref":
            raise InputError(f"{utterance}: {key!r} is neither ref nor hyp_<number>")
    ref = record.get("ref")
    if not (ref is None or isinstance(ref, str)):
        raise InputError(f"{utterance}: ref must be a text or null")
    return NBest(utterance, tuple(hypothesis_of(utterance, rank, ranked[rank]) for rank in sorted(ranked)), ref)
