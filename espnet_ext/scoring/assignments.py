"""Error rates that forgive the names of speakers: cpWER and tcpWER of one recording.

cpWER takes the one-to-one assignment of speakers with the fewest errors (Watanabe et
al., "CHiME-6 challenge", 2020); tcpWER matches only words that were said at nearly the
same time (von Neumann et al., "MeetEval", 2023). MeetEval aligns; the assignment is
found here, as MeetEval refuses more than 20 speakers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from espnet_ext.scoring.error_rate import (
    ZERO,
    ErrorRate,
    Pair,
    align,
    count_errors,
    count_pairs,
)
from espnet_ext.text.words import Segment

COLLAR = 5.0  # seconds, as in the CHiME-7 and -8 challenges

Said = Mapping[str, tuple[str, ...]]  # speaker -> words
# aligned words by speakers of reference and hypothesis
Pairs = dict[tuple[str | None, str | None], list[Pair]]


def assign[Stream](
    real: Mapping[str, Stream],
    heard: Mapping[str, Stream],
    nothing: Stream,
    errors: Callable[[Stream, Stream], int],
) -> list[tuple[str | None, str | None]]:
    """Find the one-to-one assignment of speakers with the fewest errors.

    ``nothing`` is what nobody says.

    >>> said = {"a": ["one"], "b": ["two"]}
    >>> def count(one, other):
    ...     return 0 if one == other else len(one) + len(other)
    >>> assign(said, {"x": ["two"]}, [], count)
    [('a', None), ('b', 'x')]
    """
    from scipy.optimize import linear_sum_assignment

    size = max(len(real), len(heard))
    rows = [*real, *[None] * (size - len(real))]
    columns = [*heard, *[None] * (size - len(heard))]
    costs = np.array(
        [
            [
                errors(
                    nothing if a is None else real[a],
                    nothing if b is None else heard[b],
                )
                for b in columns
            ]
            for a in rows
        ]
    ).reshape(size, size)
    return [
        (rows[place], columns[other])
        for place, other in zip(*linear_sum_assignment(costs), strict=True)
    ]


def _cp_assigned(real: Said, heard: Said) -> Iterator[tuple]:
    """Yield the speakers of the assignment of cpWER, and their words."""
    for a, b in assign(
        real, heard, (), lambda one, other: count_errors(one, other).errors
    ):
        yield (a, b), (real.get(a or "", ()), heard.get(b or "", ()))


def count_cp_errors(real: Said, heard: Said) -> ErrorRate:
    """Count the errors of one recording under the assignment of cpWER, in little
    memory.
    """
    return sum(
        (count_errors(*words) for _, words in _cp_assigned(real, heard)), start=ZERO
    )


def align_cp(real: Said, heard: Said) -> Pairs:
    """Align one recording under the assignment of cpWER."""
    return {speakers: align(*words) for speakers, words in _cp_assigned(real, heard)}


def group_turns_by_speaker(turns: Iterable[Segment]) -> dict[str, list[Segment]]:
    """Return the turns with words of each speaker of one recording."""
    found: dict[str, list[Segment]] = {}
    for turn in turns:
        if turn.words:
            found.setdefault(turn.speaker, []).append(turn)
    return found


def align_tcp(
    real: Mapping[str, Sequence[Segment]],
    heard: Mapping[str, Sequence[Segment]],
    collar: float = COLLAR,
) -> Pairs:
    """Align one recording under the best assignment of speakers, with times (tcpWER).

    ``real`` and ``heard`` are turns with words by speaker, see
    :func:`group_turns_by_speaker`; words that match are at most ``collar`` seconds
    apart. Raises InputError: a turn has no times.

    >>> said = {"a": [Segment("r", "a", ("ONE",), 0.0, 1.0)]}
    >>> align_tcp(said, {"b": [Segment("r", "b", ("ONE",), 9.0, 10.0)]})
    {('a', 'b'): [('ONE', None), (None, 'ONE')]}
    """
    assignment = assign(
        real,
        heard,
        [],
        lambda one, other: count_pairs(_timed_pairs(one, other, collar)).errors,
    )
    return {
        (a, b): _timed_pairs(real.get(a or "", []), heard.get(b or "", []), collar)
        for a, b in assignment
    }


def _timed_pairs(
    real: Sequence[Segment], heard: Sequence[Segment], collar: float
) -> list[Pair]:
    if not real or not heard:
        deleted: list[Pair] = [(word, None) for turn in real for word in turn.words]
        return deleted + [(None, word) for turn in heard for word in turn.words]
    from meeteval.io.seglst import SegLST
    from meeteval.wer.wer.time_constrained import align as align_with_times

    def segments(turns: Sequence[Segment]) -> Any:
        spans = ((turn.text, *turn.span) for turn in turns)
        return SegLST(
            [
                {"words": text, "start_time": start, "end_time": end}
                for text, start, end in spans
            ]
        )

    aligned = align_with_times(
        segments(real), segments(heard), collar=collar, style="seglst"
    )
    return [(a and a["words"], b and b["words"]) for a, b in aligned]
