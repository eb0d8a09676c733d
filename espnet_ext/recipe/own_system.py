"""``--asr_config FILE --name NAME``: a system of the user's own, trained and shown
beside those of the tables.

The file is a whole training config for ESPnet, or ``base: SYSTEM`` and what differs
from that of ``tables.yaml``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.tables.plan import system_config
from espnet_ext.tables.reading import Table, Tables
from espnet_ext.tables.schema import TRAIN, System
from espnet_ext.work.settings import known
from espnet_ext.work.yaml_files import deep_merge, read_yaml

BASE = "base"
# What the recipe gives on ESPnet's command line. A config that a training has left
# holds it too, of that training.
GIVEN = re.compile(
    r"config|output_dir|ngpu|seed|resume|token_list|token_type|bpemodel|(train|valid)_(data_path.*|shape_file)|dist_.*"
    r"|multiprocessing_distributed|profiles|print_config|required|version|distributed"
)
Sections = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Trained:
    """What an option such as ``--asr_config`` trains: systems of a kind, or a model
    below them.

    ``section`` of ``full.yaml`` is what it replaces of such a model; empty: the
    system's own config.
    """

    kind: str = TRAIN
    section: str = ""


@dataclass(frozen=True)
class OwnSystem:
    """The system of the user's own, given by ``option``: its section and its rows have
    its name, too.

    ``like`` names the section of the system that it is like; with ``below`` it is a
    model below the systems.
    """

    name: str
    option: str
    config: Mapping[str, Any]
    like: str
    below: bool
    rows: tuple[str, ...]


def add_own_system(
    tables: Tables,
    table_ids: Sequence[str],
    sections: Sections,
    option: str,
    trained: Trained,
    path: Path,
    name: str,
) -> tuple[Tables, dict[str, Any], OwnSystem]:
    """Add a system, its section and its rows in each of the tables that have rows of
    its kind.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise InputError(
            f"--name {name!r}: take letters, digits and . _ + -, as for a file"
        )
    if name in tables.systems or name in sections:
        raise InputError(
            f"--name {name}: {tables.path} has a system of this name: choose another"
        )
    given = read_yaml(path)
    base = given.pop(BASE, None)
    changes = {key: value for key, value in given.items() if not GIVEN.fullmatch(key)}
    if isinstance(
        options := changes.get("normalize_conf"), dict
    ):  # the recipe makes the statistics
        changes["normalize_conf"] = {
            key: value for key, value in options.items() if key != "stats_file"
        }
    chosen = {each: tables.tables[each] for each in table_ids}
    like = _system_like(
        tables,
        list(chosen.values()),
        trained,
        None if trained.section else base,
        f"{path}: {BASE}",
    )
    below = _config_below(sections, like, trained, base, f"{path}: {BASE}")
    config = changes if base is None else deep_merge(below, changes)
    system = like.model_copy(update={"name": name})
    if not trained.section:
        system = system.model_copy(
            update={"config": name, "overrides": {}, "size": None}
        )
    added = {
        each: _with_rows(tables, table, system, like) for each, table in chosen.items()
    }
    tables = replace(
        tables,
        systems={**tables.systems, name: system},
        tables={**tables.tables, **added},
    )
    rows = tuple(
        row.name for table in added.values() for row in table.rows if row.system == name
    )
    described = OwnSystem(
        name, option, config, like.config or "", bool(trained.section), rows
    )
    return tables, {**sections, name: config}, described


def _system_like(
    tables: Tables,
    chosen: Sequence[Table],
    trained: Trained,
    base: str | None,
    place: str,
) -> System:
    """Return the system that the new one is like: the base, or that of the baseline or
    of the first row of its kind.
    """
    there = {
        name: system
        for name, system in tables.systems.items()
        if system.kind == trained.kind
    }
    if base is not None:
        if base not in there:
            raise InputError(f"{place}: no system {base!r}; {known(list(there))}")
        return there[base]
    baselines = [tables.rows[table.baseline] for table in chosen if table.baseline]
    for row in (*baselines, *(row for table in chosen for row in table.rows)):
        if row.system in there:
            return there[row.system]
    ids = " ".join(table.id for table in chosen)
    raise InputError(
        f"table {ids} has no system that is trained: choose another --table"
    )


def _config_below(
    sections: Sections, like: System, trained: Trained, base: str | None, place: str
) -> dict[str, Any]:
    """Return the config that the changes go over: of a system, or the section that
    ``base`` names.
    """
    if not trained.section:
        return system_config(sections, like)
    names = {
        name.removeprefix(trained.section): name
        for name in sections
        if name.startswith(trained.section)
    }
    if base is not None and base not in names:
        raise InputError(f"{place}: no {base!r}; {known(list(names))}")
    return dict(sections[names[base]]) if base is not None else {}


def _with_rows(tables: Tables, table: Table, system: System, like: System) -> Table:
    """Return a table with a row of the system, or in a figure points, decoded as those
    of the one that it is like.
    """
    rows = [row for row in table.rows if tables.systems[row.system].kind == like.kind]
    if not rows or not table.rates:
        return table
    same = [row for row in rows if row.system == like.name] or [
        row for row in rows if row.system == rows[0].system
    ]
    added = []
    for row in same if same[0].curve else same[:1]:
        curve = f"{row.curve} by {system.name}" if row.curve else ""
        paper = dict.fromkeys(row.paper)
        added.append(
            replace(
                row,
                name=curve or system.name,
                curve=curve,
                system=system.name,
                paper=paper,
            )
        )
    return replace(table, rows=(*table.rows, *added))
