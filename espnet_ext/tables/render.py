"""A table's results as text: plain for the terminal, Markdown for files and pages."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from espnet_ext.scoring.formatting import (
    NOTHING,
    format_count,
    format_interval,
    format_p,
    format_value,
)
from espnet_ext.tables.design import Design, Making
from espnet_ext.tables.reading import Column
from espnet_ext.tables.result import (
    VERDICTS,
    ClaimResult,
    ClaimTest,
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
    "effect: how much lower (as claimed) or higher the error rate is, in points, mean "
    "over seeds, with its interval for other trainings and other units (below zero: "
    "the other way); p: two-sided; both are corrected for the claims of the design "
    "and for all designs of the question."
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


def lay_out_table(
    result: TableResult,
    columns: Sequence[Column],
    row_names: Sequence[str] | None = None,
) -> Grid:
    """Lay out columns of a table: the paper's number, if it has one, and ours.

    Relative reductions stand right of the column that they are of, seeds at the end.
    """
    rows = [row for row in result.rows if row_names is None or row.name in row_names]
    head = ["row"]
    body = [[row.name] for row in rows]
    for column in columns:
        pairs = []
        for row in rows:
            cell = row.cells[column]
            pairs.append((format_value(cell.paper), format_result(cell.here)))
        _add_column(head, body, column.heading, pairs)
        if result.reference and column in result.table.reductions:
            reduced = []
            for row in rows:
                paper, here = result.compute_reductions(row, column)
                reduced.append((format_percent(paper), format_percent(here)))
            heading = f"{column.heading} against {result.reference.name}"
            _add_column(head, body, heading, reduced)
    lines = []
    for cells, row in zip(body, rows, strict=True):
        lines.append((*cells, _format_seeds(row.seeds)))
    return Grid((*head, "seeds"), tuple(lines))


def _add_column(
    head: list[str],
    body: list[list[str]],
    heading: str,
    pairs: Sequence[tuple[str, ...]],
) -> None:
    """Add a column of the paper's numbers, if it has any, and one of ours."""
    # a corpus that is not the paper's has none, and a column of dashes says nothing
    of_paper = any(paper != NOTHING for paper, _ in pairs)
    head += [f"{heading}{PAPER}", "ours"] if of_paper else [heading]
    for cells, pair in zip(body, pairs, strict=True):
        cells += pair if of_paper else pair[1:]


def lay_out_figure(result: TableResult) -> Grid:
    """Lay out a figure: a row for each x value, a column for each curve.

    Reductions stand in brackets after the rates.
    """
    assert result.table.figure is not None
    curves = {}
    for name, points in result.curves.items():
        curves[name] = {point.x: _format_point(point) for point in points}
    # a curve may lack some of them
    places = sorted({row.x for row in result.rows})
    rows = tuple(
        (f"{x:g}", *(curve.get(x, NOTHING) for curve in curves.values()))
        for x in places
    )
    return Grid((result.table.figure.axis, *curves), rows)


def _format_point(point: ResultRow) -> str:
    here = point.cell.here
    text = NOTHING
    if here is not None:
        text = format_value(here.value, here.spread)
        if point.reduction:
            reduced = f"{point.reduction.value:.1f}"
            if point.reduction.spread is not None:
                reduced += f" ± {point.reduction.spread:.1f}"
            text += f" ({reduced}%)"
    if point.cell.paper is not None:
        text += f"; paper {format_value(point.cell.paper, point.spread)}"
    return text


def format_result(here: Result | None) -> str:
    """Write a result with its spread over seeds and its interval.

    >>> format_result(Result(6.1, {1: 6.0, 2: 6.2}, 0.2, (5.8, 6.4)))
    '6.10 ± 0.20 [5.80, 6.40]'
    """
    if here is None:
        return NOTHING
    return (
        f"{format_value(here.value, here.spread)} {format_interval(here.interval)}"
    ).strip()


def _format_seeds(seeds: Sequence[int]) -> str:
    """Write seeds, those that follow each other as a range.

    >>> _format_seeds((1, 2, 3, 4)), _format_seeds((1, 2, 11)), _format_seeds(())
    ('1-4', '1 2 11', '-')
    """
    if not seeds:
        return NOTHING
    # they are sorted, and each is there once
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]}-{seeds[-1]}"
    return " ".join(map(str, seeds))


