"""All faults of a corpus in one line: the first few by name, the others as a number."""

from collections.abc import Sequence

from espnet_ext.errors import InputError

SHOWN = 3


def raise_faults(corpus: str, faults: Sequence[str], advice: str) -> None:
    """Raise an :class:`InputError` of one line if there are faults.

    >>> raise_faults("corpus", ["a is empty", "b is empty", "c is cut", "d is cut", "e is cut"], "mend them")
    Traceback (most recent call last):
    espnet_ext.errors.InputError: corpus: a is empty; b is empty; c is cut; and 2 more: mend them
    """
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise InputError(f"{corpus}: {'; '.join(faults[:SHOWN])}{more}: {advice}")
