"""How a recogniser errs in windows: counted on recordings whose words are known, and
put into simulated errors.

Rates depend on the distance from a window's edge; confusions, equal errors in two
windows and wrong speakers count too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from espnet_ext.errors import say
from espnet_ext.scoring.error_rate import align
from espnet_ext.stitch.stitcher.simulated_errors import (
    DISTANCES,
    Edges,
    SimulatedErrors,
    SpokenWord,
    spoken_words,
)
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.window_hypotheses import Grouped, read_grouped
from espnet_ext.text.words import Segment, by_recording
from espnet_ext.work.files import write_json

COMMON = 3  # a confusion counts if it was heard so often
Place = tuple[int, int]  # a word of a recording: number of its turn, and in it
Class = tuple[
    bool, float
]  # of a word in a window: is it overlapped, and its distance from the window's edge


class Outcome(NamedTuple):
    """What became of a word in a window: its class, is it wrong, and the word that was
    heard in its place.
    """

    kind: Class
    wrong: bool
    instead: str | None


@dataclass
class Counts:
    """Count words and errors."""

    words: Counter[Class] = field(default_factory=Counter)  # by class
    wrong: Counter[Class] = field(
        default_factory=Counter
    )  # those of them that are wrong
    kinds: Counter[str] = field(default_factory=Counter)
    confusions: dict[str, Counter[str]] = field(
        default_factory=dict
    )  # word said -> word heard -> times
    shared: Counter[tuple[Class, Class]] = field(
        default_factory=Counter
    )  # words in two windows, by both classes
    both: Counter[tuple[Class, Class]] = field(
        default_factory=Counter
    )  # those of them that are wrong in both
    same: int = (
        0  # the same wrong word in both, of ``wrong_twice`` that are substituted twice
    )
    wrong_twice: int = 0
    turns: int = (
        0  # utterances in windows, of which ``moved`` were given to another speaker
    )
    moved: int = 0

    @property
    def correlation(self) -> float:
        """Of words that two windows have heard: from 0, errors are independent, to 1,
        as many in common as can be.
        """
        more = most = 0.0
        for (one, other), count in self.shared.items():
            first, second = self.rate(one), self.rate(other)
            more += self.both[one, other] - count * first * second
            most += count * (min(first, second) - first * second)
        return min(1.0, max(0.0, more / most)) if most > 0 else 0.0

    @property
    def same_for_a_reason(self) -> float:
        """The share of words wrong twice that are the same word, beyond what two
        independent substitutions give.
        """
        every = [
            (sum(heard.values()), heard.values()) for heard in self.confusions.values()
        ]
        pairs = sum(total * (total - 1) for total, _ in every)
        by_chance = sum(
            times * (times - 1) for _, heard in every for times in heard
        ) / max(1, pairs)
        found = self.same / max(1, self.wrong_twice)
        return max(0.0, (found - by_chance) / (1 - by_chance)) if by_chance < 1 else 0.0

    def rate(self, kind: Class) -> float:
        """Return the share of wrong words in a class, or in all where the class has too
        few.
        """
        if self.words[kind] < COMMON:
            return sum(self.wrong.values()) / max(1, sum(self.words.values()))
        return min(1.0, self.wrong[kind] / self.words[kind])


def count_errors_of_windows(grouped: Grouped, turns: Iterable[Segment]) -> Counts:
    """Compare what was heard in windows with what was said in them, the references with
    times.
    """
    counts = Counts()
    said = by_recording(turns)
    for recording, speakers in grouped.items():
        words = spoken_words(said.get(recording, []))
        outcomes: dict[Place, list[Outcome]] = {}
        windows = next(iter(speakers.values()), ())
        for number, window in enumerate(windows):
            inside = [word for word in words if word.inside(window.start, window.end)]
            heard = {speaker: own[number].words for speaker, own in speakers.items()}
            edges = (
                window.start if number else None,
                window.end if number + 1 < len(windows) else None,
            )
            for place, outcome in _window(counts, inside, heard, edges).items():
                outcomes.setdefault(place, []).append(outcome)
        for one, other, *_ in (found for found in outcomes.values() if len(found) > 1):
            counts.shared[one.kind, other.kind] += 1
            counts.both[one.kind, other.kind] += one.wrong and other.wrong
            if one.instead and other.instead:
                counts.wrong_twice += 1
                counts.same += one.instead == other.instead
    return counts


def _window(
    counts: Counts,
    inside: Sequence[SpokenWord],
    heard: Mapping[str, tuple[str, ...]],
    edges: Edges,
) -> dict[Place, Outcome]:
    """Count one window; return what became of each word."""
    given = _attributed(counts, inside, heard)
    outcomes: dict[Place, Outcome] = {}
    for speaker in dict.fromkeys((*heard, *given.values())):
        own = iter(word for word in inside if given[word.turn] == speaker)
        texts = [word.text for word in inside if given[word.turn] == speaker]
        extra = False  # an insertion belongs to the word after it
        for left, right in align(texts, list(heard.get(speaker, ()))):
            if left is None:
                counts.kinds["insertions"] += 1
                extra = True
                continue
            word = next(own)
            if left != right:
                counts.kinds["deletions" if right is None else "substitutions"] += 1
                if right is not None:
                    counts.confusions.setdefault(left, Counter())[right] += 1
            kind, wrong = (
                (word.overlapped, word.distance(edges)),
                left != right or extra,
            )
            counts.words[kind] += 1
            counts.wrong[kind] += wrong
            outcomes[word.turn, word.place] = Outcome(
                kind, wrong, right if left != right else None
            )
            extra = False
    return outcomes


def _attributed(
    counts: Counts, inside: Sequence[SpokenWord], heard: Mapping[str, tuple[str, ...]]
) -> dict[int, str]:
    """Return the speaker of each utterance: another one if its words are found there,
    and not with its own.
    """
    given: dict[int, str] = {}
    for turn in dict.fromkeys(word.turn for word in inside):
        own = [word for word in inside if word.turn == turn]
        texts = {word.text for word in own}
        found = {speaker: len(texts & set(words)) for speaker, words in heard.items()}
        best = max(found, key=lambda speaker: found[speaker], default=own[0].speaker)
        moved = (
            len(texts) > 1
            and not found.get(own[0].speaker)
            and found.get(best, 0) >= len(texts) / 2
        )
        given[turn] = best if moved else own[0].speaker
        counts.turns += 1
        counts.moved += moved
    return given


def simulated_errors(counts: Counts) -> SimulatedErrors:
    """Return the simulated errors that have the statistics of what was counted."""
    kinds = max(1, sum(counts.kinds.values()))
    confusions = {
        word: {other: times for other, times in heard.items() if times >= COMMON}
        for word, heard in counts.confusions.items()
    }
    return SimulatedErrors(
        rates={
            name: tuple(counts.rate((overlapped, distance)) for distance in DISTANCES)
            for overlapped, name in ((False, "alone"), (True, "overlapped"))
        },
        speaker=counts.moved / max(1, counts.turns),
        deletion=counts.kinds["deletions"] / kinds,
        insertion=counts.kinds["insertions"] / kinds,
        correlation=counts.correlation,
        same=counts.same_for_a_reason,
        confusions={word: heard for word, heard in confusions.items() if heard},
    )


def fit_errors(hypotheses: Path, references: Path, output: Path) -> None:
    """Fit simulated errors to a recogniser's hypotheses, with references in SegLST with
    times, and write JSON.
    """
    counts = count_errors_of_windows(
        read_grouped(hypotheses), read_segments(references)
    )
    errors = simulated_errors(counts)
    write_json(output, errors.model_dump())
    wrong, words = sum(counts.wrong.values()), sum(counts.words.values())
    say(
        f"{wrong} of {words} words in windows are wrong; correlation between "
        f"windows {errors.correlation:.2f}"
    )
