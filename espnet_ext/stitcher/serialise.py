"""What stitchers read (P4, 3.2 and 3.3): hypotheses of all windows as one token sequence, or as two that are aligned.

- ``wc``: the windows' words with ``<wc>`` (window change) between neighbouring windows.
- ``wcoe``: each window's words behind ``<wco>`` or ``<wce>``, for windows 1, 3, 5 ... and 2, 4, 6 ... (counted from 1).
- ``aligned``: the words of odd and of even windows, each joined by ``<wc>``, and aligned as in overlapping inference;
  ``<gap>`` where one of the two has no token. Two sequences of equal length.

A window in which the speaker is silent keeps its symbols, so that the number of windows can be told.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from espnet_ext.stitcher.hypotheses import Grouped, WindowHypothesis
from espnet_ext.stitcher.overlapping import align_windows, check_overlap

WINDOW_CHANGE, ODD_WINDOW, EVEN_WINDOW, GAP = "<wc>", "<wco>", "<wce>", "<gap>"
STYLES = {"wc": (WINDOW_CHANGE,), "wcoe": (ODD_WINDOW, EVEN_WINDOW), "aligned": (WINDOW_CHANGE, GAP)}


@dataclass(frozen=True)
class StitchExample:
    """What a stitcher reads of one speaker in one recording, and what it should write.

    Attributes:
        id: ``<recording>--<speaker>``.
        sources: one token sequence, or the two aligned ones.
        target: the speaker's words in the recording, or None where they are not known.
    """

    id: str
    recording: str
    speaker: str
    sources: tuple[tuple[str, ...], ...]
    target: tuple[str, ...] | None


def serialise_windows(windows: Sequence[WindowHypothesis], style: str) -> tuple[tuple[str, ...], ...]:
    """One speaker's hypotheses of all windows of a recording as a stitcher's input, in one of ``STYLES``.

    >>> one, two = (WindowHypothesis("r", i, "a", (word,), 8.0 * i, 8.0 * i + 16) for i, word in enumerate("AB"))
    >>> serialise_windows([one, two], "wc"), serialise_windows([one, two], "wcoe")
    ((('A', '<wc>', 'B'),), (('<wco>', 'A', '<wce>', 'B'),))

    Raises:
        InputError: ``aligned`` with windows that do not overlap by half.
        ValueError: an unknown style.
    """
    if style == "wc":
        tokens = [token for item in windows for token in (WINDOW_CHANGE, *item.words)]
        return (tuple(tokens[1:]),)
    if style == "wcoe":
        symbols = (ODD_WINDOW, EVEN_WINDOW)
        return (tuple(token for number, item in enumerate(windows) for token in (symbols[number % 2], *item.words)),)
    if style != "aligned":
        raise ValueError(f"unknown style {style!r}: {', '.join(STYLES)}")
    check_overlap(windows)
    columns = list(_aligned(windows))
    return tuple(column[0] for column in columns), tuple(column[1] for column in columns)


def _aligned(windows: Sequence[WindowHypothesis]) -> Iterator[tuple[str, str]]:
    """Pairs of tokens; a change of windows on one side stands before the first word of the new window."""
    at = [0, 1]  # the window that each side is in
    for pair in align_windows(windows):
        for side, heard in enumerate(pair):
            while heard is not None and at[side] < heard.window:
                at[side] += 2
                yield _change(side)
        yield tuple(GAP if heard is None else heard.word for heard in pair)
    for side in (0, 1):
        for _ in range(at[side] + 2, len(windows), 2):
            yield _change(side)


def _change(side: int) -> tuple[str, str]:
    return (WINDOW_CHANGE, GAP) if side == 0 else (GAP, WINDOW_CHANGE)


def stitch_examples(
    grouped: Grouped, style: str, references: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None
) -> list[StitchExample]:
    """A stitcher's inputs, one a recording and speaker of whom something was heard, and their targets.

    Args:
        grouped: hypotheses by recording and speaker.
        references: words by recording and speaker; a speaker who was heard but is not in the reference has the empty
            target. None: nothing is known, as when stitching.
    """
    return [
        StitchExample(
            id=f"{recording}--{speaker}",
            recording=recording,
            speaker=speaker,
            sources=serialise_windows(windows, style),
            target=None if references is None else references.get(recording, {}).get(speaker, ()),
        )
        for recording, speakers in grouped.items()
        for speaker, windows in speakers.items()
        if any(item.words for item in windows)
    ]
