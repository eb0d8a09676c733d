#!/usr/bin/env python3
"""What stitchers fix and break, against the time-aware merge of the same windows, written as facts.

Words of the reference that only the stitcher has right are fixed, those that only the merge has right are broken; by
the length of a speaker's reference in the recording, and by the distance of a word from the nearest edge of the window
in whose middle it lies most. Insertions are counted apart.
"""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from espnet_ext.multitalker.heard.hypotheses import WindowHypothesis
from espnet_ext.multitalker.heard.importers import read_grouped
from espnet_ext.scoring.error_rate import align
from espnet_ext.stitcher.by_time import merge_by_time
from espnet_ext.stitcher.simulated_errors import SpokenWord, spoken_words
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.text.turns import by_recording, read_turns, words_by_speaker

ABOUT = (
    "Words of the reference that a stitcher has right and the time-aware merge has not (fixed), and the other way "
    "(broken), by the number of words of the speaker in the recording and by the distance from an edge; insertions "
    "of both. All sets and seeds together."
)
LENGTHS, DISTANCES = (10, 20, 40), (1.0, 1.5, 2.0, 3.0)


def named(value: float, limits: Sequence[float], unit: str) -> str:
    """The class of a value.

    >>> named(10, (10, 20), "words"), named(21, (10, 20), "words")
    ('up to 10 words', 'over 20 words')
    """
    limit = next((limit for limit in limits if value <= limit), None)
    return f"over {limits[-1]:g} {unit}" if limit is None else f"up to {limit:g} {unit}"


def right_words(said: Sequence[str], heard: Sequence[str]) -> tuple[list[bool], int]:
    """Is each word of the reference right, and how many words are inserted?"""
    pairs = list(align(list(said), list(heard)))
    return [left == right for left, right in pairs if left is not None], sum(left is None for left, _ in pairs)


def from_edge(word: SpokenWord, windows: Sequence[WindowHypothesis]) -> float:
    """Seconds from the nearest edge that cuts, in the window in which it is the farthest."""
    last = len(windows) - 1
    found = []
    for number, window in enumerate(windows):
        if window.start <= word.middle < window.end:
            edges = ([window.start] if number else []) + ([window.end] if number < last else [])
            found.append(min((abs(word.middle - edge) for edge in edges), default=float("inf")))
    return max(found, default=0.0)


def changes(references: Path, heard: Path, transcripts: Path) -> Iterator[tuple[str, str, int]]:
    """What happened, where, and how often."""
    turns = read_turns(references)
    stitched, grouped = words_by_speaker(read_turns(transcripts)), read_grouped(heard)
    for recording, own in by_recording(turns).items():
        spoken = spoken_words(own)
        for speaker in dict.fromkeys(turn.speaker for turn in own):
            words = [word for word in spoken if word.speaker == speaker]
            windows = grouped.get(recording, {}).get(speaker, ())
            said = [word.text for word in words]
            merged, more = right_words(said, [word.text for word in merge_by_time(windows)])
            made, other = right_words(said, stitched.get(recording, {}).get(speaker, ()))
            length = named(len(said), LENGTHS, "words")
            yield "merged insertions", length, more
            yield "stitched insertions", length, other
            for word, before, after in zip(words, merged, made, strict=True):
                what = "unchanged" if before == after else "fixed" if after else "broken"
                for place in (length, named(from_edge(word, windows), DISTANCES, "s from an edge")):
                    yield what, place, 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the sets")
    parser.add_argument("--exp", type=Path, required=True, help="folder of the experiments")
    parser.add_argument("--systems", required=True, help="stitchers, separated by commas")
    parser.add_argument("--sets", default="test-short,test-long")
    parser.add_argument("--windows", default="windows50")
    parser.add_argument("--output", type=Path, required=True, help="JSON")
    args = parser.parse_args()
    values: dict[str, dict[str, dict[str, int]]] = {}
    for system in args.systems.split(","):
        counts: dict[str, Counter] = {}
        for folder in sorted((args.exp / system).glob("seed*")):
            for name in args.sets.split(","):
                files = (
                    args.data / name / "references.json",
                    args.exp / "heard" / args.windows / name / "hypotheses.jsonl",
                    folder / "decode_default" / name / "transcripts.json",
                )
                for what, place, count in changes(*files):
                    counts.setdefault(place, Counter())[what] += count
        values[system] = {place: dict(sorted(counts[place].items())) for place in sorted(counts)}
    write_facts(args.output, ABOUT, shlex.join(["local/fixed_and_broken.py", *sys.argv[1:]]), values)
    for system, places in values.items():
        print(system, *(f"{place}: {own}" for place, own in places.items()), sep="\n  ")


if __name__ == "__main__":
    main()
