"""Systems of the user's own (``--asr_config FILE --name NAME``) beside the tables'.

The file is a whole training config for ESPnet, or ``base: SYSTEM`` and what differs
from that of ``tables.yaml``. A copy of it beside the training keeps the system in the
tables of later runs.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.tables.plan import merge_system_config
from espnet_ext.tables.reading import Row, Table, Tables
from espnet_ext.tables.schema import TRAIN, Names, System
from espnet_ext.work.files import atomic_write
from espnet_ext.work.settings import StrictMapping, Text, check_settings, list_known
from espnet_ext.work.yaml_files import deep_merge, read_yaml, write_yaml

BASE = "base"
STORED = "own_system.yaml"  # in the folder of such a system: what it is
# Keys that are dropped from a given config: the recipe sets them on ESPnet's command
# line, and a config that a training has left holds that training's values.
GIVEN = re.compile(
    r"config|output_dir|ngpu|seed|resume|(src_)?(token_list|token_type|bpemodel)"
    r"|(train|valid)_(data_path.*|shape_file)|dist_.*|multiprocessing_distributed"
    r"|profiles|print_config|required|version|distributed|dry_run|collect_stats|stages"
)
# Keys that configs of ESPnet's own recipes leave to asr.sh or to defaults. The recipes
# here set them, so that a whole config takes them over from a section.
TAKEN_OVER = ("normalize", "input_size", "features_conf", "chunk_conf")
# Names of the folders and files that a run makes itself.
RESERVED = re.compile(r"(stats|configs|results|log|decode|lm)(_.*)?|.*_growing")
TOKENS = ("<blank>", "<unk>", "<sc>", "a", "b", "<sos/eos>")  # for a trial of a config
Sections = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Trained:
    """What an option such as ``--asr_config`` trains: systems, or a model below them.

    ``kind`` is that of the systems. ``section`` of ``full.yaml`` is what it replaces of
    such a model; empty: the system's own config. ``command`` of :mod:`espnet_ext.bin`
    tries the config before the first stage, without the keys that only another one
    knows (``unknown``); empty: the recipe checks it.
    """

    kind: str = TRAIN
    section: str = ""
    command: str = "asr_train"
    unknown: tuple[str, ...] = ()


class StoredSystem(StrictMapping):
    """A system of the user's own as it was given.

    ``tables`` are those in which it has rows, ``content`` is that of its config file.
    """

    option: Text
    name: Text
    tables: Names
    content: dict[str, Any]


@dataclass(frozen=True)
class OwnSystem:
    """A system of the user's own: its section and its rows have its name, too.

    ``given`` is what makes it, from the file ``source``. ``like`` names the section of
    the system that it is like; with ``below`` it is a model below the systems.
    """

    given: StoredSystem
    source: Path
    config: Mapping[str, Any]
    like: str
    below: bool

    @property
    def name(self) -> str:
        """The name of the system, of its section and of its rows."""
        return self.given.name

    @property
    def option(self) -> str:
        """The option that gives it."""
        return self.given.option

    def store(self, folder: Path) -> None:
        """Keep what makes it in the folder of its trainings."""
        write_yaml(
            folder / STORED,
            self.given.model_dump(mode="json"),
            "A system of your own; without this folder its row goes",
        )


def read_stored_systems(expdir: Path, tag: str) -> Iterator[tuple[Path, StoredSystem]]:
    """Return the systems of the user's own that earlier runs in a folder have trained.

    ``tag`` ends the names of their folders.
    """
    for path in sorted(expdir.glob(f"*/{STORED}")):
        stored = check_settings(StoredSystem, read_yaml(path), str(path))
        # A folder with another tag is of other options that change systems.
        if path.parent.name == f"{stored.name}{tag}":
            yield path, stored


def check_name(tables: Tables, sections: Sections, name: str) -> None:
    """Refuse a name that is not one of a file, or that something else already has."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise InputError(
            f"--name {name!r}: take letters, digits and . _ + -, as for a file"
        )
    rows = [row for table in tables.tables.values() for row in table.rows]
    taken = {
        "system": tables.systems,
        "row": {row.name for row in rows},
        "curve": {row.curve for row in rows},
        "decoding": tables.decodings,
        "section": sections,
    }
    for what, names in taken.items():
        if name in names:
            raise InputError(
                f"--name {name}: {tables.path} has a {what} of this name: choose "
                "another"
            )
    if RESERVED.fullmatch(name):
        raise InputError(
            f"--name {name}: a run has a folder of this name: choose another"
        )


def add_own_system(
    tables: Tables,
    sections: Sections,
    trained: Trained,
    given: StoredSystem,
    source: Path,
) -> tuple[Tables, dict[str, Any], OwnSystem]:
    """Add a system, its section, and its rows in those tables that have its kind."""
    name = given.name
    base = given.content.get(BASE)
    place = f"{source}: {BASE}"
    changes = {
        key: value
        for key, value in given.content.items()
        if key != BASE and not GIVEN.fullmatch(key)
    }
    normalize_conf = changes.get("normalize_conf")
    if isinstance(normalize_conf, dict):
        # The recipe makes the statistics, and names their file itself.
        kept = dict(normalize_conf)
        kept.pop("stats_file", None)
        changes["normalize_conf"] = kept
    chosen = {each: tables.tables[each] for each in given.tables}
    of_base = None if trained.section else base
    like = _find_similar_system(tables, list(chosen.values()), trained, of_base, place)
    if base is None:
        # A whole config takes from the tables' system only what it leaves open.
        config = {**_inherit_settings(sections, like, trained), **changes}
    else:
        below = _choose_base_config(sections, like, trained, base, place)
        config = deep_merge(below, changes)
    system = like.model_copy(update={"name": name})
    if not trained.section:
        # Size and overrides of ``like`` are in the new section already.
        system = system.model_copy(
            update={"config": name, "overrides": {}, "size": None}
        )
    added = {
        each: _add_rows(tables, table, system, like) for each, table in chosen.items()
    }
    tables = replace(
        tables,
        systems={**tables.systems, name: system},
        tables={**tables.tables, **added},
    )
    own = OwnSystem(given, source, config, like.config or "", bool(trained.section))
    return tables, {**sections, name: config}, own


