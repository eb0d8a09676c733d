"""A figure of a paper: curves of error rates over a setting, or of their reductions, as numbers and as a picture."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from espnet_ext.tables.plans.schema import RATE, REDUCTION
from espnet_ext.tables.plans.tables import PREFIX, Figure, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_MARKERS = "osD^vPX*"


def curves_of(figure: Figure, points_of: Sequence[Row], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The part of a result that a picture shows.

    Args:
        figure: how it is drawn.
        points_of: the rows of its table.
        rows: of the result, as :func:`espnet_ext.tables.table_results.collect` makes them, in the table's order.

    Returns:
        ``axis``, ``y``, ``baseline`` and ``curves``. A point of a curve has ``x``, ``rate`` (a cell of the table), its
        ``reduction`` from the curve's own rate at the baseline, both null where nothing has run, and what the paper
        says of them. Reductions are relative, in percent, over the seeds that both points have.
    """
    points: dict[str, list[dict[str, Any]]] = {}
    columns: dict[str, str] = {}
    rates: dict[str, dict[float | None, SeedRates | None]] = {}
    for row, found in zip(points_of, rows, strict=True):
        assert row.curve is not None  # as that of every row of a figure
        (column, cell), *_ = found["cells"].items()
        columns[row.curve] = column
        points.setdefault(row.curve, []).append({"x": row.x, "rate": cell["here"], "paper": cell["paper"]})
        rates.setdefault(row.curve, {})[row.x] = SeedRates.of(found, cell["here"])
    for name, curve in points.items():
        for point in curve:
            point["reduction"] = reduced(rates[name][point["x"]], rates[name].get(figure.baseline))
    return {
        "axis": figure.axis,
        "y": figure.y,
        "baseline": figure.baseline,
        "curves": [
            {
                "name": name,
                "column": columns[name],
                "paper_largest_reduction": figure.largest.get(name),
                "points": sorted(curve, key=lambda point: point["x"]),
            }
            for name, curve in points.items()
        ],
    }


@dataclass(frozen=True)
class SeedRates:
    """The error rate of a point, in percent: the mean over its seeds, and that of each seed."""

    value: float
    by_seed: Mapping[str, float]

    @classmethod
    def of(cls, row: Mapping[str, Any], cell: Mapping[str, Any] | None) -> "SeedRates | None":
        """That of a row's cell; None where nothing has run."""
        if cell is None:
            return None
        return cls(cell["value"], cell.get("values") or {str(row["seeds"][0]): cell["value"]})

    def mean(self, seeds: Sequence[str]) -> float:
        """The mean over some of the seeds."""
        if len(seeds) == len(self.by_seed):
            return self.value  # of all errors, which is more exact than the mean of rounded rates
        return statistics.fmean(self.by_seed[seed] for seed in seeds)


def reduced(rate: SeedRates | None, base: SeedRates | None) -> dict[str, Any] | None:
    """The relative reduction of the mean rate from the baseline, in percent, over the seeds that both have.

    The spread is the standard deviation of the reductions of single seeds, each from the baseline of the same seed, so
    that a seed that is better everywhere adds no spread. None without a rate, a baseline or a seed in common.

    >>> base = SeedRates(10.0, {"1": 8.0, "2": 12.0})
    >>> reduced(SeedRates(9.0, {"1": 8.0, "2": 9.0, "3": 10.0}), base)
    {'value': 15.0, 'spread': 17.6777, 'values': {'1': 0.0, '2': 25.0}}
    """
    seeds = [seed for seed in rate.by_seed if seed in base.by_seed] if rate and base else []
    if not rate or not base or not seeds or not all(base.by_seed[seed] for seed in seeds):
        return None

    def of(value: float, reference: float) -> float:
        return round(100 * (reference - value) / reference, 4)

    overall = {"value": of(rate.mean(seeds), base.mean(seeds))}
    if len(seeds) == 1:
        return overall
    values = {seed: of(rate.by_seed[seed], base.by_seed[seed]) for seed in seeds}
    return {**overall, "spread": round(statistics.stdev(values.values()), 4), "values": values}


def seeds_note(result: Mapping[str, Any]) -> str:
    """Which rows have which seeds, where they do not all have the same; otherwise nothing.

    >>> rows = [{"name": "A", "seeds": [1, 2]}, {"name": "B", "seeds": [1]}, {"name": "C", "seeds": [1]}]
    >>> seeds_note({"rows": [*rows, {"name": "D", "seeds": []}]})
    'seeds 1 2: A; seeds 1: the others'
    """
    rows: dict[str, list[str]] = {}
    for row in result["rows"]:
        if row["seeds"]:
            rows.setdefault(" ".join(map(str, row["seeds"])), []).append(row["name"])
    if len(rows) < 2:
        return ""
    most = max(rows, key=lambda seeds: len(rows[seeds]))
    named = [f"seeds {seeds}: {', '.join(names)}" for seeds, names in rows.items() if seeds != most]
    return "; ".join([*named, f"seeds {most}: the others"])


