"""What a table needs: which rows, which systems to train, which decodings of them, and their merged configs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.results.config import AVERAGE, System, Table, Tables, known
from espnet_ext.work.yaml_files import deep_merge, merged_files


def select(tables: Tables, table_ids: Sequence[str] | None, row_names: Sequence[str] | None = None) -> list[Table]:
    """The tables asked for (None: all), in the order of the file, with the rows asked for (None: all).

    With several tables a row need stand in only one of them; a table of which no row is left is not returned.

    Raises:
        InputError: a table or row that is not there; the message lists those that are.
    """
    for table_id in table_ids or []:
        if table_id not in tables.tables:
            raise InputError(f"{tables.path}: no table {table_id!r}; {known(tables.tables)}")
    chosen = [table for name, table in tables.tables.items() if table_ids is None or name in table_ids]
    if row_names is None:
        return chosen
    there = list(dict.fromkeys(row.name for table in chosen for row in table.rows))
    for name in row_names:
        if name not in there:
            in_tables = " ".join(table.id for table in chosen)
            raise InputError(f"{tables.path}: no row {name!r} in table {in_tables}; {known(there)}")
    kept = [replace(t, rows=tuple(row for row in t.rows if row.name in row_names)) for t in chosen]
    return [table for table in kept if table.rows]


def systems_needed(tables: Tables, selected: Sequence[Table]) -> list[System]:
    """The systems that the selected rows need, each once, in the order of the rows.

    Tables of nothing but quantities need none: what they measure is no training.
    """
    names = dict.fromkeys(row.system for table in _decoded(selected) for row in table.rows)
    return [tables.systems[name] for name in names]


def decodings_needed(selected: Sequence[Table]) -> list[tuple[str, str]]:
    """(system, decoding) pairs that the selected rows need, each once, in the order of the rows."""
    return list(dict.fromkeys((row.system, row.decoding) for table in _decoded(selected) for row in table.rows))


def _decoded(selected: Sequence[Table]) -> list[Table]:
    return [table for table in selected if any(column.test_set for column in table.columns)]


def sets_needed(tables: Tables, selected: Sequence[Table]) -> dict[tuple[str, str], list[str]]:
    """The test sets that the selected rows need of each (system, decoding), in the order of the file."""
    needed: dict[tuple[str, str], set[str]] = {}
    for table in _decoded(selected):
        for row in table.rows:
            names = {column.test_set for column in table.columns_of(row)} - {None}
            names = set(tables.test_sets) if AVERAGE in names else names
            needed.setdefault((row.system, row.decoding), set()).update(names)
    return {key: [name for name in tables.test_sets if name in names] for key, names in needed.items()}


def train_config(
    tables: Tables, system: str, overlays: Sequence[str | Path] = (), scale: str | None = None
) -> dict[str, Any]:
    """A system's training config: the paper's own, then the overlays (a scale's) in order, the system's own overlay,
    and last its overrides. The system's overlay ``size/deep.yaml`` is ``conf/size/deep.yaml``, or, where the scale has
    one, ``conf/scale/<scale>/size/deep.yaml``.

    Raises:
        InputError: an unknown system, or a file that is not YAML.
    """
    if system not in tables.systems:
        raise InputError(f"{tables.path}: no system {system!r}; {known(tables.systems)}")
    chosen = tables.systems[system]
    files = [tables.recipe_dir / chosen.config, *overlays]
    if chosen.overlay:
        conf = tables.recipe_dir / "conf"
        own = conf / "scale" / str(scale) / chosen.overlay
        files.append(own if own.is_file() else conf / chosen.overlay)
    return deep_merge(merged_files(files), chosen.overrides)


def decode_config(
    tables: Tables, decoding: str, config: str | Path, overlays: Sequence[str | Path] = ()
) -> dict[str, Any]:
    """A decoding's config: the file ``config``, then the overlays in order, then the decoding's overrides.

    Raises:
        InputError: an unknown decoding, or a file that is not YAML.
    """
    if decoding not in tables.decodings:
        raise InputError(f"{tables.path}: no decoding {decoding!r}; {known(tables.decodings)}")
    return deep_merge(merged_files([config, *overlays]), tables.decodings[decoding])


def uses_lm(tables: Tables, table: Table) -> bool:
    """Whether a decoding of the table gives a language model a weight."""
    return any(tables.decodings[row.decoding].get("lm_weight") for row in table.rows)
