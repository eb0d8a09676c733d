"""Figures in ``conf/tables.yaml``: curves over a setting, written out as systems and rows like those of tables.

A figure's curve is one system at each value of the setting that ``sweep`` names, on one test set::

    sweep:
      setting: chunk_conf.max_seconds
      axis: Length of the sequences
      unit: s
      values: {mini: [2.5, 10], full: [10, 20, 41]}
    figures:
      "1":
        caption: How much context is useful
        y: reduction                # of the error rate, or rate: the error rate itself
        baseline: 10                # the value to which reductions refer
        curves:
          - {name: Rev16, system: base, column: rev16, paper: {10: 15.0}, largest: 12.2}
        claims:
          - {text: ..., better: Rev16 at 20 s, worse: Rev16 at 10 s}

becomes table ``figure1`` with rows such as ``Rev16 at 10 s`` of systems such as ``base_10``. The values are those of
the scale; claims about others are left out.
"""

from collections.abc import Mapping
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.work.yaml_files import deep_merge

SWEEP, FIGURES = "sweep", "figures"
PREFIX = "figure"
REDUCTION, RATE = "reduction", "rate"
_SWEEP = {"setting", "axis", "unit", "values"}
_FIGURE = {"caption", "y", "baseline", "curves", "claims"}
_CURVE = {"name", "system", "decoding", "column", "paper", "largest"}


def write_out(top: Mapping[str, Any], scale: str | None, path: object) -> dict[str, Any]:
    """The contents of a ``tables.yaml`` with its figures written out as tables; without figures, as they are.

    Args:
        top: the file's contents.
        scale: whose values the sweep takes; None: those of all scales.
        path: the file's, for messages.

    Raises:
        InputError: a key that is missing, unknown or holds something else.
    """
    if FIGURES not in top:
        return dict(top)
    sweep = _keys(top.get(SWEEP), f"{path}: {SWEEP}", _SWEEP, set())
    by_scale = sweep["values"]
    if not isinstance(by_scale, dict) or not all(isinstance(values, list) for values in by_scale.values()):
        raise InputError(f"{path}: {SWEEP}.values: must be a mapping of scales to lists of numbers")
    if scale is not None and scale not in by_scale:
        raise InputError(f"{path}: {SWEEP}.values: none for the scale {scale!r}; known are {', '.join(by_scale)}")
    everywhere = sorted({value for values in by_scale.values() for value in values})
    values = everywhere if scale is None else by_scale[scale]
    systems, tables = dict(top["systems"]), dict(top["tables"])
    for name, figure in top[FIGURES].items():
        place = f"{path}: {FIGURES}.{name}"
        _keys(figure, place, _FIGURE, {"claims"})
        if figure["y"] not in (REDUCTION, RATE):
            raise InputError(f"{place}.y: must be {REDUCTION} or {RATE}, is {figure['y']!r}")
        rows = []
        columns: dict[str, None] = {}
        for curve in figure["curves"]:
            _keys(curve, f"{place}.curves", _CURVE, {"decoding", "paper", "largest"})
            if curve["system"] not in top["systems"]:
                raise InputError(f"{place}.curves: unknown system {curve['system']!r}")
            columns[curve["column"]] = None
            for value in values:
                system = f"{curve['system']}_{value:g}"
                systems[system] = _at(top["systems"][curve["system"]], sweep["setting"], value)
                rows.append(_row(curve, value, sweep["unit"], system))
        tables[f"{PREFIX}{name}"] = {
            "caption": figure["caption"],
            "columns": list(columns),
            "rows": rows,
            "claims": _claims(figure, values, everywhere, sweep["unit"], place),
            "figure": {
                "axis": f"{sweep['axis']} ({sweep['unit']})",
                "y": figure["y"],
                "baseline": figure["baseline"],
                "largest": {curve["name"]: curve["largest"] for curve in figure["curves"] if "largest" in curve},
            },
        }
    # The systems at no value are no trainings of their own, unless a table has them.
    return {**{key: value for key, value in top.items() if key not in (SWEEP, FIGURES)},
            "systems": systems, "tables": tables}  # fmt: skip


def _at(system: Mapping[str, Any], setting: str, value: float) -> dict[str, Any]:
    override: Any = value
    for key in reversed(setting.split(".")):
        override = {key: override}
    return {**system, "overrides": deep_merge(system.get("overrides", {}), override)}


def _row(curve: Mapping[str, Any], value: float, unit: str, system: str) -> dict[str, Any]:
    row = {
        "name": row_name(curve["name"], value, unit),
        "system": system,
        "paper": {curve["column"]: curve.get("paper", {}).get(value)},
        "curve": curve["name"],
        "x": value,
    }
    return row | ({"decoding": curve["decoding"]} if "decoding" in curve else {})


def row_name(curve: str, value: float, unit: str) -> str:
    """What the row of a curve at a value is called.

    >>> row_name("Rev16", 10, "s")
    'Rev16 at 10 s'
    """
    return f"{curve} at {value:g} {unit}"


def _claims(
    figure: Mapping[str, Any], values: list[float], everywhere: list[float], unit: str, place: str
) -> list[dict[str, Any]]:
    """The claims on rows that this scale has, each tested on its curve's test set alone."""
    columns = {curve["name"]: curve["column"] for curve in figure["curves"]}
    known = {row_name(name, value, unit): (name, value) for name in columns for value in everywhere}
    claims = []
    for claim in figure.get("claims", []):
        rows = [claim.get("better"), claim.get("worse")]
        for row in rows:
            if row not in known:
                raise InputError(f"{place}.claims: there is no {row!r}; rows are called like {next(iter(known))!r}")
        if all(known[row][1] in values for row in rows):
            claims.append({**claim, "columns": [columns[known[rows[0]][0]]]})
    return claims


def _keys(value: Any, place: str, known: set[str], optional: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{place}: must be a mapping (key: value), is {value!r}")
    for key in value:
        if key not in known:
            raise InputError(f"{place}: unknown key {key!r}; known are {', '.join(sorted(known))}")
    for key in sorted(known - optional):
        if key not in value:
            raise InputError(f"{place}: the key {key!r} is missing")
    return value
