"""Errors near the points where the language changes, against the rest.

A switch point lies between two tokens of a reference that are of different languages. A token of the reference is
within n tokens of one where it is among the n before or the n behind it, that is, where one of the n tokens before or
behind the token is of another language. What a hypothesis inserts stands between two tokens of the reference, or at an
end; it is within n tokens of a switch point where the n tokens before and the n behind it are not all of one language:
for n = 1, at the switch point itself. So every token and every insertion of an alignment falls into one of two classes,
and their counts add up to those of the whole.

Read the two classes by language: next to a switch stands more of the language that comes in single words, and what is
hard about that language would pass for what is hard about switching.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

Pair = tuple[str | None, str | None]
WITHIN = 1  # tokens: those on both sides of the switch


def split_at_switches(
    pairs: Sequence[Pair], language: Callable[[str], Any], within: int = WITHIN
) -> tuple[list[Pair], list[Pair]]:
    """Part aligned pairs of reference and hypothesis (None: a gap) into those near a switch point and the others.

    ``language`` gives a token's language; ``within`` is the n of this module's description.

    >>> pairs = [("我", "我"), ("想", "想"), (None, "要"), ("go", "够"), ("home", "home")]
    >>> split_at_switches(pairs, str.isascii)
    ([('想', '想'), (None, '要'), ('go', '够')], [('我', '我'), ('home', 'home')])

    Raises:
        ValueError: ``within`` is below 1.
    """
    if within < 1:
        raise ValueError(f"within must be at least 1 token, not {within}")
    languages = [language(left) for left, _ in pairs if left is not None]
    near, rest = [], []
    place = 0  # of the next token of the reference
    for pair in pairs:
        is_token = pair[0] is not None
        around = languages[max(0, place - within) : place + within + is_token]
        (near if len(set(around)) > 1 else rest).append(pair)
        place += is_token
    return near, rest


def count_switches(references: Iterable[Sequence[str]], language: Callable[[str], Any]) -> dict[str, int]:
    """How many switch points the references hold, and how many of the references hold any.

    >>> count_switches([["我", "go", "吧"], ["go"]], str.isascii)
    {'switch_points': 2, 'utterances_with_switch': 1}
    """
    counts = [sum(a != b for a, b in pairwise(language(token) for token in tokens)) for tokens in references]
    return {"switch_points": sum(counts), "utterances_with_switch": sum(count > 0 for count in counts)}
