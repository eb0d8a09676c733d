"""What a table needs: which rows, which systems to train, which decodings of them, and their merged configs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.tables.config import System, Table, Tables, known
from espnet_ext.yaml_files import deep_merge, merged_files


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
    """The systems that the selected rows need, each once, in the order of the rows."""
    names = dict.fromkeys(row.system for table in selected for row in table.rows)
    return [tables.systems[name] for name in names]


def decodings_needed(selected: Sequence[Table]) -> list[tuple[str, str]]:
    """(system, decoding) pairs that the selected rows need, each once, in the order of the rows."""
    return list(dict.fromkeys((row.system, row.decoding) for table in selected for row in table.rows))


def train_config(tables: Tables, system: str, overlays: Sequence[str | Path] = ()) -> dict[str, Any]:
    """A system's training config: the paper's own, then the overlays (a scale's) in order, then the system's overrides.

    Raises:
        InputError: an unknown system, or a file that is not YAML.
    """
    if system not in tables.systems:
        raise InputError(f"{tables.path}: no system {system!r}; {known(tables.systems)}")
    chosen = tables.systems[system]
    return deep_merge(merged_files([tables.recipe_dir / chosen.config, *overlays]), chosen.overrides)


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
