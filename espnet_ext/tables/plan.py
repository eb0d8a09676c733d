"""What a table needs: rows, systems to train, decodings of them, merged configs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.tables.reading import Table, Tables
from espnet_ext.tables.schema import MEASURE, OVER, System
from espnet_ext.work.settings import list_known
from espnet_ext.work.yaml_files import deep_merge, read_yaml

FULL = "full"  # the scale of the paper
# sections of a scale
SETTINGS = "settings"
SIZES = "sizes"
DECODE = "decode"


def select(
    tables: Tables,
    table_ids: Sequence[str] | None,
    row_names: Sequence[str] | None = None,
) -> list[Table]:
    """Return the tables asked for, in the order of the file, with the rows asked for.

    None: all. With several tables, a row must be in at least one of them. A table
    without a selected row is not returned.
    """
    for table_id in table_ids or []:
        if table_id not in tables.tables:
            raise InputError(
                f"{tables.path}: no table {table_id!r}; {list_known(tables.tables)}"
            )
    chosen = [
        table
        for name, table in tables.tables.items()
        if table_ids is None or name in table_ids
    ]
    if row_names is None:
        return chosen
    every_row = [row for table in chosen for row in table.rows]
    there = list(dict.fromkeys(row.name for row in every_row))
    for name in row_names:
        if name not in there:
            in_tables = " ".join(table.id for table in chosen)
            raise InputError(
                f"{tables.path}: no row {name!r} in table {in_tables}; "
                f"{list_known(there)}"
            )
    cut = []
    for table in chosen:
        rows = tuple(row for row in table.rows if row.name in row_names)
        if rows:
            cut.append(replace(table, rows=rows))
    return cut


def list_needed_systems(tables: Tables, selected: Sequence[Table]) -> list[System]:
    """Return the systems that rows need, in the order of the rows, each once.

    Those that are only measured are not trained.
    """
    systems: dict[str, System] = {}
    for table in selected:
        # a table of quantities alone has no error rate to train for
        if table.rates:
            for row in table.rows:
                systems[row.system] = tables.systems[row.system]
    return [system for system in systems.values() if system.kind != MEASURE]


def list_needed_sets(
    tables: Tables, selected: Sequence[Table]
) -> dict[tuple[str, str], list[str]]:
    """Return the test sets that rows need of each (system, decoding).

    Test sets are in the order of the file.
    """
    needed: dict[tuple[str, str], set[str]] = {}
    for table in selected:
        if not table.rates:
            continue
        for row in table.rows:
            names = needed.setdefault((row.system, row.decoding), set())
            for column in row.paper:
                names.update(tables.columns[column].sets)
    in_order = {}
    for key, names in needed.items():
        in_order[key] = [name for name in tables.file.test_sets if name in names]
    return in_order


def load_scale(recipe_dir: str | Path, scale: str) -> dict[str, dict[str, Any]]:
    """Read the sections of a scale, merged over those of ``conf/full.yaml``.

    A file with ``over: SCALE`` is merged into that scale instead. A section is an
    ESPnet-style config (``train``, ``decode`` ...), the recipe's own ``settings``, or
    ``sizes``, configs by name. ``full``, the paper's, has every one.
    """
    conf = Path(recipe_dir) / "conf"
    path = conf / f"{scale}.yaml"
    if not path.is_file():
        there = {file.stem for file in conf.glob("*.yaml")} - {"tables", "design"}
        raise InputError(f"{conf}: no scale {scale!r}; {list_known(sorted(there))}")
    sections = read_yaml(path)
    below = sections.pop(OVER, FULL)
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise InputError(
                f"{path}: {name}: a section must be a mapping (key: value), is "
                f"{section!r}"
            )
    if scale == FULL:
        return sections
    full = load_scale(recipe_dir, below)
    _refuse_new_names(sections, full, str(path), "section")
    for section, what in ((SETTINGS, "setting"), (SIZES, "size")):
        own = sections.get(section, {})
        _refuse_new_names(own, full.get(section, {}), f"{path}: {section}", what)
    return deep_merge(full, sections)


def _refuse_new_names(
    names: Mapping[str, Any], full: Mapping[str, Any], place: str, what: str
) -> None:
    """Refuse a name that full scale lacks: a slip, after which nothing would change."""
    for name in names:
        if name not in full:
            raise InputError(
                f"{place}: unknown {what} {name!r}: {FULL}.yaml has none of "
                f"that name; {list_known(full)}"
            )


def merge_system_config(
    sections: Mapping[str, Mapping[str, Any]], system: System
) -> dict[str, Any]:
    """Return a system's training config: its section, size and overrides, merged."""
    if system.config is None:
        raise InputError(
            f"system {system.name!r} has no config: it is of kind {system.kind}"
        )
    config = get_section(sections, system.config, f"system {system.name!r}")
    if system.size is not None:
        sizes = sections.get(SIZES, {})
        if system.size not in sizes:
            raise InputError(
                f"system {system.name!r}: unknown size {system.size!r}; "
                f"{list_known(sizes)}"
            )
        config = deep_merge(config, sizes[system.size])
    return deep_merge(config, system.overrides)


def merge_decode_config(
    sections: Mapping[str, Mapping[str, Any]], tables: Tables, decoding: str
) -> dict[str, Any]:
    """Return a decoding's config: the section ``decode`` and its overrides, merged."""
    if decoding not in tables.decodings:
        raise InputError(
            f"{tables.path}: no decoding {decoding!r}; {list_known(tables.decodings)}"
        )
    section = get_section(sections, DECODE, f"decoding {decoding!r}")
    return deep_merge(section, tables.decodings[decoding])


def get_section(
    sections: Mapping[str, Mapping[str, Any]], name: str, user: str
) -> Mapping[str, Any]:
    """Return a section by name; ``user`` says in the message who needs it."""
    if name not in sections:
        raise InputError(f"{user}: unknown section {name!r}; {list_known(sections)}")
    return sections[name]
