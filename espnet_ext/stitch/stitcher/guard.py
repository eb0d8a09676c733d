"""Guard against stitchers that leave what the windows say (P4 has no guard).

A stitched transcript with more edits a word than a limit, against the time-aware merge,
is replaced by that merge.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from espnet_ext.errors import say
from espnet_ext.scoring.error_rate import count_errors
from espnet_ext.stitch.stitcher.by_time import merge_by_time
from espnet_ext.stitch.stitcher.transcripts import Merge, make_whole_turns, merge_all
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.window_hypotheses import read_grouped
from espnet_ext.text.words import Segment, Word, join_words_by_speaker
from espnet_ext.text.writing import write_segments
from espnet_ext.work.files import write_json
from espnet_ext.work.settings import StrictMapping, Weight, Whole, read_settings

GUARD = "guard.json"


class Guard(StrictMapping):
    """Hold a tuned limit, and what it was tuned on.

    ``transcripts`` is the number of these, ``stitched`` of those up to the limit.
    """

    edits_per_word: Weight
    transcripts: Whole = 0
    stitched: Whole = 0


def count_edits_per_word(stitched: Sequence[str], merged: Sequence[str]) -> float:
    """Count the edits from the merged to the stitched transcript, per merged word."""
    # Where nothing was heard, each stitched word counts as one edit a word.
    return count_errors(merged, stitched).errors / max(1, len(merged))


def guard_merge(merge: Merge, limit: float) -> Merge:
    """Return a merge that takes a stitched transcript up to ``limit`` edits a word.

    Otherwise it merges by time.
    """

    def choose(windows: Sequence[Segment]) -> tuple[Word, ...]:
        stitched = merge(windows)
        merged = merge_by_time(windows)
        edits = count_edits_per_word(_list_texts(stitched), _list_texts(merged))
        return stitched if edits <= limit else merged

    return choose


def _list_texts(words: Iterable[Word]) -> tuple[str, ...]:
    return tuple(word.text for word in words)


def find_best_limit(candidates: Iterable[tuple[float, int]]) -> float:
    """Return the limit with the fewest errors, and of several the lowest.

    ``candidates`` has of each stitched transcript its edits per word, and by how many
    errors it is better than the merge.

    >>> find_best_limit([(0.5, 1), (1.0, -2)]), find_best_limit([(1.0, -2)])
    (0.5, 0.0)
    """
    # With a limit at a candidate's edits, the stitcher is taken for all up to that one:
    # a running sum of gains, of which the highest is looked for. None at all gains 0.
    best = 0
    total = 0
    limit = 0.0
    ordered = sorted(candidates)
    for place, (edits, gain) in enumerate(ordered):
        total += gain
        # A limit cannot lie between candidates with equally many edits.
        last = place + 1 == len(ordered) or ordered[place + 1][0] > edits
        if last and total > best:
            best = total
            limit = edits
    return limit


def tune_guard(
    hypotheses: Sequence[Path],
    transcripts: Sequence[Path],
    references: Sequence[Path],
    output: Path,
) -> None:
    """Tune a stitcher's limit on development sets, and write it to ``output``.

    Each set has hypotheses, the stitcher's transcripts of them without a guard, and
    references. ``output`` is ``guard.json`` of the stitcher's folder.
    """
    candidates = []
    for heard, made, reference in zip(hypotheses, transcripts, references, strict=True):
        stitched = join_words_by_speaker(read_segments(made))
        said = join_words_by_speaker(read_segments(reference))
        for recording, speakers in read_grouped(heard).items():
            for speaker, windows in speakers.items():
                # Whom the stitcher has left out has a transcript without words.
                text = stitched.get(recording, {}).get(speaker, ())
                merged = _list_texts(merge_by_time(windows))
                spoken = said.get(recording, {}).get(speaker, ())
                errors_of_merged = count_errors(spoken, merged).errors
                errors_of_stitched = count_errors(spoken, text).errors
                gain = errors_of_merged - errors_of_stitched
                candidates.append((count_edits_per_word(text, merged), gain))
    limit = find_best_limit(candidates)
    below = sum(edits <= limit for edits, _ in candidates)
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
    """Write what the guard in a stitcher's folder leaves of transcripts (SegLST)."""
    limit = read_guard(folder)
    for heard, path, output in zip(hypotheses, transcripts, outputs, strict=True):
        stitched = join_words_by_speaker(read_segments(path))

        def merge(
            windows: Sequence[Segment], stitched: dict = stitched
        ) -> tuple[Word, ...]:
            first = windows[0]
            words = stitched.get(first.recording, {}).get(first.speaker, ())
            # A turn per speaker is written, without times: any time will do.
            return tuple(Word(word, first.start, first.start) for word in words)

        # A stitcher without a tuned limit is trusted whatever it writes, as in P4.
        chosen = guard_merge(merge, math.inf if limit is None else limit)
        merged = merge_all(read_grouped(heard), chosen)
        write_segments(output, make_whole_turns(merged))


def read_guard(folder: Path) -> float | None:
    """Read the limit in a stitcher's folder; None if none was tuned."""
    path = folder / GUARD
    if not path.exists():
        return None
    guard = read_settings(Guard, path, "tune it again, or delete the file")
    return guard.edits_per_word
