"""A figure's curves: error rates over a setting, or their reductions, with the mean and the spread of repeats."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tabulate import tabulate

from espnet_ext.results.tables import Table
from espnet_ext.results.schema import RATE


def curves_of(table: Table, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The part of a result that is drawn.

    Args:
        table: with a figure.
        rows: of the result, as :func:`espnet_ext.results.results.collect` makes them, in the order of the table's.

    Returns:
        ``axis``, ``y``, ``baseline`` and ``curves``. A point of a curve has ``x``, ``rate`` (a cell of the table), its
        ``reduction`` from the curve's own rate at the baseline, both null where nothing has run, and what the paper
        says of them. Reductions are relative, in percent.
    """
    points: dict[str, list[dict[str, Any]]] = {}
    columns: dict[str, str] = {}
    for row, found in zip(table.rows, rows, strict=True):
        (column, cell), *_ = found["cells"].items()
        columns[row.curve] = column
        points.setdefault(row.curve, []).append({"x": row.x, "rate": cell["here"], "paper": cell["paper"]})
    for curve in points.values():
        base = next((point["rate"] for point in curve if point["x"] == table.figure.baseline), None)
        for point in curve:
            point["reduction"] = reduced(point["rate"], base)
    return {
        "axis": table.figure.axis,
        "y": table.figure.y,
        "baseline": table.figure.baseline,
        "curves": [
            {
                "name": name,
                "column": columns[name],
                "paper_largest_reduction": table.figure.largest.get(name),
                "points": sorted(curve, key=lambda point: point["x"]),
            }
            for name, curve in points.items()
        ],
    }


def reduced(rate: Mapping[str, Any] | None, base: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """By how many percent the mean rate is lower than that of the baseline, with the spread over seeds.

    The spread is that of the reductions of single seeds, each from the baseline of the same seed, or from the mean
    where the baseline lacks it: what a seed has in common at all contexts is no spread of a reduction.

    >>> base = {"value": 10.0, "values": {"1": 8.0, "2": 12.0}}
    >>> reduced({"value": 9.0, "spread": 1.4142, "values": {"1": 8.0, "2": 9.0, "3": 10.0}}, base)
    {'value': 10.0, 'spread': 14.4338, 'values': {'1': 0.0, '2': 25.0, '3': 0.0}}
    """
    if rate is None or not base or not base["value"]:
        return None

    def of(value: float, reference: float) -> float:
        return round(100 * (reference - value) / reference, 4)

    overall = {"value": of(rate["value"], base["value"])}
    if "values" not in rate:
        return overall
    own = base.get("values", {})
    values = {seed: of(value, own.get(seed) or base["value"]) for seed, value in rate["values"].items()}
    return {**overall, "spread": round(statistics.stdev(values.values()), 4), "values": values}


def shown(figure: Mapping[str, Any], point: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is drawn of a point: its ``rate``, or its ``reduction``."""
    return point["rate"] if figure["y"] == RATE else point["reduction"]


def label_of(figure: Mapping[str, Any], metric: str) -> str:
    """What the axis of y shows, with its unit.

    >>> label_of({"y": "reduction", "baseline": 10, "axis": "Length (s)"}, "WER (%)")
    'Reduction of the WER from that at 10 s (%)'
    """
    name = metric.partition(" ")[0]
    return metric if figure["y"] == RATE else f"Reduction of the {name} from that at {baseline_of(figure)} (%)"


def baseline_of(figure: Mapping[str, Any]) -> str:
    """The value to which reductions refer, with the unit of the axis of x.

    >>> baseline_of({"baseline": 10, "axis": "Length (s)"})
    '10 s'
    """
    return f"{figure['baseline']:g} {figure['axis'].rpartition('(')[2].rstrip(')')}"


def curves_table(result: Mapping[str, Any], style: str) -> str:
    """The figure's numbers, drawn by tabulate."""
    head, body = curve_rows(result)
    return tabulate(body, head, tablefmt=style, disable_numparse=True)


def curve_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The figure's numbers, a line for each x and a column for each curve: rates, and reductions in brackets.

    Returns:
        The heads of the columns, and the lines.
    """
    figure = result["figure"]
    places = sorted({point["x"] for curve in figure["curves"] for point in curve["points"]})
    body = []
    for x in places:
        cells = [f"{x:g}"]
        for curve in figure["curves"]:
            point = next((point for point in curve["points"] if point["x"] == x), None)
            cells.append(_cell(point) if point else "-")
        body.append(cells)
    return [figure["axis"], *(curve["name"] for curve in figure["curves"])], body


def _cell(point: Mapping[str, Any]) -> str:
    if point["rate"] is None:
        text = "-"
    else:
        text = _number(point["rate"], 2)
        if point["reduction"] is not None:
            text += f" ({_number(point['reduction'], 1)}%)"
    return text if point["paper"] is None else f"{text}; paper {point['paper']:g}"


def _number(value: Mapping[str, Any], digits: int) -> str:
    spread = f" ± {value['spread']:.{digits}f}" if "spread" in value else ""
    return f"{value['value']:.{digits}f}{spread}"
