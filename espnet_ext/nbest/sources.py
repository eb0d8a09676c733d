"""N-best lists from wherever they lie: JSONL, an ESPnet decoding's folder, the JSON of masked-LM-scoring tools."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from espnet_ext.data.kaldi import read_table
from espnet_ext.errors import InputError
from espnet_ext.nbest.espnet_output import read_espnet_output
from espnet_ext.nbest.lists import NBest, read_nbest
from espnet_ext.nbest.mlm_scoring import read_mlm_scoring


def read_lists(path: str | Path, reference: str | Path | None = None) -> list[NBest]:
    """Read N-best lists: a folder is ESPnet's, a ``.json`` a masked-LM-scoring tool's, any other file JSONL.

    Args:
        path: the lists.
        reference: Kaldi ``text`` with their references, which take the place of those in the lists.

    Raises:
        InputError: what the readers refuse; or lists and references are not of the same utterances.
    """
    path = Path(path)
    if path.is_dir():
        lists = read_espnet_output(path)
    else:
        lists = read_mlm_scoring(path) if path.suffix == ".json" else read_nbest(path)
    return with_references(lists, read_table(reference), str(path), str(reference)) if reference else lists


def with_references(
    lists: Iterable[NBest], references: Mapping[str, str], name: str = "lists", reference_name: str = "references"
) -> list[NBest]:
    """Give each list its reference; the names say in messages where both come from.

    Raises:
        InputError: a list without reference; a reference without list, whose utterance would be dropped in silence.
    """
    lists = list(lists)
    if missing := [nbest.utt_id for nbest in lists if nbest.utt_id not in references]:
        raise InputError(f"{reference_name}: {_count(missing)} of {name} missing: is this another test set?")
    if missing := sorted(references.keys() - {nbest.utt_id for nbest in lists}):
        raise InputError(f"{name}: {_count(missing)} of {reference_name} without N-best list: decode the whole set")
    return [replace(nbest, ref=references[nbest.utt_id]) for nbest in lists]


def _count(ids: list[str]) -> str:
    return f"utterance {ids[0]}" + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")
