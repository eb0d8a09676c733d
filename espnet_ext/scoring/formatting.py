"""Write numbers as text, the same in tables, comparisons and pages."""

from collections.abc import Sequence

NOTHING = "-"  # stands for a number that is not there


def format_value(value: float | None, spread: float | None = None) -> str:
    """Write a value in two digits, with its spread over seeds if there are several.

    >>> format_value(6.1, 0.2), format_value(None)
    ('6.10 ± 0.20', '-')
    """
    if value is None:
        return NOTHING
    return f"{value:.2f}" if spread is None else f"{value:.2f} ± {spread:.2f}"


def format_interval(
    ends: Sequence[float] | None, sign: str = "", digits: int = 2
) -> str:
    """Write an interval, or nothing where there is none.

    With ``sign="+"`` both ends have one.

    >>> format_interval((5.8, 6.4)), format_interval(None)
    ('[5.80, 6.40]', '')
    >>> format_interval((-0.1, 3.1), sign="+")
    '[-0.10, +3.10]'
    """
    if ends is None:
        return ""
    low, high = (f"{end:{sign}.{digits}f}" for end in ends)
    return f"[{low}, {high}]"


def format_p(p_value: float | None) -> str:
    """Write a p-value in two digits: 0.031, 0.0001."""
    return NOTHING if p_value is None else f"{p_value:.2g}"


def format_count(number: float, what: str) -> str:
    """Write a number of things: ``1 core``, ``2 cores``, ``0.5 points``."""
    return f"{number:.10g} {what}" + ("" if number == 1 else "s")
