"""Error rates that forgive the names of speakers: cpWER and tcpWER of one recording.

cpWER takes the one-to-one assignment of speakers with the fewest errors (Watanabe et
al., "CHiME-6 challenge", 2020); tcpWER matches only words that were said at nearly the
same time (von Neumann et al., "MeetEval", 2023). MeetEval aligns; the assignment is
found here, as MeetEval refuses more than 20 speakers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
# Speakers of reference and hypothesis; None where one has no counterpart.
Speakers = tuple[str | None, str | None]
Pairs = dict[Speakers, list[Pair]]  # aligned words


def assign_speakers[Stream](
    real: Mapping[str, Stream],
    heard: Mapping[str, Stream],
    nothing: Stream,
    count: Callable[[Stream, Stream], int],
) -> dict[Speakers, tuple[Stream, Stream]]:
    """Find the one-to-one assignment of speakers with the fewest errors.

    ``count`` counts the errors of two streams, ``nothing`` is what nobody says.
    Returned is what each two speakers say.

    >>> said = {"a": ["one"], "b": ["two"]}
    >>> def count(one, other):
    ...     return 0 if one == other else len(one) + len(other)
    >>> assign_speakers(said, {"x": ["two"]}, [], count)
    {('a', None): (['one'], []), ('b', 'x'): (['two'], ['two'])}
    """
    from scipy.optimize import linear_sum_assignment

    # As many rows as columns, so that each speaker is in the assignment: who has no
    # counterpart is paired with nobody, and all their words are errors.
    size = max(len(real), len(heard))
    rows = _fill_up(real, size, nothing)
    columns = _fill_up(heard, size, nothing)
    costs = np.zeros((size, size), dtype=np.int64)
    for i, (_, one) in enumerate(rows):
        for j, (_, other) in enumerate(columns):
            costs[i, j] = count(one, other)
    assigned = {}
    chosen_rows, chosen_columns = linear_sum_assignment(costs)
    for i, j in zip(chosen_rows, chosen_columns, strict=True):
        speaker, one = rows[i]
        counterpart, other = columns[j]
        assigned[speaker, counterpart] = (one, other)
    return assigned


def _fill_up[Stream](
    said: Mapping[str, Stream],
    size: int,
    nothing: Stream,
) -> list[tuple[str | None, Stream]]:
    """List speakers and what they say, and nobody, who is None, up to a number."""
    # The name "" is no nobody: a file may not say who spoke its words.
    filled: list[tuple[str | None, Stream]] = []
    filled.extend(said.items())
    while len(filled) < size:
        filled.append((None, nothing))
    return filled


def _assign_by_words(
    real: Said,
    heard: Said,
) -> dict[Speakers, tuple[Sequence[str], Sequence[str]]]:
    """Find the assignment of cpWER, and the words of each two speakers."""

    def count(one: Sequence[str], other: Sequence[str]) -> int:
        return count_errors(one, other).errors

    return assign_speakers(
        real,
        heard,
        nothing=(),
        count=count,
    )


def count_cp_errors(real: Said, heard: Said) -> ErrorRate:
    """Count the errors of one recording under the assignment of cpWER.

    It needs less memory than to align and count.
    """
    total = ZERO
    for one, other in _assign_by_words(real, heard).values():
        total += count_errors(one, other)
    return total


def align_cp(real: Said, heard: Said) -> Pairs:
    """Align one recording under the assignment of cpWER."""
    pairs = {}
    for speakers, (one, other) in _assign_by_words(real, heard).items():
        pairs[speakers] = align(one, other)
    return pairs


def group_turns_by_speaker(turns: Iterable[Segment]) -> dict[str, list[Segment]]:
    """Group the turns with words of one recording by speaker."""
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

    def count(one: Sequence[Segment], other: Sequence[Segment]) -> int:
        aligned = _align_turns(one, other, collar)
        return count_pairs(aligned).errors

    pairs = {}
    assigned = assign_speakers(real, heard, nothing=(), count=count)
    for speakers, (one, other) in assigned.items():
        pairs[speakers] = _align_turns(one, other, collar)
    return pairs


def _align_turns(
    real: Sequence[Segment], heard: Sequence[Segment], collar: float
) -> list[Pair]:
    """Align the turns of two speakers, words that match within the collar."""
    # Nobody to compare with: all words are errors, whatever their times are.
    if not real or not heard:
        errors: list[Pair] = []
        for turn in real:
            errors += [(word, None) for word in turn.words]
        for turn in heard:
            errors += [(None, word) for word in turn.words]
        return errors
    from meeteval.wer.wer.time_constrained import align as align_with_times

    aligned = align_with_times(
        _make_seglst(real), _make_seglst(heard), collar=collar, style="seglst"
    )
    return [(a and a["words"], b and b["words"]) for a, b in aligned]


def _make_seglst(turns: Sequence[Segment]) -> Any:
    """Return turns as MeetEval has them, which estimates the times of their words."""
    from meeteval.io.seglst import SegLST

    segments = []
    for turn in turns:
        start, end = turn.span
        segments.append({"words": turn.text, "start_time": start, "end_time": end})
    return SegLST(segments)
