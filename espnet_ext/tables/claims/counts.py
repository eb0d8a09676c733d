"""How many claims have which verdict: those of the paper apart from our own, and verdicts after a look apart."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED = "contradicted", "holds", "not run", "undecided"
VERDICTS = (HOLDS, CONTRADICTED, UNDECIDED, NOT_RUN)
DAGGER = "†"  # seeds were added after a look


def is_own(claim: Mapping[str, Any]) -> bool:
    """Whether a claim is this repository's, and not the paper's."""
    return bool(claim.get("own"))


def mark_of(claim: Mapping[str, Any]) -> str:
    """A dagger where a claim was decided with seeds that were added when it had read undecided; otherwise nothing.

    >>> mark_of({"verdict": "holds", "extended": 3}), mark_of({"verdict": "undecided", "extended": 3})
    ('†', '')
    """
    return DAGGER if claim.get("extended") and claim["verdict"] in (HOLDS, CONTRADICTED) else ""


@dataclass(frozen=True)
class Counts:
    """Numbers of claims by verdict and mark, ``("holds", "†")``."""

    numbers: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, verdicts: Iterable[tuple[str, str]]) -> "Counts":
        """Count pairs of a verdict and its mark."""
        return cls(Counter(verdicts))

    @property
    def total(self) -> int:
        """All claims."""
        return sum(self.numbers.values())

    @property
    def parts(self) -> list[tuple[str, str, int]]:
        """Verdict, mark and number of claims, those without any left out."""
        keys = [(verdict, mark) for verdict in VERDICTS for mark in ("", DAGGER)]
        return [(*key, self.numbers[key]) for key in keys if self.numbers.get(key)]

    @property
    def has_marks(self) -> bool:
        """Whether a verdict has a dagger."""
        return any(mark for _, mark, _ in self.parts)

    def number(self, verdict: str, mark: str | None = None) -> int:
        """The claims with a verdict; with a mark, only those that have this one."""
        return sum(number for (name, own), number in self.numbers.items() if name == verdict and mark in (None, own))

    def cell(self, verdict: str) -> str:
        """The claims with a verdict as text, those with a dagger apart.

        >>> Counts.of([("holds", ""), ("holds", "†")]).cell("holds")
        '1 + 1†'
        """
        marked = self.number(verdict, DAGGER)
        return f"{self.number(verdict, '')}" + (f" + {marked}{DAGGER}" if marked else "")


def count_verdicts(results: Iterable[Mapping[str, Any]], *, own: bool = False) -> Counts:
    """Count the claims of the paper in results, or with ``own`` this repository's."""
    return Counts.of((claim["verdict"], mark_of(claim)) for claim in claims_of(results, own=own))


def claims_of(results: Iterable[Mapping[str, Any]], *, own: bool = False) -> Sequence[Mapping[str, Any]]:
    """The claims of the paper in results, or with ``own`` this repository's."""
    return [claim for result in results for claim in result["claims"] if is_own(claim) == own]
