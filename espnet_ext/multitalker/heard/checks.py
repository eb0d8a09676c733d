"""What is probably wrong with hypotheses of windows, though it could be right."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from espnet_ext.multitalker.heard.hypotheses import Grouped, WindowHypothesis

GAP = 1.0  # seconds between windows that otherwise touch or overlap
LONGEST_WORD = 10.0  # seconds
LONG_WINDOW, EARLY = 600.0, 0.05  # a window of so many seconds whose words all lie in so small a part of it
MOST_OVERLAP = 0.9


def warn(text: str) -> None:
    """Print a warning to stderr."""
    print(f"warning: {text}", file=sys.stderr)


def suspicions(grouped: Grouped) -> Iterator[str]:
    """What to look at in hypotheses of windows: a line for each recording and kind of doubt."""
    for recording, speakers in grouped.items():
        if windows := next(iter(speakers.values()), None):
            spans = [(item.start, item.end) for item in windows]
            yield from (f"{recording}: {text}" for text in (*_gaps(spans), *_overlaps(spans), *_units(speakers)))


def _gaps(spans: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Time that no window covers; where most windows lie apart, they were cut at pauses."""
    gaps, end, apart = [], 0.0, 0
    for start, stop in spans:
        if start - end > GAP:
            gaps.append((end, start))
        apart += start > end
        end = max(end, stop)
    if gaps and (2 * apart <= len(spans) or len(spans) < 3):
        first, total = gaps[0], sum(stop - start for start, stop in gaps)
        more = f", and {total - first[1] + first[0]:.1f} s elsewhere" if len(gaps) > 1 else ""
        yield f"no window covers {first[0]:.1f} to {first[1]:.1f} s{more}"


def _overlaps(spans: Sequence[tuple[float, float]]) -> Iterator[str]:
    for number, (one, other) in enumerate(pairwise(spans)):
        if number == len(spans) - 2 and other[1] - other[0] < one[1] - one[0]:
            return  # the last window of a cut recording is what is left
        share = (one[1] - other[0]) / min(one[1] - one[0], other[1] - other[0])
        if share > MOST_OVERLAP:
            yield f"windows {number} and {number + 1} share {min(share, 1):.0%} of their time: are their times right?"
            return


def _units(speakers: Mapping[str, Sequence[WindowHypothesis]]) -> Iterator[str]:
    """Milliseconds in place of seconds."""
    timed = [(item, times) for items in speakers.values() for item in items if (times := item.times)]
    lengths = [end - start for _, times in timed for start, end in times]
    if lengths and median(lengths) > LONGEST_WORD:
        yield f"half of the words last over {median(lengths):.0f} s: are their times in milliseconds?"
        return
    parts = [(times[-1][1] - item.start) / (item.end - item.start) for item, times in timed]
    longest = max((item.end - item.start for item, _ in timed), default=0.0)
    if longest > LONG_WINDOW and max(parts) < EARLY:
        yield f"windows of {longest:.0f} s hold words in their first {max(parts):.1%} only: are they in milliseconds?"
