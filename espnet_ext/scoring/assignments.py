"""Error rates that forgive the names of speakers: cpWER and tcpWER of one recording.

cpWER takes the one-to-one assignment of hypothesised to real speakers with the fewest errors (Watanabe et al., "CHiME-6
challenge", 2020). tcpWER does so too, but a word can only be matched by one that was said at nearly the same time (von
Neumann et al., "MeetEval", 2023). MeetEval aligns under that constraint; the assignment is found here, as MeetEval
refuses more than 20 speakers. Its own command counts ORC-WER.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from espnet_ext.scoring.error_rate import ZERO, ErrorRate, Pair, align, count_errors, count_pairs
from espnet_ext.text.words import Segment

COLLAR = 5.0  # seconds, as in the CHiME-7 and -8 challenges

Said = Mapping[str, tuple[str, ...]]  # speaker -> words
Assignment = list[tuple[str | None, str | None]]  # speakers of reference and hypothesis; None: nobody
Pairs = dict[tuple[str | None, str | None], list[Pair]]  # aligned words by speakers of reference and hypothesis


def assign[Stream](
    real: Mapping[str, Stream], heard: Mapping[str, Stream], nothing: Stream, errors: Callable[[Stream, Stream], int]
) -> Assignment:
    """Find the one-to-one assignment of speakers with the fewest errors; ``nothing`` is what nobody says.

    >>> said = {"a": ["one"], "b": ["two"]}
    >>> assign(said, {"x": ["two"]}, [], lambda one, other: sum(map(len, (one, other))) * (one != other))
    [('a', None), ('b', 'x')]
    """
    from scipy.optimize import linear_sum_assignment

    size = max(len(real), len(heard))
    rows = [*real, *[None] * (size - len(real))]
    columns = [*heard, *[None] * (size - len(heard))]
    costs = np.array(
        [[errors(nothing if a is None else real[a], nothing if b is None else heard[b]) for b in columns] for a in rows]
    ).reshape(size, size)
    return [(rows[place], columns[other]) for place, other in zip(*linear_sum_assignment(costs), strict=True)]


def cp_assignment(real: Said, heard: Said) -> Assignment:
    """Find the assignment of cpWER."""
    return assign(real, heard, (), lambda one, other: count_errors(one, other).errors)


def cp_errors(real: Said, heard: Said) -> ErrorRate:
    """Count the errors of one recording under the assignment of cpWER, in little memory.

    >>> cp_errors({"a": ("ONE",), "b": ("TWO",)}, {"b": ("ONE",), "a": ("TWO",)}).errors
    0
    """
    pairs = ((real.get(a or "", ()), heard.get(b or "", ())) for a, b in cp_assignment(real, heard))
    return sum((count_errors(*pair) for pair in pairs), start=ZERO)


def cp_pairs(real: Said, heard: Said) -> Pairs:
    """Align one recording under the assignment of cpWER."""
    return {(a, b): align(real.get(a or "", ()), heard.get(b or "", ())) for a, b in cp_assignment(real, heard)}


def streams(turns: Iterable[Segment]) -> dict[str, list[Segment]]:
    """Return the turns with words of each speaker of one recording."""
    found: dict[str, list[Segment]] = {}
    for turn in turns:
        if turn.words:
            found.setdefault(turn.speaker, []).append(turn)
    return found


def tcp_pairs(
    real: Mapping[str, Sequence[Segment]], heard: Mapping[str, Sequence[Segment]], collar: float = COLLAR
) -> Pairs:
    """Align one recording under the best assignment of speakers, with times (tcpWER).

    Args:
        real, heard: turns with words by speaker, see :func:`streams`.
        collar: how far apart in seconds words may be that match.

    Raises:
        InputError: a turn has no times.

    >>> said = {"a": [Segment("r", "a", ("ONE",), 0.0, 1.0)]}
    >>> late = {"b": [Segment("r", "b", ("ONE",), 9.0, 10.0)]}
    >>> tcp_pairs(said, late, collar=10)
    {('a', 'b'): [('ONE', 'ONE')]}
    >>> tcp_pairs(said, late)
    {('a', 'b'): [('ONE', None), (None, 'ONE')]}
    """
    assignment = assign(real, heard, [], lambda one, other: count_pairs(_timed_pairs(one, other, collar)).errors)
    return {(a, b): _timed_pairs(real.get(a or "", []), heard.get(b or "", []), collar) for a, b in assignment}


def _timed_pairs(real: Sequence[Segment], heard: Sequence[Segment], collar: float) -> list[Pair]:
    if not real or not heard:
        return [(word, None) for turn in real for word in turn.words] + [
            (None, word) for turn in heard for word in turn.words
        ]
    from meeteval.io.seglst import SegLST
    from meeteval.wer.wer.time_constrained import align as align_with_times

    def segments(turns: Sequence[Segment]) -> Any:
        spans = [(turn, *turn.span) for turn in turns]
        return SegLST(
            [{"words": " ".join(turn.words), "start_time": start, "end_time": end} for turn, start, end in spans]
        )

    aligned = align_with_times(segments(real), segments(heard), collar=collar, style="seglst")
    return [(a and a["words"], b and b["words"]) for a, b in aligned]