def shown(figure: Mapping[str, Any], point: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The value of a point that is drawn: its ``rate`` or its ``reduction``."""
    return point["rate"] if figure["y"] == RATE else point["reduction"]


def label_of(figure: Mapping[str, Any], metric: str) -> str:
    """The label of the y axis, with its unit.

    >>> label_of({"y": "reduction", "baseline": 10, "axis": "Length (s)"}, "WER (%)")
    'Reduction of the WER from that at 10 s (%)'
    """
    name = metric.partition(" ")[0]
    return metric if figure["y"] == RATE else f"Reduction of the {name} from that at {baseline_of(figure)} (%)"


def baseline_of(figure: Mapping[str, Any]) -> str:
    """The x value from which reductions are computed, with its unit.

    >>> baseline_of({"baseline": 10, "axis": "Length (s)"})
    '10 s'
    """
    return f"{figure['baseline']:g} {figure['axis'].rpartition('(')[2].rstrip(')')}"


def curves_table(result: Mapping[str, Any], style: str) -> str:
    """The figure's numbers as a table in one of tabulate's styles."""
    head, body = curve_rows(result)
    return tabulate(body, head, tablefmt=style, disable_numparse=True)


def curve_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The figure's numbers: one line per x value, one column per curve, with reductions in brackets after the rates.

    Returns:
        The column headings, and the lines.
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


def draw(result: Mapping[str, Any]) -> "Picture":
    """Draw a result that has curves.

    The x axis is logarithmic, with a tick at each value. Bars are the standard deviation over seeds. In the colour of a
    curve, a dotted line marks the largest reduction that the paper names, and a cross the paper's own rate. If
    reductions are drawn, the legend has the rates at the baseline.
    """
    import matplotlib  # takes a second
    from matplotlib.figure import Figure as Picture
    from matplotlib.ticker import FixedLocator, NullLocator

    from espnet_ext.work.plot_style import COLOURS, STYLE

    figure = result["figure"]
    with matplotlib.rc_context(STYLE):
        picture = Picture(figsize=(7.4, 5.0), layout="constrained")
        axes = picture.subplots()
        axes.set_xscale("log")
        for number, curve in enumerate(figure["curves"]):
            colour = COLOURS[number % len(COLOURS)]
            points = [(point["x"], shown(figure, point), point) for point in curve["points"]]
            there = [(x, value["value"], value.get("spread", 0.0)) for x, value, _ in points if value]
            if there:
                xs, ys, spreads = zip(*there, strict=True)
                marker = _MARKERS[number % len(_MARKERS)]
                axes.errorbar(
                    xs, ys, spreads, color=colour, marker=marker, markersize=4, linewidth=1.2, capsize=2.5,
                    label=_label(figure, curve),
                )  # fmt: skip
            _paper(axes, figure, curve, colour)
        places = sorted({point["x"] for curve in figure["curves"] for point in curve["points"]})
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(figure["axis"])
        axes.set_ylabel(label_of(figure, result["metric"]))
        handles, labels = axes.get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda place: "paper's" in labels[place])  # the curves first
        picture.legend(
            [handles[place] for place in order], [labels[place] for place in order], loc="outside lower center",
            ncols=2, frameon=False,
        )  # fmt: skip
        number = result["table"].removeprefix(PREFIX)
        picture.suptitle(f"Figure {number}. {result['caption']}\n{_made_on(result)}", parse_math=False)
        return picture


def _label(figure: Mapping[str, Any], curve: Mapping[str, Any]) -> str:
    """The curve's name; with reductions, also the rates at the baseline, here and in the paper."""
    base = next((point for point in curve["points"] if point["x"] == figure["baseline"]), None)
    if figure["y"] == RATE or base is None or base["rate"] is None:
        return curve["name"]
    paper = "" if base["paper"] is None else f", paper {base['paper']:g} %"
    return f"{curve['name']} (at {baseline_of(figure)}: {base['rate']['value']:.1f} %{paper})"


def _paper(axes: Any, figure: Mapping[str, Any], curve: Mapping[str, Any], colour: str) -> None:
    """Draw the paper's numbers of a curve, if the y axis shows them."""
    largest = curve["paper_largest_reduction"]
    if figure["y"] == REDUCTION and largest is not None:
        label = f"{curve['name']}, the paper's largest: {largest:g} %"
        axes.axhline(largest, color=colour, linestyle=":", linewidth=1.0, label=label)
    rates = [(point["x"], point["paper"]) for point in curve["points"] if point["paper"] is not None]
    if figure["y"] == RATE and rates:
        axes.plot(*zip(*rates, strict=True), "x", color=colour, label=f"{curve['name']}, the paper's")


def _made_on(result: Mapping[str, Any]) -> str:
    counts = sorted({len(row["seeds"]) for row in result["rows"] if row["seeds"]}) or [0]
    repeats = f"{counts[0]} seed" if counts == [1] else f"{counts[-1]} seeds"
    if len(counts) > 1:
        repeats = f"{counts[0]} to {repeats}"
    bars = "; bars: standard deviation" if counts[-1] > 1 else ""
    return f"{result['meta']['corpus']} corpus, scale {result['scale']}, {repeats}{bars}"
