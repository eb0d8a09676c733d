"""Merging windows: its time grows linearly, against an unrestricted alignment of the same words, which does not.

Windows of 16 s, half of it overlap, 100,000 words in ten hours, each window with one word in ten wrong. Wrong words
are drawn from the vocabulary: if all of them were the same word, two neighbours, each wrong in one window, would look
like one word, and 1 % of the words would come twice. The peer is
kaldialign (C++), which aligns the odd with the even windows over the whole table: quicker on short recordings, and out
of time and memory on long ones. Times are of the process, so that a busy machine does not spoil them.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
from tabulate import tabulate

from espnet_ext.multitalker.heard.hypotheses import WindowHypothesis
from espnet_ext.multitalker.windows import Windowing
from espnet_ext.scoring.error_rate import align
from espnet_ext.stitcher.by_time import merge_by_time
from espnet_ext.stitcher.overlapping import overlapping_inference

WORDS_A_SECOND = 100_000 / 36_000
PEER_HOURS = 1.0  # the peer's table of ten hours has 10^10 cells


def recording(hours: float, seed: int = 0) -> list[WindowHypothesis]:
    """What a recogniser heard in so many hours."""
    rng = np.random.default_rng(seed)
    seconds = hours * 3600
    text = np.array([f"w{number}" for number in rng.integers(3000, size=int(seconds * WORDS_A_SECOND))])
    hypotheses = []
    for window in Windowing(16.0, 0.5).cut("r", seconds):
        words = text[int(window.start * WORDS_A_SECOND) : int(window.end * WORDS_A_SECOND)].copy()
        wrong = np.flatnonzero(rng.random(len(words)) < 0.1)
        words[wrong] = [f"w{number}" for number in rng.integers(3000, size=len(wrong))]
        starts = window.start + np.arange(len(words)) / WORDS_A_SECOND
        times = tuple((start, start + 0.3) for start in starts.tolist())
        heard = WindowHypothesis("r", window.index, "a", tuple(words.tolist()), window.start, window.end, times)
        hypotheses.append(heard)
    return hypotheses


def timed(function: Callable[[Sequence[WindowHypothesis]], object], windows: Sequence[WindowHypothesis]) -> float:
    start = time.process_time()
    function(windows)
    return time.process_time() - start


def unrestricted(windows: Sequence[WindowHypothesis]) -> object:
    return align(*([word for item in windows[side::2] for word in item.words] for side in (0, 1)))


def main() -> None:
    rows = []
    for hours in (0.1, 1.0, 10.0):
        windows = recording(hours)
        ours, by_time = timed(overlapping_inference, windows), timed(merge_by_time, windows)
        peer = timed(unrestricted, windows) if hours <= PEER_HOURS else None
        ratio = "-" if peer is None else f"{peer / ours:.2f}"
        words = int(hours * 3600 * WORDS_A_SECOND)
        joined, peer_time = len(merge_by_time(windows)), peer and f"{peer:.2f}"
        rows.append([hours, words, joined, f"{ours:.2f}", f"{by_time:.2f}", peer_time, ratio])
    names = ["hours", "words", "joined by time", "overlapping inference, s", "by time, s", "kaldialign, s", "its ratio"]
    print(tabulate(rows, names))


if __name__ == "__main__":
    main()
