"""OLD FORMAT, goes with the last recipe that is ported. ``conf/tables.yaml``: a recipe's systems, its decodings, and the tables of the paper with the paper's numbers."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.results.schema import AVERAGE, DEFAULT_DECODING, Paper, known
from espnet_ext.results.sweeps import write_out
from espnet_ext.results.tables import Change, Claim, Column, Figure, Row, RowRef, Table, Tables, rows_of
from espnet_ext.work.yaml_files import deep_merge, merged_files, read_yaml

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")  # systems, decodings, test sets and tables name files
_ROW_NAME = re.compile(r"[^,/\s](?:[^,/\n\t]*[^,/\s])?")  # "a,b" lists rows and "1/a" is row a of table 1


@dataclass(frozen=True)
class System:
    """One training: the paper's config (relative to the recipe's folder), overrides of it, names of training sets.

    ``overlay`` is a config of the recipe that comes between the two, such as a model's size; a scale may have another
    one of that name.
    """

    name: str
    config: str
    overrides: Mapping[str, Any]
    train: tuple[str, ...]
    overlay: str | None = None
    kind: str = "train"


def load_tables(path: str | Path, scale: str | None = None) -> Tables:
    """Read and check a ``tables.yaml``.

    Args:
        path: The file.
        scale: Whose values figures have on their axis (None: those of all scales).

    Raises:
        InputError: anything missing, unknown, misspelt or doubled; the message names the place in the file.
    """
    path = Path(path)
    required = ("recipe", "paper", "test_sets", "systems", "tables")
    content = write_out(read_yaml(path), scale, path)
    top = _fields(content, str(path), required, optional=("measures", "quantities", "decodings", "pictures"))
    test_sets = _names(top["test_sets"], f"{path}: test_sets")
    if AVERAGE in test_sets:
        raise InputError(f"{path}: test_sets: {AVERAGE!r} is the mean of the test sets and cannot be one of them")
    measures = _names(top["measures"], f"{path}: measures") if "measures" in top else ()
    quantities = {
        name: _text(value, place) for name, value, place in _items(top.get("quantities", {}), f"{path}: quantities")
    }
    captions = _items(top.get("pictures", {}), f"{path}: pictures")
    pictures = {name: _text(value, place) for name, value, place in captions}
    columns = _columns(test_sets, measures, quantities)
    systems = {name: _system(name, value, place) for name, value, place in _items(top["systems"], f"{path}: systems")}
    decodings: dict[str, Mapping[str, Any]] = {DEFAULT_DECODING: {}}
    for name, value, place in _items(top.get("decodings", {}), f"{path}: decodings"):
        if name == DEFAULT_DECODING:
            raise InputError(f"{place}: {DEFAULT_DECODING!r} is the decoding config itself; give yours another name")
        decodings[name] = _mapping(value, place)
    tables = {
        name: _table(name, value, place, columns, systems, decodings)
        for name, value, place in _items(top["tables"], f"{path}: tables")
    }
    for table in tables.values():
        _check_references(table, tables, f"{path}: tables.{table.id}")
    return Tables(
        path, _name(top["recipe"], f"{path}: recipe"), _paper(top["paper"], f"{path}: paper"), test_sets, measures,
        quantities, systems, decodings, tables, pictures,
    )  # fmt: skip


def _paper(value: Any, place: str) -> Paper:
    fields = _fields(value, place, ("id", "title", "authors", "year", "metric"))
    if not isinstance(fields["year"], int) or isinstance(fields["year"], bool):
        raise InputError(f"{place}.year: must be a whole number, is {fields['year']!r}")
    texts = {key: _text(fields[key], f"{place}.{key}") for key in ("id", "title", "authors", "metric")}
    return Paper(year=fields["year"], **texts)


def load_old_or_new(path: str | Path) -> Tables:
    """The file in whichever format it is; goes with this module."""
    from espnet_ext.results import tables

    if any("kind" in system for system in read_yaml(path).get("systems", {}).values() if isinstance(system, dict)):
        return tables.load_tables(path)
    return load_tables(path)


def _system(name: str, value: Any, place: str) -> System:
    fields = _fields(value, place, ("config", "train"), optional=("overrides", "overlay"))
    train = fields["train"]
    return System(
        name,
        _text(fields["config"], f"{place}.config"),
        _mapping(fields.get("overrides", {}), f"{place}.overrides"),
        (_name(train, f"{place}.train"),) if not isinstance(train, list) else _names(train, f"{place}.train"),
        _text(fields["overlay"], f"{place}.overlay") if "overlay" in fields else None,
    )


def _columns(test_sets: tuple[str, ...], measures: tuple[str, ...], quantities: Mapping[str, str]) -> dict[str, Column]:
    """All columns that a table may have, by name: ``dev``, ``dev CH`` where there are measures, and quantities."""
    names = (*test_sets, AVERAGE)
    columns = [Column(name, None, unit=unit) for name, unit in quantities.items()]
    columns += [Column(name, name) for name in names]
    columns += [Column(f"{name} {measure}", name, measure) for name in names for measure in measures]
    return {column.name: column for column in columns}


def _table(
    name: str,
    value: Any,
    place: str,
    known_columns: Mapping[str, Column],
    systems: Mapping[str, System],
    decodings: Mapping[str, Any],
) -> Table:
    optional = ("baseline", "reduction", "claims", "figure")
    fields = _fields(value, place, ("caption", "columns", "rows"), optional)
    figure = Figure(**fields["figure"]) if "figure" in fields else None  # written out by `sweeps`
    columns = _chosen(fields["columns"], f"{place}.columns", known_columns)
    rows: list[Row] = []
    for number, item in enumerate(_list(fields["rows"], f"{place}.rows")):
        row = _row(item, f"{place}.rows[{number}]", tuple(columns), systems, decodings, figure is not None)
        if row.name in {other.name for other in rows}:
            raise InputError(f"{place}.rows[{number}]: the row {row.name!r} stands twice in this table")
        rows.append(row)
    claims = [
        _claim(item, f"{place}.claims[{number}]", name, columns)
        for number, item in enumerate(_list(fields.get("claims", []), f"{place}.claims", empty=True))
    ]
    baseline = _reference(fields["baseline"], name, f"{place}.baseline") if "baseline" in fields else None
    rates = {name: column for name, column in columns.items() if column.test_set}
    reductions = _chosen(fields.get("reduction", list(rates)[-1:]), f"{place}.reduction", rates) if rates else {}
    caption = _text(fields["caption"], f"{place}.caption")
    return Table(
        name, caption, tuple(columns.values()), baseline, tuple(reductions), tuple(rows), tuple(claims), figure
    )  # fmt: skip


def _row(
    value: Any,
    place: str,
    columns: tuple[str, ...],
    systems: Mapping[str, System],
    decodings: Mapping[str, Any],
    is_point: bool,
) -> Row:
    fields = _fields(value, place, ("name", "system", "paper"), optional=("decoding", "curve", "x"))
    name = _text(fields["name"], f"{place}.name")
    if not _ROW_NAME.fullmatch(name):
        raise InputError(f"{place}.name: {name!r} must hold no comma, slash or outer space")
    place = f"{place} ({name})"
    system = _one_of(fields["system"], systems, f"{place}.system", "system")
    decoding = _one_of(fields.get("decoding", DEFAULT_DECODING), decodings, f"{place}.decoding", "decoding")
    paper = _fields(fields["paper"], f"{place}.paper", () if is_point else columns, columns)
    rates = {c: _rate(paper[c], f"{place}.paper.{c}") for c in columns if c in paper}
    return Row(name, system, decoding, rates, fields.get("curve"), fields.get("x"))


def _claim(value: Any, place: str, table: str, columns: Mapping[str, Column]) -> Claim:
    fields = _fields(value, place, ("text", "better", "worse"), optional=("columns",))
    tested = {name: column for name, column in columns.items() if column.test_set not in (AVERAGE, None)}
    if "columns" in fields:
        tested = _chosen(fields["columns"], f"{place}.columns", tested)
    better, worse = (_side(fields[key], table, f"{place}.{key}") for key in ("better", "worse"))
    if type(better) is not type(worse):
        raise InputError(f"{place}: better and worse must both be rows, or both changes {{from: row, to: row}}")
    if better == worse:
        raise InputError(f"{place}: better and worse are the same row or change, {fields['better']!r}")
    return Claim(_text(fields["text"], f"{place}.text"), better, worse, tuple(tested.values()))


def _side(value: Any, table: str, place: str) -> RowRef | Change:
    if not isinstance(value, dict):
        return _reference(value, table, place)
    fields = _fields(value, place, ("from", "to"))
    before, after = (_reference(fields[key], table, f"{place}.{key}") for key in ("from", "to"))
    if before == after:
        raise InputError(f"{place}: from and to are the same row, {fields['to']!r}")
    return Change(before, after)


def _reference(value: Any, table: str, place: str) -> RowRef:
    parts = _text(value, place).split("/")
    if len(parts) > 2:
        raise InputError(f"{place}: {value!r} must be a row, or table/row")
    return RowRef(parts[0], parts[1]) if len(parts) == 2 else RowRef(table, parts[0])


def _check_references(table: Table, tables: Mapping[str, Table], place: str) -> None:
    references = [(f"{place}.baseline", table.baseline)] if table.baseline else []
    for number, claim in enumerate(table.claims):
        for key in ("better", "worse"):
            references += [(f"{place}.claims[{number}].{key}", ref) for ref in rows_of(getattr(claim, key))]
    for where, ref in references:
        _one_of(ref.table, tables, where, "table")
        _one_of(ref.row, [row.name for row in tables[ref.table].rows], where, f"row of table {ref.table}")


def _fields(value: Any, place: str, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    fields = _mapping(value, place)
    for key in fields:
        _one_of(key, (*required, *optional), place, "key")
    for key in required:
        if key not in fields:
            raise InputError(f"{place}: the key {key!r} is missing")
    return fields


def _items(value: Any, place: str) -> list[tuple[str, Any, str]]:
    return [(_name(key, f"{place}.{key}"), item, f"{place}.{key}") for key, item in _mapping(value, place).items()]


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{place}: must be a mapping (key: value), is {value!r}")
    for key in value:
        if not isinstance(key, str):
            raise InputError(f"{place}: the key {key!r} must be text; put it in quotes")
    return value


def _list(value: Any, place: str, empty: bool = False) -> list[Any]:
    if not isinstance(value, list) or not (value or empty):
        raise InputError(f"{place}: must be a list with at least one item, is {value!r}")
    return value


def _names(value: Any, place: str) -> tuple[str, ...]:
    return _unique([_name(item, place) for item in _list(value, place)], place)


def _chosen(value: Any, place: str, columns: Mapping[str, Column]) -> dict[str, Column]:
    items = [value] if isinstance(value, str) else _list(value, place)
    names = [_one_of(item, columns, place, "column") for item in items]
    return {name: columns[name] for name in _unique(names, place)}


def _unique(names: Sequence[str], place: str) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise InputError(f"{place}: a name stands twice in {', '.join(names)}")
    return tuple(names)


def _name(value: Any, place: str) -> str:
    if not isinstance(value, str) or not _FILE_NAME.fullmatch(value):
        raise InputError(f"{place}: {value!r} must be a name of letters, digits and . _ + - (a number in quotes)")
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
        raise InputError(f"{place}: must be one line of text (a number in quotes), is {value!r}")
    return value.strip()


def _rate(value: Any, place: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InputError(f"{place}: the paper's value must be a number of at least 0, or null, is {value!r}")
    return float(value)


def _one_of(value: Any, names: Sequence[str] | Mapping[str, Any], place: str, what: str) -> str:
    if not isinstance(value, str) or value not in names:
        raise InputError(f"{place}: unknown {what} {value!r}; {known(names)}")
    return value


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
