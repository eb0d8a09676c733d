"""Make one transcript per speaker of what was heard in windows.

The ways are block-wise, by P4's overlapping inference, and by time.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from espnet_ext.errors import InputError
from espnet_ext.stitch.stitcher.by_time import merge_by_time, order_times
from espnet_ext.stitch.stitcher.overlapping import merge_by_overlap
from espnet_ext.text.window_hypotheses import NOBODY, Grouped
from espnet_ext.text.words import Segment, Word

# a speaker's windows -> the transcript
Merge = Callable[[Sequence[Segment]], tuple[Word, ...]]
# recording -> speaker -> the transcript
Transcripts = dict[str, dict[str, tuple[Word, ...]]]
BY_TIME = "time_aware"


def join_blocks(windows: Sequence[Segment]) -> tuple[Word, ...]:
    """Join the words of windows that follow each other (block-wise inference).

    Windows that overlap are refused.
    """
    for left, right in pairwise(windows):
        # Times that other tools have written may be rounded to milliseconds.
        if left.end > right.start + 1e-3:
            raise InputError(
                f"{left.recording}: windows {left.window} and {right.window} "
                "overlap: their common words would come "
                "twice; merge them by time (--method time_aware), or cut and "
                "decode windows without overlap"
            )
    return order_times(word for item in windows for word in item.timed_words)


def take_only_window(windows: Sequence[Segment]) -> tuple[Word, ...]:
    """Return the words of a recording that was decoded without segmentation.

    Several windows are refused.
    """
    if len(windows) > 1:
        raise InputError(
            f"{windows[0].recording} has {len(windows)} windows, so that it was "
            "segmented: merge it by time (--method "
            "time_aware)"
        )
    return join_blocks(windows)


MERGES: dict[str, Merge] = {
    "no": take_only_window,
    "block": join_blocks,
    "overlapping": merge_by_overlap,
    BY_TIME: merge_by_time,
}


def merge_all(grouped: Grouped, merge: Merge) -> Transcripts:
    """Merge each recording's windows into one transcript per speaker (P4, 2.3)."""
    return {
        recording: {speaker: merge(windows) for speaker, windows in speakers.items()}
        for recording, speakers in grouped.items()
    }


def make_whole_turns(merged: Transcripts) -> list[Segment]:
    """Make one turn per recording and speaker, without times.

    A recording in which nobody was heard gives one turn without a speaker and without
    words, so that it is not lost.
    """
    turns = []
    for recording, speakers in merged.items():
        for speaker, words in (speakers or {NOBODY: ()}).items():
            texts = tuple(word.text for word in words)
            turns.append(Segment(recording, speaker, texts))
    return turns
