"""The model of ``conf/design.yaml``: at most six claims, and how they are decided
(``docs/statistics.md``).
"""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from espnet_ext.tables.schema import Columns, Name, Names
from espnet_ext.work.settings import Count, Flag, StrictMapping, Text, Weight, known

DESIGN = "design.yaml"


class Change(StrictMapping):
    """What becomes of the error rate from one row to another, such as with more
    training data.
    """

    before: Text = Field(alias="from")
    after: Text = Field(alias="to")


Side = Annotated[
    Annotated[Text, Tag("row")] | Annotated[Change, Tag("change")],
    Discriminator(
        lambda value: "change" if isinstance(value, dict | Change) else "row"
    ),
]  # a row as "table/row", or a change from one to another


class Claim(StrictMapping):
    """A statement: on each column ``better`` has a lower error rate (or change of it)
    than ``worse``.
    """

    text: Text
    better: Side  # rows as "table/row", or changes from one row to another
    worse: Side
    columns: Columns | None = (
        None  # on which it is tested; None for all error rates of the first row's table
    )

    @model_validator(mode="after")
    def _check_sides(self) -> Self:
        if missing := [row for row in self.rows if "/" not in row]:
            raise ValueError(f"{missing[0]!r} must be table/row")
        if type(self.better) is not type(self.worse):
            raise ValueError(
                "better and worse must both be rows, or both changes {from: row, "
                "to: row}"
            )
        if self.better == self.worse:
            raise ValueError(
                f"better and worse are the same row or change, {self.better!r}"
            )
        for side in (self.better, self.worse):
            if isinstance(side, Change) and side.before == side.after:
                raise ValueError(f"from and to are the same row, {side.after!r}")
        return self

    @property
    def table(self) -> str:
        """The table that it stands below: that of the first row that it names."""
        return self.rows[0].partition("/")[0]

    @property
    def rows(self) -> tuple[str, ...]:
        """All rows that it names, as "table/row": those of ``better``, then ``worse``;
        of a change, ``from`` first.
        """
        sides = (self.better, self.worse)
        return tuple(
            row
            for side in sides
            for row in ((side,) if isinstance(side, str) else (side.before, side.after))
        )


class Design(StrictMapping):
    """How claims are decided on one corpus at one scale; committed before its test sets
    were decoded.
    """

    corpus: Text  # of the results, as ``scale``
    scale: Name
    commit: Text | None = None  # which has the design, and none of the results
    claims: Names  # by name, the most important first
    seeds: Annotated[
        tuple[Count, ...], Field(min_length=1)
    ]  # that each system is trained with
    units: Text  # what a test set has, such as "6 speakers"
    detectable: Text | None = (
        None  # what difference is found in 80 of 100 such experiments
    )
    hours: Weight | None = None  # of one core
    # claims are tested in order, each at the whole level, up to the first undecided;
    # else Holm
    order: Flag = False
    family: Count = 1  # how many claims the design had, if it has fewer now
    looks: Count = (
        1  # at the results before the last seed is there; p is multiplied by that
    )
    margin: Weight | None = None  # in points; differences below it count as none
    failed: Weight | None = (
        # a training with a higher loss on the dev sets has failed, and is left out
        None
    )
    freedom: Literal["satterthwaite", "fewest"] = (
        "satterthwaite"  # fewest: in earlier designs
    )


class DesignFile(StrictMapping):
    """All of ``design.yaml``: at most six claims, what the paper's abstract and
    conclusion say, and designs.
    """

    claims: Annotated[dict[Name, Claim], Field(max_length=6)] = {}
    designs: tuple[Design, ...] = ()

    @model_validator(mode="after")
    def _check_claims(self) -> Self:
        named = {name for design in self.designs for name in design.claims}
        if missing := [name for name in self.claims if name not in named]:
            raise ValueError(f"claims.{missing[0]}: no design says how it is decided")
        if unknown := sorted(named - set(self.claims)):
            raise ValueError(
                f"designs: unknown claim {unknown[0]!r}; {known(self.claims)}"
            )
        return self
