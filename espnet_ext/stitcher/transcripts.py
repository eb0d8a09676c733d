"""From what was heard in windows to one transcript per speaker, and the times of its words.

Without a trained stitcher, windows are joined block-wise or by overlapping inference (P4, 2.2 and Table 2). A recording
that was decoded without segmentation is one window, whose words ``no`` returns.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from espnet_ext.data.turns import Turn
from espnet_ext.errors import InputError
from espnet_ext.multitalker.hypotheses import NOBODY, Grouped, WindowHypothesis, word_times
from espnet_ext.scoring.error_rate import align
from espnet_ext.stitcher.overlapping import overlapping_inference

Merge = Callable[[Sequence[WindowHypothesis]], tuple[str, ...]]  # a speaker's windows -> the words of the transcript
Span = tuple[float, float]  # start and end in seconds


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


MERGES: dict[str, Merge] = {"no": only_window, "block": join_blocks, "overlapping": overlapping_inference}


def transcripts(grouped: Grouped, merge: Merge) -> list[Turn]:
    """Merge the windows of each recording and speaker: one turn per speaker (P4, 2.3).

    A recording in which nobody was heard gives one turn without a speaker and without words, so that it is not lost.
    """
    turns = []
    for recording, speakers in grouped.items():
        merged = {speaker: merge(windows) for speaker, windows in speakers.items()}
        turns += [Turn(recording, speaker, words) for speaker, words in merged.items()] or [Turn(recording, NOBODY, ())]
    return turns


def stitched_times(words: Sequence[str], windows: Sequence[WindowHypothesis]) -> tuple[Span, ...]:
    """Start and end in seconds of each word of one speaker's transcript, in the order of starts.

    The transcript is aligned with all words that were heard in windows, in the order of their times. A word without a
    counterpart lies between its neighbours. Where the recogniser gave no times, its words share their window evenly.

    Args:
        words: the transcript.
        windows: what was heard of the speaker in each window.
    """
    heard = sorted((span, word) for item in windows for span, word in zip(word_times(item), item.words, strict=True))
    spans: list[Span | None] = []
    place = 0
    for word, other in align(list(words), [word for _, word in heard]):
        if word is not None:
            spans.append(heard[place][0] if other is not None else None)
        place += other is not None
    return _filled(spans, windows)


def _filled(spans: list[Span | None], windows: Sequence[WindowHypothesis]) -> tuple[Span, ...]:
    """Give words without a time one between their neighbours, and let no word start before the one before it."""
    filled: list[Span] = []
    latest = windows[0].start if windows else 0.0
    for place, span in enumerate(spans):
        if span is None:
            after = next((other for other in spans[place:] if other is not None), None)
            start = filled[-1][1] if filled else latest
            span = (start, max(start, after[0] if after else start))
        start = max(latest, span[0])
        filled.append((round(start, 3), round(max(start, span[1]), 3)))
        latest = start
    return tuple(filled)


def timed_turns(turns: Sequence[Turn], grouped: Grouped, pause: float = 1.0) -> list[tuple[Turn, tuple[Span, ...]]]:
    """Transcripts with times: each speaker's words, divided where the speaker is silent.

    Args:
        turns: one per recording and speaker, without times.
        grouped: the hypotheses that they were made of.
        pause: seconds of silence that divide two turns.

    Returns:
        Turns with the times of their words, in the order of their starts.
    """
    divided = []
    for turn in turns:
        spans = stitched_times(turn.words, grouped[turn.recording].get(turn.speaker, ()))
        first = 0
        for place in range(1, len(spans) + 1):
            if place == len(spans) or spans[place][0] - spans[place - 1][1] > pause:
                start, end = spans[first][0], max(span[1] for span in spans[first:place])
                words = turn.words[first:place]
                divided.append((Turn(turn.recording, turn.speaker, words, start, end), spans[first:place]))
                first = place
    return sorted(divided, key=lambda item: (item[0].recording, item[0].span[0]))
