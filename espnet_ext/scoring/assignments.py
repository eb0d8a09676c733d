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
    # counterpart is paired with nobody, and all their words are errors. The name ""
    # is a speaker, too: of words of whom the file does not say who spoke.
    size = max(len(real), len(heard))
    rows: list[tuple[str | None, Stream]] = [*real.items()]
    rows += [(None, nothing)] * (size - len(real))
    columns: list[tuple[str | None, Stream]] = [*heard.items()]
    columns += [(None, nothing)] * (size - len(heard))
    costs = np.zeros((size, size), dtype=np.int64)
    for place, (_, one) in enumerate(rows):
        costs[place] = [count(one, other) for _, other in columns]
    assigned: dict[Speakers, tuple[Stream, Stream]] = {}
    for row, column in zip(*linear_sum_assignment(costs), strict=True):
        speaker, one = rows[row]
        counterpart, other = columns[column]
        assigned[speaker, counterpart] = (one, other)
    return assigned


def _assign_by_words(real: Said, heard: Said) -> dict[Speakers, tuple]:
    """Find the assignment of cpWER, and the words of each two speakers."""
    return assign_speakers(
        real, heard, (), lambda one, other: count_errors(one, other).errors
    )


def count_cp_errors(real: Said, heard: Said) -> ErrorRate:
    """Count the errors of one recording under the assignment of cpWER.

    It needs less memory than to align and count.
    """
    assigned = _assign_by_words(real, heard)
    counts = (count_errors(one, other) for one, other in assigned.values())
    return sum(counts, start=ZERO)


def align_cp(real: Said, heard: Said) -> Pairs:
    """Align one recording under the assignment of cpWER."""
    assigned = _assign_by_words(real, heard)
    return {names: align(one, other) for names, (one, other) in assigned.items()}


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

    def count_timed_errors(one: Sequence[Segment], other: Sequence[Segment]) -> int:
        return count_pairs(_align_turns(one, other, collar)).errors

    assigned = assign_speakers(real, heard, [], count_timed_errors)
    return {
        names: _align_turns(one, other, collar)
        for names, (one, other) in assigned.items()
    }


def _align_turns(
    real: Sequence[Segment], heard: Sequence[Segment], collar: float
) -> list[Pair]:
    """Align the turns of two speakers, words that match within the collar."""
    # Nobody to compare with: all words are errors, whatever their times are.
    if not real or not heard:
        deleted: list[Pair] = [(word, None) for turn in real for word in turn.words]
        return deleted + [(None, word) for turn in heard for word in turn.words]
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