def list_rows(tables: Tables, table_ids: Sequence[str], system: str) -> list[Row]:
    """Return the rows of a system in some tables."""
    return [
        row
        for each in table_ids
        for row in tables.tables[each].rows
        if row.system == system
    ]


def _inherit_settings(
    sections: Sections, like: System, trained: Trained
) -> dict[str, Any]:
    """Return what a whole config has where it says nothing itself."""
    name = like.config or ""
    if trained.section:
        name = next(name for name in sections if name.startswith(trained.section))
    common = sections[name]
    return {key: common[key] for key in TAKEN_OVER if key in common}


def try_config(own: OwnSystem, trained: Trained) -> None:
    """Try a config by ESPnet's own command; raise InputError with what it refuses.

    It builds the model, the optimiser and the scheduler, in a process of its own that
    sees no GPU, with a few tokens and no data.
    """
    if not trained.command:
        return
    config = {
        key: value for key, value in own.config.items() if key not in trained.unknown
    }
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_yaml(folder / "config.yaml", config, f"system {own.name}")
        with atomic_write(folder / "tokens.txt") as file:
            file.writelines(f"{token}\n" for token in TOKENS)
        words = [
            *("--dry_run", "true", "--ngpu", "0"),
            *("--config", str(folder / "config.yaml")),
            *("--output_dir", str(folder / "trial")),
            *("--token_list", str(folder / "tokens.txt")),
        ]
        if trained.command == "mt_train":
            words += ["--src_token_list", str(folder / "tokens.txt")]
        if needs_statistics(config):
            # ESPnet reads statistics when it builds the model, and uses them only on
            # features, of which a dry run has none: any numbers do.
            made_up = np.ones(80)
            np.savez(folder / "s.npz", count=2, sum=made_up, sum_square=made_up)
            words += ["--normalize_conf", f"stats_file={folder / 's.npz'}"]
        tried = subprocess.run(
            [sys.executable, "-m", f"espnet_ext.bin.{trained.command}", *words],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    if tried.returncode == 0:
        return
    said = [line for line in tried.stderr.splitlines() if line.strip()] or ["nothing"]
    # Above the error there are lines of ESPnet's log.
    reason = said[-1].removeprefix("error: ")
    # The user knows the file that was given, not the copy that was tried.
    for copy in (f"{folder}/config.yaml: ", f" (from {folder}/config.yaml)"):
        reason = reason.replace(copy, "")
    raise InputError(f"--{own.option} {own.source}: {reason}")


def needs_statistics(config: Mapping[str, Any]) -> bool:
    """Return whether a training config normalises by statistics of its training set."""
    # ESPnet takes "none" and "null" for None; utterance_mvn normalises an utterance by
    # its own statistics.
    return config.get("normalize") not in (None, "none", "null", "utterance_mvn")


def _find_similar_system(
    tables: Tables,
    chosen: Sequence[Table],
    trained: Trained,
    base: str | None,
    place: str,
) -> System:
    """Return the system that a new one is like, whose data, rows and decodings it has.

    The system is the base, otherwise that of the baseline or of the first row of its
    kind.
    """
    of_kind = {
        name: system
        for name, system in tables.systems.items()
        if system.kind == trained.kind
    }
    if base is not None:
        if base not in of_kind:
            known = list_known(list(of_kind))
            raise InputError(f"{place}: no system {base!r}; {known}")
        return of_kind[base]
    candidates = [tables.rows[table.baseline] for table in chosen if table.baseline]
    for table in chosen:
        candidates += table.rows
    for row in candidates:
        if row.system in of_kind:
            return of_kind[row.system]
    ids = " ".join(table.id for table in chosen)
    raise InputError(
        f"table {ids} has no system that is trained: choose another --table"
    )


def _choose_base_config(
    sections: Sections, like: System, trained: Trained, base: str | None, place: str
) -> dict[str, Any]:
    """Return the config that changes go over: a system's, or the section ``base``."""
    if not trained.section:
        return merge_system_config(sections, like)
    names = {
        name.removeprefix(trained.section): name
        for name in sections
        if name.startswith(trained.section)
    }
    if base is not None and base not in names:
        raise InputError(f"{place}: no {base!r}; {list_known(list(names))}")
    return dict(sections[names[base]]) if base is not None else {}


def _add_rows(tables: Tables, table: Table, system: System, like: System) -> Table:
    """Return a table with a row of the system, or in a figure its points.

    The row or points are decoded as those of the system that it is like.
    """
    rows = [row for row in table.rows if tables.systems[row.system].kind == like.kind]
    if not rows or not table.rates:
        return table
    # The system that it is like may have no row in this table.
    names = {row.system for row in rows}
    pattern = like.name if like.name in names else rows[0].system
    pattern_rows = [row for row in rows if row.system == pattern]
    # A curve has a row for each of its points; elsewhere one row stands for the system.
    if not pattern_rows[0].curve:
        pattern_rows = pattern_rows[:1]
    added = []
    for row in pattern_rows:
        curve = f"{row.curve} by {system.name}" if row.curve else ""
        new = replace(
            row,
            name=curve or system.name,
            curve=curve,
            system=system.name,
            paper=dict.fromkeys(row.paper),  # no numbers: the paper has no such system
        )
        added.append(new)
    return replace(table, rows=(*table.rows, *added))