def format_percent(value: float | None) -> str:
    """Write a share in percent, with one digit."""
    if value is None:
        return NOTHING
    # 0.0 is added since -0.0 would be shown with its sign
    return f"{round(value, 1) + 0.0:.1f}%"


def explain_signs(result: TableResult) -> str:
    """Return what the signs in the cells mean.

    Points of a figure, whose grid has no seeds, are named if these are other than most.
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
            rows.setdefault(_format_seeds(row.seeds), []).append(row.name)
    most = max(rows, key=lambda seeds: len(rows[seeds]), default="")
    named = []
    for seeds, names in rows.items():
        if seeds != most:
            named.append(f"seeds {seeds}: {', '.join(names)}")
    if not named:
        return text
    every = "; ".join([*named, f"seeds {most}: the others"])
    return f"{text} Rows with different seeds: {every}."


def describe_effect(points: float) -> str:
    """Write by how much an error rate is lower, as a claim says, or higher."""
    return f"{abs(points):.2f} {'higher' if points < 0 else 'lower'}"


def format_effect_interval(effect: Effect) -> str:
    """Write the interval of an effect, in the direction of :func:`describe_effect`."""
    if effect.interval is None or effect.points >= 0:
        return format_interval(effect.interval, "+")
    # "0.30 higher [+0.10, +0.50]": turned round with the sign of its effect
    low, high = effect.interval
    return format_interval((-high, -low), "+")


def lay_out_claims(claims: Iterable[ClaimResult]) -> Grid:
    """Lay out claims, a line for each design: on what, against what, effects, verdict.

    The paper's effect is that on its own corpus.
    """
    rows = []
    for claim in claims:
        effects = []
        units = []
        for test in claim.tests:
            if test.here:
                effects.append(_describe_test(claim, test))
                units.append(format_count(test.here.units, test.here.unit))
        rows.append(
            (
                claim.claim.text,
                f"{claim.design.corpus}, {claim.design.scale}",
                ", ".join(claim.baselines),
                "; ".join(_format_paper_effects(claim)) or NOTHING,
                "; ".join(effects) or NOTHING,
                claim.verdict_text,
                format_p(claim.p_corrected),
                _format_seeds(claim.seeds),
                ", ".join(dict.fromkeys(units)) or NOTHING,
            )
        )
    # in the order of the cells above
    head = (
        "claim",
        "data",
        "baseline",
        "paper, on its corpus",
        "ours",
        "verdict",
        "p",
        "seeds",
        "units",
    )
    return Grid(head, tuple(rows))


def _format_paper_effects(claim: ClaimResult) -> list[str]:
    """Write the paper's effect on each of its sets; against several rows, the least."""
    least: dict[str, float] = {}
    for test in claim.tests:
        if test.paper is not None:
            name = test.column.name
            least[name] = min(test.paper, least.get(name, test.paper))
    return [f"{name} {describe_effect(points)}" for name, points in least.items()]


def _describe_test(claim: ClaimResult, test: ClaimTest) -> str:
    assert test.here is not None
    against = f" than {test.against}" if len(claim.baselines) > 1 else ""
    text = f"{test.column.heading} {describe_effect(test.here.points)}{against}"
    return f"{text} {format_effect_interval(test.here)}".rstrip()


def list_claim_lines(claims: Sequence[ClaimResult]) -> list[str]:
    """Write claims for the terminal, each with all of its designs below it."""
    lines: list[str] = []
    for claim in claims:
        head = f"{claim.claim.text} (against {', '.join(claim.baselines)})"
        if head not in lines:
            lines.append(head)
        effects = "; ".join(
            _describe_test(claim, test) for test in claim.tests if test.here
        )
        corrected = "no p-value"
        if claim.p_corrected is not None:
            p_value = format_p(claim.p_corrected)
            corrected = f"p = {p_value}, corrected for {claim.times}"
        lines.append(
            f"    {claim.design.corpus}, {claim.design.scale}: {claim.verdict_text}; "
            f"{effects or NOTHING}; {corrected}; {claim.design.units}"
        )
    return lines


