"""A table's results as text: plain for the terminal, Markdown for files, and the parts
that pages share.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from espnet_ext.scoring.formatting import (
    NOTHING,
    count_of,
    format_interval,
    format_p,
    format_value,
)
from espnet_ext.tables.design import Design
from espnet_ext.tables.reading import Column
from espnet_ext.tables.result import (
    VERDICTS,
    ClaimResult,
    Effect,
    Result,
    ResultRow,
    TableResult,
)
from espnet_ext.tables.score_table import Meta, RunRecord

OURS = (
    "ours: mean over seeds ± standard deviation between trainings, [95% interval "
    "of the mean with other speakers or "
    f"recordings, for these trainings]; {NOTHING}: not run"
)
EFFECT = (
    "effect: how much lower (as claimed) or higher the error rate is, in points, "
    "mean over seeds, with its 95% interval"
    " for other trainings and other units (below zero: the other way); p: "
    "two-sided, corrected as the design says."
)
PAPER = ", paper"  # ends the heading of a column of the paper's numbers
_PIPES = str.maketrans({"|": r"\|", "\n": " "})


@dataclass(frozen=True)
class Grid:
    """Text in rows and columns: the headings, and the rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self, style: str) -> str:
        """Lay it out in one of tabulate's styles; ``pipe`` is Markdown."""
        lines = [self.head, *self.rows]
        if style == "pipe":
            lines = [tuple(cell.translate(_PIPES) for cell in line) for line in lines]
        else:  # a terminal is narrow
            lines[0] = tuple(cell.replace(PAPER, "\npaper") for cell in self.head)
        return tabulate(lines[1:], lines[0], tablefmt=style, disable_numparse=True)


def grid_of(
    result: TableResult,
    columns: Sequence[Column],
    row_names: Sequence[str] | None = None,
) -> Grid:
    """Lay out columns of a table: the paper's number, if it has one, and ours; then
    relative reductions, then seeds.
    """
    rows = [row for row in result.rows if row_names is None or row.name in row_names]
    head, body = ["row"], [[row.name] for row in rows]
    for column in columns:
        pairs = [
            (
                format_value(row.cells[column].paper),
                shown_result(row.cells[column].here),
            )
            for row in rows
        ]
        _add(head, body, column.heading, pairs)
        if result.reference and column in result.table.reductions:
            reduced = [
                tuple(map(percent_text, result.reduction_of(row, column)))
                for row in rows
            ]
            _add(head, body, f"{column.name} against {result.reference.name}", reduced)
    return Grid(
        (*head, "seeds"),
        tuple(
            (*cells, _seeds(row.seeds)) for cells, row in zip(body, rows, strict=True)
        ),
    )


def _add(
    head: list[str],
    body: list[list[str]],
    heading: str,
    pairs: Sequence[tuple[str, ...]],
) -> None:
    """Add a column of the paper's numbers, if it has any, and one of ours."""
    of_paper = any(paper != NOTHING for paper, _ in pairs)
    head += [f"{heading}{PAPER}", "ours"] if of_paper else [heading]
    for cells, pair in zip(body, pairs, strict=True):
        cells += pair if of_paper else pair[1:]


def curve_grid(result: TableResult) -> Grid:
    """Lay out a figure: a row for each x value, a column for each curve; reductions in
    brackets after the rates.
    """
    assert result.table.figure is not None
    curves = {
        name: {row.x: _point(row) for row in rows}
        for name, rows in result.curves.items()
    }
    places = sorted({row.x for row in result.rows})
    rows = tuple(
        (f"{x:g}", *(curve.get(x, NOTHING) for curve in curves.values()))
        for x in places
    )
    return Grid((result.table.figure.axis, *curves), rows)


