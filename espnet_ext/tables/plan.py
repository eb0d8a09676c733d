"""What a table needs: which rows, which systems to train, which decodings of them, and
their merged configs.
"""

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
SETTINGS, SIZES, DECODE = "settings", "sizes", "decode"


def select(
    tables: Tables,
    table_ids: Sequence[str] | None,
    row_names: Sequence[str] | None = None,
) -> list[Table]:
    """Return the tables asked for (None: all), in the order of the file, with the rows
    asked for (None: all).

    With several tables, a row must be in at least one of them. A table without a
    selected row is not returned.
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
    there = list(dict.fromkeys(row.name for table in chosen for row in table.rows))
    for name in row_names:
        if name not in there:
            in_tables = " ".join(table.id for table in chosen)
            raise InputError(
                f"{tables.path}: no row {name!r} in table {in_tables}; "
                f"{list_known(there)}"
            )
    cut = [
        replace(each, rows=tuple(row for row in each.rows if row.name in row_names))
        for each in chosen
    ]
    return [table for table in cut if table.rows]


def list_needed_systems(tables: Tables, selected: Sequence[Table]) -> list[System]:
    """Return the systems that rows need, in their order, but not those that are only
    measured.
    """
    names = dict.fromkeys(
        row.system for table in selected if table.rates for row in table.rows
    )
    return [
        tables.systems[name] for name in names if tables.systems[name].kind != MEASURE
    ]


def list_needed_sets(
    tables: Tables, selected: Sequence[Table]
) -> dict[tuple[str, str], list[str]]:
    """Return the test sets that the selected rows need of each (system, decoding), in
    the order of the file.
    """
    needed: dict[tuple[str, str], set[str]] = {}
    for table in (each for each in selected if each.rates):
        for row in table.rows:
            names = {
                name for column in row.paper for name in tables.columns[column].sets
            }
            needed.setdefault((row.system, row.decoding), set()).update(names)
    return {
        key: [name for name in tables.file.test_sets if name in names]
        for key, names in needed.items()
    }


def load_scale(recipe_dir: str | Path, scale: str) -> dict[str, dict[str, Any]]:
    """Read the sections of a scale: those of ``conf/full.yaml``, with those of
    ``conf/<scale>.yaml`` merged into them.

    A file with ``over: SCALE`` is merged into that scale instead. A section is an
    ESPnet-style config (``train``, ``decode`` ...), the recipe's own ``settings``, or
    ``sizes``, configs by name. ``full``, the paper's, has every one.
    """
    conf = Path(recipe_dir) / "conf"
    path = conf / f"{scale}.yaml"
    if not path.is_file():
        there = sorted(
            file.stem
            for file in conf.glob("*.yaml")
            if file.stem not in ("tables", "design")
        )
        raise InputError(f"{conf}: no scale {scale!r}; {list_known(there)}")
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
    checks = [(sections, full, str(path), "section")]
    for section, what in ((SETTINGS, "setting"), (SIZES, "size")):
        checks.append(
            (
                sections.get(section, {}),
                full.get(section, {}),
                f"{path}: {section}",
                what,
            )
        )
    for names, ours, place, what in checks:
        for name in names:
            if name not in ours:
                raise InputError(
                    f"{place}: unknown {what} {name!r}: {FULL}.yaml has none of "
                    f"that name; {list_known(ours)}"
                )
    return deep_merge(full, sections)


def merge_system_config(
    sections: Mapping[str, Mapping[str, Any]], system: System
) -> dict[str, Any]:
    """Return a system's training config: its section, with its size and then its
    overrides merged into that.
    """
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
    """Return a decoding's config: the section ``decode`` with the decoding's overrides
    merged into it.
    """
    if decoding not in tables.decodings:
        raise InputError(
            f"{tables.path}: no decoding {decoding!r}; {list_known(tables.decodings)}"
        )
    return deep_merge(
        get_section(sections, DECODE, f"decoding {decoding!r}"),
        tables.decodings[decoding],
    )


def get_section(
    sections: Mapping[str, Mapping[str, Any]], name: str, user: str
) -> Mapping[str, Any]:
    """Return a section by name; ``user`` says in the message who needs it."""
    if name not in sections:
        raise InputError(f"{user}: unknown section {name!r}; {list_known(sections)}")
    return sections[name]
