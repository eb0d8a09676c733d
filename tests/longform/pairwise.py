"""Cases that hold each pair of values of two parameters at least once.

They stand for all combinations.
"""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def pairwise(names: str, *values: Iterable[Any]) -> pytest.MarkDecorator:
    """``pytest.mark.parametrize`` with few cases.

    ``values`` has those of each of the ``names``.
    """
    axes = [list(axis) for axis in values]
    every = list(product(*(range(len(axis)) for axis in axes)))
    missing = {pair for case in every for pair in _pairs(case)}
    cases = []
    while missing:
        best = max(every, key=lambda case: len(missing & _pairs(case)))
        missing -= _pairs(best)
        cases.append(tuple(axis[place] for axis, place in zip(axes, best, strict=True)))
    return pytest.mark.parametrize(names, cases)


def _pairs(case: tuple[int, ...]) -> set[tuple]:
    return set(combinations(enumerate(case), 2))