def _point(point: ResultRow) -> str:
    here, reduced = point.cell.here, ""
    if point.reduction:
        spread = (
            "" if point.reduction.spread is None else f" ± {point.reduction.spread:.1f}"
        )
        reduced = f" ({point.reduction.value:.1f}{spread}%)"
    text = (
        NOTHING if here is None else f"{format_value(here.value, here.spread)}{reduced}"
    )
    return (
        text
        if point.cell.paper is None
        else f"{text}; paper {format_value(point.cell.paper, point.spread)}"
    )


def shown_result(here: Result | None) -> str:
    """Write a result with its spread over seeds and its interval.

    >>> shown_result(Result(6.1, {1: 6.0, 2: 6.2}, 0.2, (5.8, 6.4)))
    '6.10 ± 0.20 [5.80, 6.40]'
    """
    if here is None:
        return NOTHING
    return (
        f"{format_value(here.value, here.spread)} {format_interval(here.interval)}"
    ).strip()


def _seeds(seeds: Sequence[int]) -> str:
    """Write seeds, those that follow each other as a range.

    >>> _seeds((1, 2, 3, 4)), _seeds((1, 2, 11)), _seeds(())
    ('1-4', '1 2 11', '-')
    """
    whole = len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1
    return f"{seeds[0]}-{seeds[-1]}" if whole else " ".join(map(str, seeds)) or NOTHING


def percent_text(value: float | None) -> str:
    """Write a share in percent, with one digit."""
    return NOTHING if value is None else f"{round(value, 1) + 0.0:.1f}%"  # never -0.0


def legend(result: TableResult) -> str:
    """Return what the signs in the cells mean, and which points of a figure have other
    seeds than most.
    """
    if not result.table.figure:
        return f"{OURS}."
    text = (
        f"{result.metric}, in brackets the reduction from the value at "
        f"{result.table.figure.start:g} on the same "
        "curve, over the seeds that both have; ± standard deviation over seeds, "
        "of the paper over its repeats; "
        f"{NOTHING}: not run."
    )
    rows: dict[str, list[str]] = {}
    for row in result.rows:
        if row.seeds:
            rows.setdefault(_seeds(row.seeds), []).append(row.name)
    most = max(rows, key=lambda seeds: len(rows[seeds]), default="")
    named = [
        f"seeds {seeds}: {', '.join(names)}"
        for seeds, names in rows.items()
        if seeds != most
    ]
    return (
        f"{text} Rows with different seeds: "
        f"{'; '.join([*named, f'seeds {most}: the others'])}."
        if named
        else text
    )


def effect_text(points: float) -> str:
    """Write by how much an error rate is lower, as a claim says, or higher."""
    return f"{abs(points):.2f} {'higher' if points < 0 else 'lower'}"


def effect_interval(effect: Effect) -> str:
    """Write the interval of an effect, in the direction that :func:`effect_text` names."""
    if effect.interval is None or effect.points >= 0:
        return format_interval(effect.interval, "+")
    return format_interval((-effect.interval[1], -effect.interval[0]), "+")


def claims_grid(claims: Iterable[ClaimResult]) -> Grid:
    """Lay out claims, a line each: the paper's effect, ours with its interval, verdict,
    p-value, seeds and units.
    """
    rows = []
    for claim in claims:
        paper = [
            f"{test.column.name} {effect_text(test.paper)}"
            for test in claim.tests
            if test.paper is not None
        ]
        ours = [(test.column.name, test.here) for test in claim.tests if test.here]
        effects = [
            f"{name} {effect_text(here.points)} {effect_interval(here)}".rstrip()
            for name, here in ours
        ]
        units = dict.fromkeys(count_of(here.units, here.unit) for _, here in ours)
        first = (
            claim.claim.text,
            "; ".join(paper) or NOTHING,
            "; ".join(effects) or NOTHING,
        )
        verdict = (
            claim.verdict_text,
            format_p(claim.p_corrected),
            _seeds(claim.seeds),
            ", ".join(units) or NOTHING,
        )
        rows.append((*first, *verdict))
    return Grid(
        ("claim", "paper's effect", "ours", "verdict", "p", "seeds", "units"),
        tuple(rows),
    )


