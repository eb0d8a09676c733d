"""A table's results as text: plain for the terminal, Markdown for files, and the parts
that pages share.
"""

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
    """Lay out columns of a table: the paper's number, if it has one, and ours; then
    relative reductions, then seeds.
    """
    rows = [row for row in result.rows if row_names is None or row.name in row_names]
    head = ["row"]
    body = [[row.name] for row in rows]
    for column in columns:
        pairs = [
            (
                format_value(row.cells[column].paper),
                format_result(row.cells[column].here),
            )
            for row in rows
        ]
        _add_column(head, body, column.heading, pairs)
        if result.reference and column in result.table.reductions:
            reduced = [
                tuple(map(format_percent, result.compute_reductions(row, column)))
                for row in rows
            ]
            heading = f"{column.heading} against {result.reference.name}"
            _add_column(head, body, heading, reduced)
    return Grid(
        (*head, "seeds"),
        tuple(
            (*cells, _format_seeds(row.seeds))
            for cells, row in zip(body, rows, strict=True)
        ),
    )


def _add_column(
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


def lay_out_figure(result: TableResult) -> Grid:
    """Lay out a figure: a row for each x value, a column for each curve; reductions in
    brackets after the rates.
    """
    assert result.table.figure is not None
    curves = {
        name: {row.x: _format_point(row) for row in rows}
        for name, rows in result.curves.items()
    }
    places = sorted({row.x for row in result.rows})
    rows = tuple(
        (f"{x:g}", *(curve.get(x, NOTHING) for curve in curves.values()))
        for x in places
    )
    return Grid((result.table.figure.axis, *curves), rows)


def _format_point(point: ResultRow) -> str:
    here = point.cell.here
    reduced = ""
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
    whole = len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1
    return f"{seeds[0]}-{seeds[-1]}" if whole else " ".join(map(str, seeds)) or NOTHING


def format_percent(value: float | None) -> str:
    """Write a share in percent, with one digit."""
    return NOTHING if value is None else f"{round(value, 1) + 0.0:.1f}%"  # never -0.0


def explain_signs(result: TableResult) -> str:
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
            rows.setdefault(_format_seeds(row.seeds), []).append(row.name)
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


def describe_effect(points: float) -> str:
    """Write by how much an error rate is lower, as a claim says, or higher."""
    return f"{abs(points):.2f} {'higher' if points < 0 else 'lower'}"


def format_effect_interval(effect: Effect) -> str:
    """Write the interval of an effect, in the direction of :func:`describe_effect`."""
    if effect.interval is None or effect.points >= 0:
        return format_interval(effect.interval, "+")
    return format_interval((-effect.interval[1], -effect.interval[0]), "+")


def lay_out_claims(claims: Iterable[ClaimResult]) -> Grid:
    """Lay out claims, a line for each design: on what, against which baselines, the
    paper's effect on its own corpus, ours, verdict, p-value, seeds and units.
    """
    rows = []
    for claim in claims:
        effects = [_describe_test(claim, test) for test in claim.tests if test.here]
        units = dict.fromkeys(
            format_count(test.here.units, test.here.unit)
            for test in claim.tests
            if test.here
        )
        rows.append(
            (
                claim.claim.text,
                f"{claim.design.corpus}, {claim.design.scale}",
                ", ".join(claim.baselines),
                "; ".join(_paper_effects(claim)) or NOTHING,
                "; ".join(effects) or NOTHING,
                claim.verdict_text,
                format_p(claim.p_corrected),
                _format_seeds(claim.seeds),
                ", ".join(units) or NOTHING,
            )
        )
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


def _paper_effects(claim: ClaimResult) -> list[str]:
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
        corrected = (
            "no p-value"
            if claim.p_corrected is None
            else f"p = {format_p(claim.p_corrected)}, corrected for {claim.times}"
        )
        lines.append(
            f"    {claim.design.corpus}, {claim.design.scale}: {claim.verdict_text}; "
            f"{effects or NOTHING}; {corrected}; {claim.design.units}"
        )
    return lines


def describe_design(design: Design, tried: Mapping[str, int] | None = None) -> str:
    """Say how claims are decided, and since when that is fixed; ``tried`` says how many
    designs ask the question of each claim.
    """
    since = "Not registered" if design.seen else f"Design of commit {design.commit}"
    asked = {name: (tried or {}).get(name, 1) for name in design.claims}
    numbers = " or ".join(str(number) for number in sorted(set(asked.values())))
    parts = [
        f"{since}: {format_count(len(design.seeds), 'seed')}, {design.units}",
        f"corrected for {format_count(design.tests or len(design.claims), 'test')} "
        f"(Holm) and for {numbers} designs of a question",
        *(["degrees of freedom of the fewer"] if design.fewest else []),
        *([f"margin {format_count(design.margin, 'point')}"] if design.margin else []),
        *([f"failed: loss on dev above {design.failed:g}"] if design.failed else []),
        *(
            [f"left out: units with an error rate above {design.failed_units:g} %"]
            if design.failed_units
            else []
        ),
        *([f"detectable: {design.detectable}"] if design.detectable else []),
        *design.fixed,
    ]
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
    """Write a table for the terminal, with the rows named (None: all) and a line for
    each claim that was tested.
    """
    if result.table.figure:
        body = lay_out_figure(result).text("simple")
    else:
        body = "\n\n".join(
            lay_out_table(result, columns, row_names).text("simple")
            for columns in result.groups
        )
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
    """Write a table as lines of Markdown under a heading; a figure with its picture,
    ``<pictures><name>.png``.
    """
    grid = (
        lay_out_figure(result)
        if result.table.figure
        else lay_out_table(result, result.table.columns)
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


def describe_run(run: RunRecord, versions: bool = True) -> str:
    """Return how results were made: command, commit, date, machine and versions."""
    git = run.git
    machine = run.hardware
    commit = (
        "not in git"
        if git is None
        else git.commit[:12] + (" with uncommitted changes" if git.dirty else "")
    )
    gpus = [
        f"{machine.gpu.count(name)} x {name}" for name in dict.fromkeys(machine.gpu)
    ]
    cores = [] if machine.cores is None else [format_count(machine.cores, "core")]
    on = ", ".join([machine.cpu, *cores, *gpus, f"{machine.memory_gib} GiB"])
    installed = ", ".join(
        f"{name} {version}" for name, version in run.versions.items() if version
    )
    return "; ".join(
        [
            f"`{run.command}`",
            f"commit {commit}",
            run.date,
            on,
            *([installed] if installed and versions else []),
        ]
    )


def describe_making(making: Making) -> str:
    """Say what was done before a run, and how long all took; ends with a space."""
    hours = [f"{making.hours:g} hours of one core."] if making.hours else []
    before = [f"First: {making.before}."] if making.before else []
    return "".join(f"{part} " for part in (*hours, *before))


def write_markdown_meta(meta: Meta, making: Making) -> list[str]:
    """Say how the results of one corpus and scale were made, as lines of Markdown."""
    perplexity = (
        ""
        if meta.lm_perplexity is None
        else f"; perplexity of the language model {meta.lm_perplexity:.2f}"
    )
    lines = [
        f"Text normalisation: {meta.normaliser or 'none'}{perplexity}. "
        f"{describe_making(making)}Made by:",
        "",
    ]
    return [*lines, *(f"- {describe_run(run)}" for run in meta.runs), ""]
