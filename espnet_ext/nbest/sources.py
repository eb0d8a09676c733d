"""N-best lists from any source: JSONL, an ESPnet decoding's folder, the JSON of masked-LM-scoring tools.

Masked-LM-scoring tools (Shin et al. 2019; Salazar et al. 2020, P3's [2] and [4]) write one object for a set::

    {"1-2-3": {"ref": "the cat", "hyp_1": {"score": -1.5, "text": "the cat"}, "hyp_2": ...}, ...}

The hypotheses are ranked by their number. ``ref`` may be absent. Those tools work without scores; a second pass does
not.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from espnet_ext.data.kaldi_tables import read_table, text_lines
from espnet_ext.errors import InputError
from espnet_ext.nbest.espnet_output import read_espnet_output
from espnet_ext.nbest.lists import NBest, distinct, hypothesis_of, read_nbest, write_nbest
from espnet_ext.work.json_text import parse_json

_HYPOTHESIS = re.compile(r"hyp_([1-9][0-9]{0,8})")


def read_lists(path: str | Path, reference: str | Path | None = None) -> list[NBest]:
    """Read N-best lists: a folder is ESPnet's, a ``.json`` a masked-LM-scoring tool's, any other file JSONL.

    Args:
        path: the lists.
        reference: Kaldi ``text`` with their references, which replace those in the lists.

    Raises:
        InputError: what the readers refuse; or lists and references are not of the same utterances.
    """
    path = Path(path)
    if path.is_dir():
        lists = read_espnet_output(path)
    else:
        lists = read_mlm_scoring(path) if path.suffix == ".json" else read_nbest(path)
    return with_references(lists, read_table(reference), str(path), str(reference)) if reference else lists


def convert_lists(
    path: str | Path, output: Path, reference: str | Path | None = None, only_distinct: bool = False
) -> list[NBest]:
    """Read lists as :func:`read_lists` and write them as JSONL.

    Args:
        path, reference: see :func:`read_lists`.
        output: the JSONL file.
        only_distinct: drop a text that came before in its list.

    Returns:
        The lists as written.

    Raises:
        InputError: as :func:`read_lists`.
    """
    lists = read_lists(path, reference)
    if only_distinct:
        lists = [distinct(nbest) for nbest in lists]
    write_nbest(output, lists)
    return lists


def with_references(
    lists: Iterable[NBest], references: Mapping[str, str], name: str = "lists", reference_name: str = "references"
) -> list[NBest]:
    """Give each list its reference; the names say in messages where both come from.

    Raises:
        InputError: a list has no reference, or a reference has no list (its utterance would be dropped in silence).
    """
    lists = list(lists)
    if missing := [nbest.utt_id for nbest in lists if nbest.utt_id not in references]:
        raise InputError(f"{reference_name}: {_count(missing)} of {name} missing: is this another test set?")
    if missing := sorted(references.keys() - {nbest.utt_id for nbest in lists}):
        raise InputError(f"{name}: {_count(missing)} of {reference_name} without N-best list: decode the whole set")
    return [replace(nbest, ref=references[nbest.utt_id]) for nbest in lists]


def _count(ids: list[str]) -> str:
    return f"utterance {ids[0]}" + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")


def read_mlm_scoring(path: str | Path) -> list[NBest]:
    """Read the JSON of a masked-LM-scoring tool, sorted by utterance.

    Raises:
        InputError: the file is missing, empty or not such JSON; an utterance comes twice, or has a key that is neither
            ``ref`` nor ``hyp_<number>``; what :class:`espnet_ext.nbest.lists.NBest` refuses.
    """
    try:
        records = parse_json("\n".join(text_lines(Path(path))), _refuse_twins)
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}); name a file with one N-best list per line .jsonl") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not isinstance(records, dict) or not records:
        raise InputError(f"{path}: no object of utterances: is it the JSON of a masked-LM-scoring tool?")
    try:
        return [_from_record(utterance, records[utterance]) for utterance in sorted(records)]
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python's reader keeps the last of two equal keys, and so would lose a list in silence."""
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise InputError(f"{key} comes twice in one object: keep one")
        table[key] = value
    return table


def _from_record(utterance: str, record: Any) -> NBest:
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
