"""The ceiling of merging: the transcript of a perfect choice among what the windows have heard (P4 has none).

The words of odd and even windows are aligned as for the alignment-based stitcher; of each pair, the choice knows the
reference. What this transcript still has wrong, no window has right. A stitcher may do better only by guessing.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from espnet_ext.multitalker.heard.hypotheses import NOBODY, WindowHypothesis, is_timed
from espnet_ext.multitalker.heard.importers import read_grouped
from espnet_ext.stitcher.by_time import WITHIN
from espnet_ext.stitcher.overlapping import Heard, align_windows, check_overlap
from espnet_ext.text.turns import Turn, read_turns, words_by_speaker, write_turns

Slot = tuple[str | None, ...]  # the words that can be chosen; None: none of them


def slots_of(windows: Sequence[WindowHypothesis]) -> list[Slot]:
    """What can be chosen, in the order of speech: of two windows' words, or of a word and nothing.

    Raises:
        InputError: windows overlap that are not neighbours.
    """
    check_overlap(windows, 0.0)
    pairs = align_windows(windows, WITHIN) if is_timed(windows) else align_windows(windows)
    return [_slot(left, right, windows) for left, right in pairs]


def _slot(left: Heard | None, right: Heard | None, windows: Sequence[WindowHypothesis]) -> Slot:
    if left and right:
        return (left.word, right.word)
    alone = left or right
    assert alone is not None  # no pair is empty
    others = windows[max(0, alone.window - 1) : alone.window + 2]
    missed = any(other.window != alone.window and other.start <= alone.middle < other.end for other in others)
    return (alone.word, None) if missed else (alone.word,)


def best_choice(slots: Sequence[Slot], reference: Sequence[str]) -> tuple[str, ...]:
    """The choice with the fewest edits to the reference."""
    length = len(reference)
    steps = np.arange(length + 1)
    costs = [steps.copy()]  # after each slot, of each number of words of the reference
    for slot in slots:
        before = costs[-1]
        row = before + (None not in slot)
        differ = np.array([word not in slot for word in reference], dtype=int)
        row[1:] = np.minimum(row[1:], before[:-1] + differ)
        costs.append(np.minimum.accumulate(row - steps) + steps)
    chosen: list[str] = []
    place, at = len(slots), length
    while place:
        slot, cost = slots[place - 1], costs[place][at]
        words = [word for word in slot if word is not None]
        if at and cost == costs[place - 1][at - 1] + (reference[at - 1] not in slot):
            chosen.append(reference[at - 1] if reference[at - 1] in slot else words[0])
            place, at = place - 1, at - 1
        elif cost == costs[place - 1][at] + (None not in slot):
            chosen += [] if None in slot else words[:1]
            place -= 1
        else:
            at -= 1
    return tuple(reversed(chosen))


def write_ceiling(hypotheses: Path, references: Path, output: Path) -> None:
    """Write the transcripts (SegLST) of a perfect choice among the windows of a set.

    Raises:
        InputError: a missing or bad file, or windows that overlap with others than their neighbours.
    """
    said = words_by_speaker(read_turns(references))
    turns = []
    for recording, speakers in read_grouped(hypotheses).items():
        for speaker, windows in speakers.items():
            words = best_choice(slots_of(windows), said.get(recording, {}).get(speaker, ()))
            turns.append(Turn(recording, speaker, words))
        if not speakers:
            turns.append(Turn(recording, NOBODY, ()))
    write_turns(output, turns)
    print(f"{len(turns)} transcripts of the best choice, written to {output}")
