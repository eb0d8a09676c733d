"""Transcripts without a trained stitcher: windows joined one behind the other, and overlapping inference (P4, Table 2).

A recording decoded without segmentation is one window, which ``no`` hands on.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from espnet_ext.errors import InputError
from espnet_ext.multitalker.turns import Turn
from espnet_ext.stitcher.hypotheses import NOBODY, Grouped, WindowHypothesis
from espnet_ext.stitcher.overlapping import overlapping_inference


def join_blocks(windows: Sequence[WindowHypothesis]) -> tuple[str, ...]:
    """Join the words of windows that follow each other without overlap (block-wise inference).

    Raises:
        InputError: windows that overlap, whose common words would come twice.
    """
    for left, right in pairwise(windows):
        if left.end > right.start + 1e-3:
            raise InputError(
                f"{left.recording}: windows {left.window} and {right.window} overlap: their common words would come "
                "twice; cut and decode windows without overlap, or merge these by overlapping inference"
            )
    return tuple(word for item in windows for word in item.words)


def only_window(windows: Sequence[WindowHypothesis]) -> tuple[str, ...]:
    """The words of a recording that was decoded without segmentation.

    Raises:
        InputError: it has several windows.
    """
    if len(windows) > 1:
        raise InputError(
            f"{windows[0].recording} has {len(windows)} windows, so that it was segmented: merge it block-wise, or by "
            "overlapping inference"
        )
    return windows[0].words


MERGES = {"no": only_window, "block": join_blocks, "overlapping": overlapping_inference}


def transcripts(grouped: Grouped, merge: Callable[[Sequence[WindowHypothesis]], tuple[str, ...]]) -> list[Turn]:
    """Merge each speaker's windows of each recording on their own: one turn a speaker (P4, 2.3).

    A recording in which nobody was heard gives one turn of nobody, without words, so that it is not lost.
    """
    turns = []
    for recording, speakers in grouped.items():
        merged = {speaker: merge(windows) for speaker, windows in speakers.items()}
        turns += [Turn(recording, speaker, words) for speaker, words in merged.items()] or [Turn(recording, NOBODY, ())]
    return turns
