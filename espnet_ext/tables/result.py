"""A table's results, as text, figures and pages read them.

They are the paper's numbers, those of a run, and tested claims.
:func:`espnet_ext.tables.collect.collect` makes them of ``tables.yaml`` and scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from espnet_ext.scoring.formatting import format_count
from espnet_ext.tables.design import Claim, Design
from espnet_ext.tables.reading import Column, Row, Table
from espnet_ext.tables.schema import Paper
from espnet_ext.tables.score_table import Meta

HOLDS = "holds"
CONTRADICTED = "contradicted"
NO_DIFFERENCE = "no difference"
EXCLUDED = "the paper's effect is excluded"
OPEN = "open"
NOT_RUN = "not run"
NOT_TESTABLE = "not testable here"
VERDICTS = (
    HOLDS,
    CONTRADICTED,
    NO_DIFFERENCE,
    EXCLUDED,
    OPEN,
    NOT_TESTABLE,
    NOT_RUN,
)


@dataclass(frozen=True)
class Result:
    """A number of ours: an error rate or a reduction in percent, or a quantity."""

    value: float  # the mean over seeds
    by_seed: Mapping[int, float]  # none of a quantity
    # standard deviation over seeds: what another seed would change
    spread: float | None = None
    # 95% over units: what other speakers would change
    interval: tuple[float, float] | None = None
    # over all seeds, as ``words``; None where they are not counted
    errors: int | None = None
    words: int | None = None


@dataclass(frozen=True)
class Cell:
    """The paper's number and ours; None for what is not there."""

    paper: float | None
    here: Result | None


@dataclass(frozen=True, kw_only=True)
class ResultRow(Row):
    """A row with its cells and all seeds that have run.

    In a figure it has the ``reduction`` from the start of its curve.
    """

    seeds: tuple[int, ...]
    cells: Mapping[Column, Cell]
    reduction: Result | None = None

    @property
    def cell(self) -> Cell:
        """The only cell of a row of a figure."""
        return next(iter(self.cells.values()))


@dataclass(frozen=True)
class Effect:
    """By how much the error rate is lower, as a claim says; negative if it is higher.

    The difference is in points of percent.
    """

    points: float
    # corrected as the p-value of the claim is; None, as ``p_value``, where there are
    # too few seeds or units
    interval: tuple[float, float] | None
    p_value: float | None
    within: bool  # whether it is less than the margin of the design, either way
    excludes: bool  # whether it is less than the paper's
    run: int  # how many seeds of the design all systems have
    seeds: tuple[int, ...]  # those of them with no failed training
    different_seeds: int  # how many of them gave different output
    units: int  # how many of ``unit``: speakers or recordings
    unit: str
    failed_units: int = 0  # left out, since a system failed on them


@dataclass(frozen=True)
class ClaimTest:
    """A claim on one column against one row: the effect in the paper, and ours.

    None for what is not there.
    """

    column: Column
    paper: float | None
    here: Effect | None
    against: str


@dataclass(frozen=True)
class ClaimResult:
    """A claim, its tests and its verdict."""

    name: str
    claim: Claim
    design: Design
    verdict: str
    notes: tuple[str, ...]  # why there is none, or what it is about
    p_value: float | None  # of the whole claim; None if it cannot be tested
    p_corrected: float | None
    times: int  # by what p-value and interval are corrected
    tests: tuple[ClaimTest, ...]
    failed: str  # how many trainings of ``better`` and of ``worse``, in words

    @property
    def verdict_text(self) -> str:
        """The verdict, why there is none or what it is about, and what has failed."""
        text = self.verdict
        if self.verdict == NO_DIFFERENCE:
            text += f" above {format_count(self.design.margin or 0, 'point')}"
        if self.notes:
            text += f" ({'; '.join(self.notes)})"
        # the columns of a claim may have other units: the most that one has lost
        units = [test.here.failed_units for test in self.tests if test.here]
        failed = max(units, default=0)
        if failed:
            limit = f"{self.design.failed_units or 0:g} %"
            text += f"; left out: {failed} with an error rate above {limit}"
        return f"{text}{self.failed}"

    @property
    def baselines(self) -> tuple[str, ...]:
        """The rows that it was tested against."""
        return tuple(dict.fromkeys(test.against for test in self.tests))

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of its tests."""
        seeds: set[int] = set()
        for test in self.tests:
            if test.here:
                seeds.update(test.here.seeds)
        return tuple(sorted(seeds))


@dataclass(frozen=True)
class TableResult:
    """A table, or a figure, with all that is known of it.

    Reductions are computed from the row ``reference``.
    """

    table: Table
    paper: Paper
    rows: tuple[ResultRow, ...]
    reference: ResultRow | None
    claims: tuple[ClaimResult, ...]
    meta: Meta

    @property
    def curves(self) -> dict[str, list[ResultRow]]:
        """The rows of each curve of a figure, in the order of x."""
        curves: dict[str, list[ResultRow]] = {}
        for row in self.rows:
            curves.setdefault(row.curve, []).append(row)
        for rows in curves.values():
            rows.sort(key=lambda row: row.x)
        return curves

    @property
    def has_run(self) -> bool:
        """Whether any cell has a result."""
        return any(cell.here for row in self.rows for cell in row.cells.values())

    @property
    def title(self) -> str:
        """``Table 1. Caption: WER (%)``."""
        text = f"{self.table.title}. {self.table.caption}"
        # the y axis of a figure says what it shows
        return text if self.table.figure else f"{text}: {self.metric}"

    @property
    def metric(self) -> str:
        """What the columns hold: error rates, or only quantities, with their units."""
        if self.table.rates:
            return self.paper.metric
        return ", ".join(column.heading for column in self.table.columns)

    @property
    def groups(self) -> tuple[tuple[Column, ...], ...]:
        """Columns that stand side by side on a terminal.

        The columns are the measures of a test set, or all test sets if there are no
        measures.
        """

        def find_group(column: Column) -> tuple[str, ...] | None:
            return column.sets if column.measure else None

        groups = groupby(self.table.columns, find_group)
        return tuple(tuple(columns) for _, columns in groups)

    def compute_reductions(
        self, row: ResultRow, column: Column
    ) -> tuple[float | None, float | None]:
        """Return relative reductions from the reference in percent: paper's, ours."""
        if self.reference is None:
            return None, None
        own = row.cells[column]
        base = self.reference.cells[column]
        ours = None
        if own.here and base.here:
            ours = compute_reduction(own.here.value, base.here.value)
        return compute_reduction(own.paper, base.paper), ours


def compute_reduction(value: float | None, reference: float | None) -> float | None:
    """Return the relative reduction from ``reference`` to ``value`` in percent.

    None if one of them is missing, or the reference is zero.

    >>> round(compute_reduction(3.72, 4.19), 1)  # P2, section 5, on test-clean
    11.2
    """
    if value is None or not reference:
        return None
    return 100 * (reference - value) / reference
