"""From what was heard in windows to one transcript per speaker, and the times of its words.

Without a trained stitcher, windows are joined block-wise, by P4's overlapping inference (P4, 2.2 and Table 2), or by
the times of their words. A recording that was decoded without segmentation is one window, whose words ``no`` returns.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from espnet_ext.data.turns import Turn, write_turns
from espnet_ext.errors import InputError
from espnet_ext.multitalker.hypotheses import NOBODY, Grouped, WindowHypothesis
from espnet_ext.stitcher.by_time import TimedWord, merge_by_time, monotonic, passage
from espnet_ext.stitcher.overlapping import overlapping_inference
from espnet_ext.work.files import atomic_write

Merge = Callable[[Sequence[WindowHypothesis]], tuple[TimedWord, ...]]  # a speaker's windows -> the transcript
Transcripts = dict[str, dict[str, tuple[TimedWord, ...]]]  # recording -> speaker -> the transcript
Timed = list[tuple[Turn, tuple[TimedWord, ...]]]  # turns with the times of their words, in the order of their starts
BY_TIME = "time_aware"


def join_blocks(windows: Sequence[WindowHypothesis]) -> tuple[TimedWord, ...]:
    """Join the words of windows that follow each other without overlap (block-wise inference).

    Raises:
        InputError: windows that overlap, whose common words would come twice.
    """
    for left, right in pairwise(windows):
        if left.end > right.start + 1e-3:
            raise InputError(
                f"{left.recording}: windows {left.window} and {right.window} overlap: their common words would come "
                "twice; merge them by time (--method time_aware), or cut and decode windows without overlap"
            )
    return monotonic(word for item in windows for word in passage(item).words)


def only_window(windows: Sequence[WindowHypothesis]) -> tuple[TimedWord, ...]:
    """The words of a recording that was decoded without segmentation.

    Raises:
        InputError: it has several windows.
    """
    if len(windows) > 1:
        raise InputError(
            f"{windows[0].recording} has {len(windows)} windows, so that it was segmented: merge it by time (--method "
            "time_aware)"
        )
    return join_blocks(windows)


MERGES: dict[str, Merge] = {
    "no": only_window,
    "block": join_blocks,
    "overlapping": overlapping_inference,
    BY_TIME: merge_by_time,
}


def transcripts(grouped: Grouped, merge: Merge) -> Transcripts:
    """Merge the windows of each recording and speaker: one transcript per speaker (P4, 2.3)."""
    return {
        recording: {speaker: merge(windows) for speaker, windows in speakers.items()}
        for recording, speakers in grouped.items()
    }


def whole_turns(merged: Transcripts) -> list[Turn]:
    """One turn per recording and speaker, without times.

    A recording in which nobody was heard gives one turn without a speaker and without words, so that it is not lost.
    """
    return [
        Turn(recording, speaker, tuple(word.text for word in words))
        for recording, speakers in merged.items()
        for speaker, words in (speakers or {NOBODY: ()}).items()
    ]


def timed_turns(merged: Transcripts, pause: float = 1.0) -> Timed:
    """Transcripts with times: each speaker's words, divided where the speaker is silent.

    Args:
        merged: the transcripts.
        pause: seconds of silence that divide two turns.

    Returns:
        Turns with the times of their words, in the order of their starts.
    """
    divided = []
    for recording, speakers in merged.items():
        for speaker, words in speakers.items():
            first = 0
            for place in range(1, len(words) + 1):
                if place == len(words) or words[place].start - words[place - 1].end > pause:
                    own = words[first:place]
                    start, end = own[0].start, max(word.end for word in own)
                    divided.append((Turn(recording, speaker, tuple(word.text for word in own), start, end), own))
                    first = place
    return sorted(divided, key=lambda item: (item[0].recording, item[0].span[0]))


def write_seglst(path: Path, timed: Timed) -> None:
    """Write turns as SegLST; ``[]`` if nobody spoke."""
    write_turns(path, [turn for turn, _ in timed])


def write_ctm(path: Path, timed: Timed) -> None:
    """Write words as CTM, with the speaker in the eighth column."""
    with atomic_write(path) as file:
        for turn, words in timed:
            for word in words:
                times = f"{word.start:.3f} {word.end - word.start:.3f}"
                file.write(f"{turn.recording} 1 {times} {word.text} NA lex {turn.speaker}\n")


def write_text(path: Path, timed: Timed) -> None:
    """Write a line for each turn, to be read."""
    with atomic_write(path) as file:
        file.writelines(f"{line}\n" for line in text_lines(timed, len({turn.recording for turn, _ in timed}) > 1))


WRITERS: dict[str, Callable[[Path, Timed], None]] = {".json": write_seglst, ".ctm": write_ctm, ".txt": write_text}


def text_lines(timed: Timed, recordings: bool = False) -> Iterator[str]:
    """A line for each turn: start and end, the recording if asked for, the speaker, and the words."""
    for turn, _ in timed:
        span = " - ".join(_clock(seconds) for seconds in turn.span)
        name = f"{turn.recording} {turn.speaker}" if recordings else turn.speaker
        yield f"[{span}] {name}: {' '.join(turn.words)}"


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _clock(3725.04)
    '1:02:05.0'
    """
    tenths = round(seconds * 10)
    return f"{tenths // 36000}:{tenths // 600 % 60:02d}:{tenths // 10 % 60:02d}.{tenths % 10}"