def design_text(design: Design) -> str:
    """Say how claims are decided, and since when that is fixed."""
    level = (
        "in their order"
        if design.order
        else f"corrected for {max(design.family, len(design.claims))} (Holm)"
    )
    parts = [
        f"Design of commit {design.commit}: "
        f"{count_of(len(design.seeds), 'seed')}, {design.units}",
        f"claims {level}, {count_of(design.looks, 'look')}",
        *([f"margin {count_of(design.margin, 'point')}"] if design.margin else []),
        *([f"failed: loss on dev above {design.failed:g}"] if design.failed else []),
        *([f"detectable: {design.detectable}"] if design.detectable else []),
        *([f"hours of one core: {design.hours:g}"] if design.hours else []),
    ]
    return "; ".join(parts) + "."


def counts_text(claims: Sequence[ClaimResult]) -> str:
    """Return how many claims have which verdict."""
    counts = Counter(claim.verdict for claim in claims)
    parts = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]]
    total = count_of(len(claims), "claim")
    return f"{total}: {', '.join(parts)}" if parts else total


def plain_table(result: TableResult, row_names: Sequence[str] | None = None) -> str:
    """Write a table for the terminal, with the rows named (None: all) and a line for
    each claim that was tested.
    """
    if result.table.figure:
        body = curve_grid(result).text("simple")
    else:
        body = "\n\n".join(
            grid_of(result, columns, row_names).text("simple")
            for columns in result.groups
        )
    lines = [
        f"{result.title}, {result.meta.corpus}, scale {result.meta.scale}",
        "",
        body,
        "",
        legend(result),
    ]
    lines += [
        f"{claim.claim.text}: {claim.verdict_text}, p = {format_p(claim.p_corrected)}"
        for claim in result.claims
    ]
    return "\n".join(lines) + "\n"


def markdown_table(result: TableResult, heading: str, pictures: str = "") -> list[str]:
    """Write a table as lines of Markdown under a heading; a figure with its picture,
    ``<pictures><name>.png``.
    """
    grid = (
        curve_grid(result)
        if result.table.figure
        else grid_of(result, result.table.columns)
    )
    picture = (
        [f"![{result.table.title}]({pictures}{result.table.id}.png)", ""]
        if result.table.figure
        else []
    )
    return [
        f"{heading} {result.title}",
        "",
        *picture,
        *grid.text("pipe").splitlines(),
        "",
    ]


def run_text(run: RunRecord) -> str:
    """Return how results were made: command, commit, date, machine and versions."""
    git, machine = run.git, run.hardware
    commit = (
        "not in git"
        if git is None
        else git.commit[:12] + (" with uncommitted changes" if git.dirty else "")
    )
    gpus = [
        f"{machine.gpu.count(name)} x {name}" for name in dict.fromkeys(machine.gpu)
    ]
    cores = [] if machine.cores is None else [count_of(machine.cores, "core")]
    on = ", ".join([machine.cpu, *cores, *gpus, f"{machine.memory_gib} GiB"])
    versions = ", ".join(
        f"{name} {version}" for name, version in run.versions.items() if version
    )
    return "; ".join(
        [
            f"`{run.command}`",
            f"commit {commit}",
            run.date,
            on,
            *([versions] if versions else []),
        ]
    )


def markdown_meta(meta: Meta) -> list[str]:
    """Say how the results of one corpus and scale were made, as lines of Markdown."""
    perplexity = (
        ""
        if meta.lm_perplexity is None
        else f"; perplexity of the language model {meta.lm_perplexity:.2f}"
    )
    lines = [
        f"Text normalisation: {meta.normaliser or 'none'}{perplexity}. Made by:",
        "",
    ]
    return [*lines, *(f"- {run_text(run)}" for run in meta.runs), ""]
