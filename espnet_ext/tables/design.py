"""The model of ``conf/design.yaml``: claims, and how they are decided.

``docs/statistics.md`` explains the tests.
"""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from espnet_ext.tables.schema import Columns, Name, Names
from espnet_ext.work.settings import (
    Count,
    Flag,
    StrictMapping,
    Text,
    Weight,
    list_known,
)

DESIGN = "design.yaml"


class Change(StrictMapping):
    """What becomes of the error rate from one row to another.

    The other may have more training data.
    """

    before: Text = Field(alias="from")
    after: Text = Field(alias="to")


# A row as "table/row", or a change from one to another.
Side = Annotated[
    Annotated[Text, Tag("row")] | Annotated[Change, Tag("change")],
    Discriminator(
        lambda value: "change" if isinstance(value, dict | Change) else "row"
    ),
]


def _make_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


_AS_TUPLE = BeforeValidator(_make_tuple)  # one side may be written without brackets


class Claim(StrictMapping):
    """A statement: on each column ``better`` has a lower error rate than ``worse``.

    Of changes it is the change that is lower.
    """

    text: Text
    better: Side  # a row as "table/row", or a change from one row to another
    worse: Annotated[tuple[Side, ...], Field(min_length=1), _AS_TUPLE]
    # on which it is tested; None for all error rates of the first row's table
    columns: Columns | None = None
    earlier: int = Field(0, ge=0)  # designs of it whose results are no longer kept

    @model_validator(mode="after")
    def _check_sides(self) -> Self:
        for row in self.rows:
            if "/" not in row:
                raise ValueError(f"{row!r} must be table/row")
        # a rate and a difference of rates cannot be compared
        if any(type(self.better) is not type(side) for side in self.worse):
            raise ValueError(
                "better and worse must both be rows, or both changes {from: row, "
                "to: row}"
            )
        if self.better in self.worse:
            raise ValueError(
                f"better and worse are the same row or change, {self.better!r}"
            )
        for side in (self.better, *self.worse):
            if isinstance(side, Change) and side.before == side.after:
                raise ValueError(f"from and to are the same row, {side.after!r}")
        return self

    @property
    def table(self) -> str:
        """The table that it stands below: that of the first row that it names."""
        return self.rows[0].partition("/")[0]

    @property
    def rows(self) -> tuple[str, ...]:
        """All rows that it names, as "table/row", those of ``better`` first."""
        rows = list(list_side_rows(self.better))
        for side in self.worse:
            rows += list_side_rows(side)
        return tuple(rows)


def list_side_rows(side: "str | Change") -> tuple[str, ...]:
    """Return the rows of one side of a claim: its row, or ``from`` and ``to``."""
    return (side,) if isinstance(side, str) else (side.before, side.after)


class Design(StrictMapping):
    """How claims are decided on one corpus at one scale.

    A design is committed before its test sets are decoded; one that was made after that
    says ``seen``. A design stays when a later one asks the same question again.
    """

    corpus: Text  # of the results, as ``scale``
    scale: Name
    commit: Text | None = None  # which has the design, and none of the results
    seen: Flag = False  # made after its results had been seen
    claims: Annotated[Names, Field(max_length=6)]
    # that each system is trained with
    seeds: Annotated[tuple[Count, ...], Field(min_length=1)]
    units: Text  # what a test set has, such as "6 speakers"
    own_voices: Flag = False  # of recordings or sessions: no two share a voice
    columns: Columns | None = None  # in place of those of its claims
    against: Text | None = None  # the only baseline of its claims that it knew
    # for how many p-values they are corrected, looks included; 1 where claims were to
    # be tested in order; None: its claims
    tests: Count | None = None
    margin: Weight | None = None  # in points; differences below it count as none
    # a training with a higher loss on the dev sets has failed, and is left out
    failed: Weight | None = None
    # a speaker or recording with a higher error rate, in percent, has failed with one
    # of the systems, and is left out of all
    failed_units: Weight | None = None
    # the degrees of freedom of the direction that has fewer: the rule of before
    # November 26, 2026, under which no difference is excluded
    fewest: Flag = False
    # what difference is found in 80 of 100 such experiments
    detectable: Text | None = None
    fixed: tuple[Text, ...] = ()  # what else was settled before, such as choices on dev
    not_testable: dict[Name, Text] = {}  # why not, by claim
    open: dict[Name, Text] = {}  # why there is no verdict, by claim

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for name in (*self.not_testable, *self.open):
            if name not in self.claims:
                raise ValueError(f"{name!r} is no claim of this design")
        return self


class Making(StrictMapping):
    """How results that a recipe keeps were made, beyond what the run has recorded."""

    before: Text | None = None  # the command that makes its corpus or its lists
    hours: Weight | None = None  # of one core, for all its systems and seeds


class DesignFile(StrictMapping):
    """All of ``design.yaml``: claims and designs.

    Claims are what the paper's abstract and conclusion say, or what a design asks
    beside. ``made`` is by folder of results.
    """

    claims: dict[Name, Claim] = {}
    designs: tuple[Design, ...] = ()
    made: dict[Text, Making] = {}

    @model_validator(mode="after")
    def _check_claims(self) -> Self:
        named: set[str] = set()
        for design in self.designs:
            named.update(design.claims)
        # a claim that nobody decides would be shown nowhere
        for name in self.claims:
            if name not in named:
                raise ValueError(f"claims.{name}: no design says how it is decided")
        if unknown := sorted(named - set(self.claims)):
            raise ValueError(
                f"designs: unknown claim {unknown[0]!r}; {list_known(self.claims)}"
            )
        return self

    def count_designs(self, name: str) -> int:
        """Count the designs that ask the question of a claim: about the same rows."""
        asked = self.claims[name]
        # whatever columns it was asked on: each is another chance to find it
        same = {}
        for other, claim in self.claims.items():
            if (claim.better, claim.worse) == (asked.better, asked.worse):
                same[other] = claim
        kept = [each for each in self.designs if same.keys() & set(each.claims)]
        return len(kept) + max(claim.earlier for claim in same.values())
