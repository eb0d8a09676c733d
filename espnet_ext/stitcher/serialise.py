"""What stitchers read (P4, 3.2 and 3.3): hypotheses of all windows as one token sequence, or as two that are aligned.

- ``wc``: the windows' words with ``<wc>`` (window change) between neighbouring windows.
- ``wco_wce``: each window's words behind ``<wco>`` or ``<wce>``, for windows 1, 3, 5 ... and 2, 4, 6 ... (from 1).
- ``alignment``: the words of odd and of even windows, each joined by ``<wc>``, and aligned as in overlapping inference;
  ``<gap>`` where one of the two has no token. Two sequences of equal length.

A window in which the speaker is silent keeps its symbols, so that the number of windows can be told.

As text for ESPnet's MT task the first two are words. The aligned pairs are word pieces already, the two sequences' by
turns (:func:`interleave`), so that :mod:`espnet_ext.encoder.aligned_pairs` can put them side by side again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from espnet_ext.stitcher.hypotheses import Grouped, WindowHypothesis
from espnet_ext.stitcher.overlapping import align_windows, check_overlap

WINDOW_CHANGE, ODD_WINDOW, EVEN_WINDOW, GAP = "<wc>", "<wco>", "<wce>", "<gap>"
SYMBOLS = (WINDOW_CHANGE, ODD_WINDOW, EVEN_WINDOW, GAP)
ALIGNMENT = "alignment"
STYLES = ("wc", "wco_wce", ALIGNMENT)


@dataclass(frozen=True)
class StitchExample:
    """What a stitcher reads of one speaker in one recording, and what it should write.

    Attributes:
        id: ``<recording>--<speaker>``.
        windows: the speaker's hypotheses of all windows.
        sources: one token sequence, or the two aligned ones.
        target: the speaker's words in the recording, or None where they are not known.
    """

    id: str
    recording: str
    speaker: str
    windows: tuple[WindowHypothesis, ...]
    sources: tuple[tuple[str, ...], ...]
    target: tuple[str, ...] | None


def serialise_windows(windows: Sequence[WindowHypothesis], style: str) -> tuple[tuple[str, ...], ...]:
    """One speaker's hypotheses of all windows of a recording as a stitcher's input, in one of ``STYLES``.

    >>> one, two = (WindowHypothesis("r", i, "a", (word,), 8.0 * i, 8.0 * i + 16) for i, word in enumerate("AB"))
    >>> serialise_windows([one, two], "wc"), serialise_windows([one, two], "wco_wce")
    ((('A', '<wc>', 'B'),), (('<wco>', 'A', '<wce>', 'B'),))

    Raises:
        InputError: ``alignment`` with windows that do not overlap by half.
        ValueError: an unknown style.
    """
    if style == "wc":
        tokens = [token for item in windows for token in (WINDOW_CHANGE, *item.words)]
        return (tuple(tokens[1:]),)
    if style == "wco_wce":
        symbols = (ODD_WINDOW, EVEN_WINDOW)
        return (tuple(token for number, item in enumerate(windows) for token in (symbols[number % 2], *item.words)),)
    if style != ALIGNMENT:
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


def source_text(sources: Sequence[Sequence[str]], pieces: Callable[[str], Sequence[str]]) -> str:
    """A stitcher's input as the source text of ESPnet's MT task: words, or the word pieces of pairs by turns."""
    return " ".join(interleave(*sources, pieces) if len(sources) == 2 else sources[0])


def interleave(odd: Sequence[str], even: Sequence[str], pieces: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """Word pieces of aligned words by turns: of the odd windows, of the even windows, of the odd windows ...

    Where one word of a pair has fewer pieces than the other, the piece of ``<gap>`` stands for the rest.

    >>> " ".join(interleave(["A-B", "<gap>"], ["C", "D"], lambda word: word.split("-")))
    'A C B <gap> <gap> D'
    """
    (gap,) = pieces(GAP)
    for words in zip(odd, even, strict=True):
        for pair in zip_longest(*map(pieces, words), fillvalue=gap):
            yield from pair


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
            windows=windows,
            sources=serialise_windows(windows, style),
            target=None if references is None else references.get(recording, {}).get(speaker, ()),
        )
        for recording, speakers in grouped.items()
        for speaker, windows in speakers.items()
        if any(item.words for item in windows)
    ]
