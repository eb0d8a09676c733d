"""A table's results, as text, figures and pages read them: the paper's numbers, those
of a run, and tested claims.

:func:`espnet_ext.tables.collect.collect` makes them of ``tables.yaml`` and a run's
    scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from espnet_ext.scoring.formatting import format_count
from espnet_ext.tables.design import Claim, Design
from espnet_ext.tables.reading import Column, Row, Table
from espnet_ext.tables.schema import Paper
from espnet_ext.tables.score_table import Meta

HOLDS, CONTRADICTED, NO_DIFFERENCE = "holds", "contradicted", "no difference"
EXCLUDED, OPEN, NOT_RUN = "the paper's effect is excluded", "open", "not run"
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
    """A number of ours: an error rate in percent, a relative reduction in percent, or a
    quantity in its unit.
    """

    value: float  # the mean over seeds
    by_seed: Mapping[int, float]  # none of a quantity
    spread: float | None = (
        None  # standard deviation over seeds: what another seed would change
    )
    interval: tuple[float, float] | None = (
        None  # 95% over units: what other speakers would change
    )
    errors: int | None = (
        None  # over all seeds, as ``words``; None where they are not counted
    )
    words: int | None = None


@dataclass(frozen=True)
class Cell:
    """The paper's number and ours; None for what is not there."""

    paper: float | None
    here: Result | None


@dataclass(frozen=True, kw_only=True)
class ResultRow(Row):
    """A row with its cells and all seeds that have run; of a figure, the reduction from
    the start of its curve.
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
    """By how much the error rate is lower, as a claim says, in points; negative if it
    is higher.
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
    """A claim on one column against one row: the effect in the paper's numbers, and
    ours; None for what is not there.
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
    failed: (
        str  # how many trainings of ``better`` and of ``worse`` have failed, in words
    )

    @property
    def verdict_text(self) -> str:
        """The verdict, why there is none or what it is about, and what has failed."""
        margin = (
            f" above {format_count(self.design.margin or 0, 'point')}"
            if self.verdict == NO_DIFFERENCE
            else ""
        )
        notes = f" ({'; '.join(self.notes)})" if self.notes else ""
        return f"{self.verdict}{margin}{notes}{self._failed_units}{self.failed}"

    @property
    def _failed_units(self) -> str:
        failed = max(
            (test.here.failed_units for test in self.tests if test.here), default=0
        )
        limit = f"{self.design.failed_units or 0:g} %"
        return (
            f"; left out: {failed} with an error rate above {limit}" if failed else ""
        )

    @property
    def baselines(self) -> tuple[str, ...]:
        """The rows that it was tested against."""
        return tuple(dict.fromkeys(test.against for test in self.tests))

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of its tests."""
        return tuple(
            sorted(
                {seed for test in self.tests if test.here for seed in test.here.seeds}
            )
        )


@dataclass(frozen=True)
class TableResult:
    """A table, or a figure, with all that is known of it; reductions are computed from
    the row ``reference``.
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
        names = dict.fromkeys(row.curve for row in self.rows)
        return {
            name: sorted(
                (row for row in self.rows if row.curve == name), key=lambda row: row.x
            )
            for name in names
        }

    @property
    def has_run(self) -> bool:
        """Whether any cell has a result."""
        return any(cell.here for row in self.rows for cell in row.cells.values())

    @property
    def title(self) -> str:
        """``Table 1. Caption: WER (%)``."""
        return f"{self.table.title}. {self.table.caption}" + (
            "" if self.table.figure else f": {self.metric}"
        )

    @property
    def metric(self) -> str:
        """What the columns hold: error rates, or only quantities, with their units."""
        return (
            self.paper.metric
            if self.table.rates
            else ", ".join(column.heading for column in self.table.columns)
        )

    @property
    def groups(self) -> tuple[tuple[Column, ...], ...]:
        """Columns that stand side by side: the measures of a test set, or all test sets
        if there are no measures.
        """
        groups = groupby(
            self.table.columns, lambda column: column.sets if column.measure else None
        )
        return tuple(tuple(columns) for _, columns in groups)

    def compute_reductions(
        self, row: ResultRow, column: Column
    ) -> tuple[float | None, float | None]:
        """Return the relative reduction from the reference in percent: the paper's, and
        ours.
        """
        if self.reference is None:
            return None, None
        own = row.cells[column]
        base = self.reference.cells[column]
        ours = (
            compute_reduction(own.here.value, base.here.value)
            if own.here and base.here
            else None
        )
        return compute_reduction(own.paper, base.paper), ours


def compute_reduction(value: float | None, reference: float | None) -> float | None:
    """Return the relative reduction from ``reference`` to ``value`` in percent, None if
    there is none.

    >>> round(compute_reduction(3.72, 4.19), 1)  # P2, section 5, on test-clean
    11.2
    """
    return (
        None
        if value is None or not reference
        else 100 * (reference - value) / reference
    )
