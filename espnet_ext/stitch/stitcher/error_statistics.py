"""How a recogniser errs in windows, counted and put into simulated errors.

It is counted on recordings whose words are known. Rates depend on the distance from a
window's edge; confusions, equal errors in two windows and wrong speakers count too.
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
    list_spoken_words,
)
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.window_hypotheses import Grouped, read_grouped
from espnet_ext.text.words import Segment, group_by_recording
from espnet_ext.work.files import write_json

COMMON = 3  # a confusion counts if it was heard so often
Place = tuple[int, int]  # a word of a recording: number of its turn, and in it
# of a word in a window: is it overlapped, and its distance from the window's edge
Class = tuple[bool, float]


class Outcome(NamedTuple):
    """What became of a word in a window.

    ``instead``: the other word that was heard in its place, if any.
    """

    kind: Class
    wrong: bool
    instead: str | None


@dataclass
class Counts:
    """Numbers of words and errors, in one window and in two that share words."""

    # words by class, and those of them that are wrong
    words: Counter[Class] = field(default_factory=Counter)
    wrong: Counter[Class] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    # word said -> word heard -> times
    confusions: dict[str, Counter[str]] = field(default_factory=dict)
    # words in two windows, by both classes, and those of them that are wrong in both
    shared: Counter[tuple[Class, Class]] = field(default_factory=Counter)
    both: Counter[tuple[Class, Class]] = field(default_factory=Counter)
    # words substituted in both of two windows, and those of them by the same word
    wrong_twice: int = 0
    same: int = 0
    # utterances in windows, and those of them that were given to another speaker
    turns: int = 0
    moved: int = 0

    @property
    def correlation(self) -> float:
        """How far errors in two windows go together, of words that both have heard.

        From 0, errors are independent, to 1, as many in common as can be. Of two
        events with probabilities p and q, that both happen exceeds p q by at most
        min(p, q) - p q; both sides are summed over the classes.
        """
        more = 0.0
        most = 0.0
        for (one, other), count in self.shared.items():
            first = self.find_rate(one)
            second = self.find_rate(other)
            more += self.both[one, other] - count * first * second
            most += count * (min(first, second) - first * second)
        # No word is in two windows, or none with rates between 0 and 1: nothing can go
        # together.
        if most <= 0:
            return 0.0
        return min(1.0, max(0.0, more / most))

    @property
    def same_for_a_reason(self) -> float:
        """The share of words wrong twice that are one word, beyond chance.

        Chance is what two independent substitutions of a word give: of all ordered
        pairs of what was heard in its place, the share of equal ones. What exceeds it
        is divided by what there is above chance (as Cohen's kappa does).
        """
        # Ordered pairs of two mishearings of a word, and those of them that are equal.
        pairs = 0
        equal = 0
        for heard in self.confusions.values():
            total = heard.total()
            pairs += total * (total - 1)
            equal += sum(times * (times - 1) for times in heard.values())
        by_chance = equal / max(1, pairs)
        if by_chance >= 1:
            return 0.0
        found = self.same / max(1, self.wrong_twice)
        # Below chance is chance: simulated errors know no words that avoid each other.
        return max(0.0, (found - by_chance) / (1 - by_chance))

    def find_rate(self, kind: Class) -> float:
        """Return the share of wrong words in a class, or in all if it has too few."""
        if self.words[kind] < COMMON:
            return self.wrong.total() / max(1, self.words.total())
        return min(1.0, self.wrong[kind] / self.words[kind])


def count_errors_of_windows(grouped: Grouped, turns: Iterable[Segment]) -> Counts:
    """Compare what was heard in windows with what was said in them.

    The references have times, in seconds.
    """
    counts = Counts()
    said = group_by_recording(turns)
    for recording, speakers in grouped.items():
        words = list_spoken_words(said.get(recording, []))
        outcomes: dict[Place, list[Outcome]] = {}
        windows = next(iter(speakers.values()), ())
        for number, window in enumerate(windows):
            inside = [
                word for word in words if word.lies_between(window.start, window.end)
            ]
            heard = {speaker: own[number].words for speaker, own in speakers.items()}
            # The recording's own start and end cut no word.
            is_last = number + 1 == len(windows)
            edges = (
                window.start if number else None,
                None if is_last else window.end,
            )
            for place, outcome in _count_window(counts, inside, heard, edges).items():
                outcomes.setdefault(place, []).append(outcome)
        for found in outcomes.values():
            # A word is in two windows at most, as they overlap by half at most.
            if len(found) > 1:
                _count_shared(counts, found[0], found[1])
    return counts


def _count_shared(counts: Counts, one: Outcome, other: Outcome) -> None:
    """Count a word that two windows have heard."""
    counts.shared[one.kind, other.kind] += 1
    counts.both[one.kind, other.kind] += one.wrong and other.wrong
    if one.instead and other.instead:
        counts.wrong_twice += 1
        counts.same += one.instead == other.instead


def _count_window(
    counts: Counts,
    inside: Sequence[SpokenWord],
    heard: Mapping[str, tuple[str, ...]],
    edges: Edges,
) -> dict[Place, Outcome]:
    """Count one window; return what became of each word."""
    given = _attribute_turns(counts, inside, heard)
    outcomes: dict[Place, Outcome] = {}
    # Also those who were not heard: all that they have said is deleted.
    speakers = dict.fromkeys([*heard, *given.values()])
    for speaker in speakers:
        own = [word for word in inside if given[word.turn] == speaker]
        left_words = iter(own)
        extra = False  # an insertion belongs to the word after it
        texts = [word.text for word in own]
        for left, right in align(texts, list(heard.get(speaker, ()))):
            if left is None:
                counts.kinds["insertions"] += 1
                extra = True
                continue
            word = next(left_words)
            instead = None
            if right is None:
                counts.kinds["deletions"] += 1
            elif left != right:
                instead = right
                counts.kinds["substitutions"] += 1
                counts.confusions.setdefault(left, Counter())[right] += 1
            kind = (word.overlapped, word.measure_distance(edges))
            wrong = left != right or extra
            counts.words[kind] += 1
            counts.wrong[kind] += wrong
            outcomes[word.turn, word.place] = Outcome(kind, wrong, instead)
            extra = False
    return outcomes


def _attribute_turns(
    counts: Counts, inside: Sequence[SpokenWord], heard: Mapping[str, tuple[str, ...]]
) -> dict[int, str]:
    """Return the speaker with whom each utterance was heard.

    The speaker is another one than its own if its words are found there, and none with
    its own. Otherwise a wrong speaker would count as many deletions and insertions.
    """
    given: dict[int, str] = {}
    for turn in dict.fromkeys(word.turn for word in inside):
        own = [word for word in inside if word.turn == turn]
        texts = {word.text for word in own}
        found = {speaker: len(texts & set(words)) for speaker, words in heard.items()}
        said_by = own[0].speaker
        best = max(found, key=lambda speaker: found[speaker], default=said_by)
        # One word alone is found with others by chance.
        moved = (
            len(texts) > 1
            and not found.get(said_by)
            and found.get(best, 0) >= len(texts) / 2
        )
        given[turn] = best if moved else said_by
        counts.turns += 1
        counts.moved += moved
    return given


def build_simulated_errors(counts: Counts) -> SimulatedErrors:
    """Return the simulated errors that have the statistics of what was counted."""
    kinds = max(1, counts.kinds.total())
    confusions: dict[str, dict[str, int]] = {}
    for word, heard in counts.confusions.items():
        common = {other: times for other, times in heard.items() if times >= COMMON}
        if common:
            confusions[word] = common
    rates = {}
    for name, overlapped in (("alone", False), ("overlapped", True)):
        classes = [(overlapped, distance) for distance in DISTANCES]
        rates[name] = tuple(counts.find_rate(each) for each in classes)
    return SimulatedErrors(
        rates=rates,
        speaker=counts.moved / max(1, counts.turns),
        deletion=counts.kinds["deletions"] / kinds,
        insertion=counts.kinds["insertions"] / kinds,
        correlation=counts.correlation,
        same=counts.same_for_a_reason,
        confusions=confusions,
    )


def fit_errors(hypotheses: Path, references: Path, output: Path) -> None:
    """Fit simulated errors to a recogniser's hypotheses, and write them as JSON.

    The references are SegLST with times.
    """
    counts = count_errors_of_windows(
        read_grouped(hypotheses), read_segments(references)
    )
    errors = build_simulated_errors(counts)
    write_json(output, errors.model_dump())
    say(
        f"{counts.wrong.total()} of {counts.words.total()} words in windows are "
        "wrong; correlation between "
        f"windows {errors.correlation:.2f}"
    )
