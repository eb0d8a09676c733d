"""A guard of stitchers (P4 has none): a stitched transcript counts only if it is close
to what the windows say.

One with more edits a word than a limit, against the time-aware merge, is replaced by
that merge.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from espnet_ext.errors import say
from espnet_ext.scoring.error_rate import count_errors
from espnet_ext.stitch.stitcher.by_time import merge_by_time
from espnet_ext.stitch.stitcher.transcripts import Merge, merge_all, whole_turns
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.window_hypotheses import read_grouped
from espnet_ext.text.words import Segment, Word, join_words_by_speaker
from espnet_ext.text.writing import write_segments
from espnet_ext.work.files import write_json
from espnet_ext.work.settings import StrictMapping, Weight, Whole, read_settings

GUARD = "guard.json"


class Guard(StrictMapping):
    """A tuned limit, the number of transcripts that it was tuned on, and of those that
    are the stitcher's.
    """

    edits_per_word: Weight
    transcripts: Whole = 0
    stitched: Whole = 0


def edits_per_word(stitched: Sequence[str], merged: Sequence[str]) -> float:
    """Return the number of edits from the merged to the stitched transcript, per word
    of the merged one.
    """
    return count_errors(merged, stitched).errors / max(1, len(merged))


def guarded(merge: Merge, limit: float) -> Merge:
    """Return a merge that takes a stitched transcript up to so many edits a word, and
    otherwise merges by time.
    """

    def choose(windows: Sequence[Segment]) -> tuple[Word, ...]:
        stitched, merged = merge(windows), merge_by_time(windows)
        return (
            stitched
            if edits_per_word(_texts(stitched), _texts(merged)) <= limit
            else merged
        )

    return choose


def _texts(words: Iterable[Word]) -> tuple[str, ...]:
    return tuple(word.text for word in words)


def find_best_limit(candidates: Iterable[tuple[float, int]]) -> float:
    """Return the limit with the fewest errors, and of several the lowest, from the
    stitched transcripts.

    Of each, its edits per word, and by how many errors it is better than the merge.

    >>> find_best_limit([(0.5, 1), (1.0, -2)]), find_best_limit([(1.0, -2)])
    (0.5, 0.0)
    """
    best = total = 0
    limit = 0.0
    ordered = sorted(candidates)
    for place, (distance, gain) in enumerate(ordered):
        total += gain
        last = place + 1 == len(ordered) or ordered[place + 1][0] > distance
        if last and total > best:
            best = total
            limit = distance
    return limit


def tune_guard(
    hypotheses: Sequence[Path],
    transcripts: Sequence[Path],
    references: Sequence[Path],
    output: Path,
) -> None:
    """Tune a stitcher's limit on hypotheses, its transcripts without a guard, and
    references of development sets.

    It is written to ``output``, ``guard.json`` of the stitcher's folder.
    """
    candidates = []
    for heard, made, reference in zip(hypotheses, transcripts, references, strict=True):
        stitched, said = (
            join_words_by_speaker(read_segments(made)),
            join_words_by_speaker(read_segments(reference)),
        )
        for recording, speakers in read_grouped(heard).items():
            for speaker, windows in speakers.items():
                text, merged = (
                    stitched.get(recording, {}).get(speaker, ()),
                    _texts(merge_by_time(windows)),
                )
                spoken = said.get(recording, {}).get(speaker, ())
                gain = (
                    count_errors(spoken, merged).errors
                    - count_errors(spoken, text).errors
                )
                candidates.append((edits_per_word(text, merged), gain))
    limit = find_best_limit(candidates)
    below = sum(distance <= limit for distance, _ in candidates)
    guard = Guard(edits_per_word=limit, transcripts=len(candidates), stitched=below)
    write_json(output, guard.model_dump())
    say(
        f"at most {limit:.3f} edits a word: {below} of {len(candidates)} "
        "transcripts are the stitcher's"
    )


def guard_transcripts(
    hypotheses: Sequence[Path],
    transcripts: Sequence[Path],
    outputs: Sequence[Path],
    folder: Path,
) -> None:
    """Write the transcripts (SegLST) that the guard in a stitcher's folder leaves of
    those of these hypotheses.
    """
    limit = read_guard(folder)
    for heard, path, output in zip(hypotheses, transcripts, outputs, strict=True):
        stitched = join_words_by_speaker(read_segments(path))

        def merge(
            windows: Sequence[Segment], stitched: dict = stitched
        ) -> tuple[Word, ...]:
            first = windows[0]
            words = stitched.get(first.recording, {}).get(first.speaker, ())
            return tuple(Word(word, first.start, first.start) for word in words)

        chosen = guarded(merge, math.inf if limit is None else limit)
        write_segments(output, whole_turns(merge_all(read_grouped(heard), chosen)))


def read_guard(folder: Path) -> float | None:
    """Read the limit in a stitcher's folder; None if none was tuned."""
    path = folder / GUARD
    return (
        read_settings(Guard, path, "tune it again, or delete the file").edits_per_word
        if path.exists()
        else None
    )