def describe_design(design: Design, tried: Mapping[str, int] | None = None) -> str:
    """Say how claims are decided, and since when that is fixed.

    ``tried`` says how many designs ask the question of each claim.
    """
    since = "Not registered" if design.seen else f"Design of commit {design.commit}"
    asked = {name: (tried or {}).get(name, 1) for name in design.claims}
    numbers = " or ".join(str(number) for number in sorted(set(asked.values())))
    designs = "design" if numbers == "1" else "designs"
    parts = [
        f"{since}: {format_count(len(design.seeds), 'seed')}, {design.units}",
        f"corrected for {format_count(design.tests or len(design.claims), 'test')} "
        f"(Holm) and for {numbers} {designs} of a question",
    ]
    if design.fewest:
        parts.append("degrees of freedom of the fewer")
    if design.margin:
        parts.append(f"margin {format_count(design.margin, 'point')}")
    if design.failed:
        parts.append(f"failed: loss on dev above {design.failed:g}")
    if design.failed_units:
        limit = f"{design.failed_units:g} %"
        parts.append(f"left out: units with an error rate above {limit}")
    if design.detectable:
        parts.append(f"detectable: {design.detectable}")
    parts += design.fixed
    return "; ".join(parts) + "."


def describe_counts(claims: Sequence[ClaimResult]) -> str:
    """Return how many claims have which verdict."""
    counts = Counter(claim.verdict for claim in claims)
    parts = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]]
    total = format_count(len(claims), "claim")
    return f"{total}: {', '.join(parts)}" if parts else total


def write_plain_table(
    result: TableResult, row_names: Sequence[str] | None = None
) -> str:
    """Write a table for the terminal, with the rows named (None: all).

    Each claim that was tested has a line below it.
    """
    if result.table.figure:
        body = lay_out_figure(result).text("simple")
    else:
        # a table of many measures is wider than a terminal: one below the other
        grids = [lay_out_table(result, each, row_names) for each in result.groups]
        body = "\n\n".join(grid.text("simple") for grid in grids)
    lines = [
        f"{result.title}, {result.meta.corpus}, scale {result.meta.scale}",
        "",
        body,
        "",
        explain_signs(result),
    ]
    lines += list_claim_lines(result.claims)
    return "\n".join(lines) + "\n"


def write_markdown_table(
    result: TableResult, heading: str, pictures: str = ""
) -> list[str]:
    """Write a table as lines of Markdown under a heading.

    A figure has its picture, ``<pictures><name>.png``.
    """
    lines = [f"{heading} {result.title}", ""]
    if result.table.figure:
        grid = lay_out_figure(result)
        picture = f"{pictures}{result.table.id}.png"
        lines += [f"![{result.table.title}]({picture})", ""]
    else:
        grid = lay_out_table(result, result.table.columns)
    return [*lines, *grid.text("pipe").splitlines(), ""]


def describe_run(run: RunRecord, versions: bool = True) -> str:
    """Return how results were made: command, commit, date, machine and versions."""
    commit = "not in git"
    if run.git is not None:
        commit = run.git.commit[:12]
        if run.git.dirty:
            commit += " with uncommitted changes"
    machine = [run.hardware.cpu]
    if run.hardware.cores is not None:
        machine.append(format_count(run.hardware.cores, "core"))
    for name in dict.fromkeys(run.hardware.gpu):
        machine.append(f"{run.hardware.gpu.count(name)} x {name}")
    machine.append(f"{run.hardware.memory_gib} GiB")
    parts = [f"`{run.command}`", f"commit {commit}", run.date, ", ".join(machine)]
    # a package that was not installed has no version
    installed = [f"{name} {each}" for name, each in run.versions.items() if each]
    if installed and versions:
        parts.append(", ".join(installed))
    return "; ".join(parts)


def describe_making(making: Making) -> str:
    """Say what was done before a run, and how long all took; ends with a space."""
    hours = [f"{making.hours:g} hours of one core."] if making.hours else []
    before = [f"First: {making.before}."] if making.before else []
    return "".join(f"{part} " for part in (*hours, *before))


def write_markdown_meta(meta: Meta, making: Making) -> list[str]:
    """Say how the results of one corpus and scale were made, as lines of Markdown."""
    perplexity = ""
    if meta.lm_perplexity is not None:
        perplexity = f"; perplexity of the language model {meta.lm_perplexity:.2f}"
    lines = [
        f"Text normalisation: {meta.normaliser or 'none'}{perplexity}. "
        f"{describe_making(making)}Made by:",
        "",
    ]
    return [*lines, *(f"- {describe_run(run)}" for run in meta.runs), ""]
