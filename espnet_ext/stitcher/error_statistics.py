"""How a recogniser errs in windows: counted on recordings whose words are known, and put into simulated errors.

A stitcher that learns from simulated windows must see errors like the recogniser's: as many at each distance from a
window's edge, the same confusions, as often the same error in two windows, as often the wrong speaker.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from espnet_ext.multitalker.heard.hypotheses import Grouped, group_by_speaker
from espnet_ext.multitalker.heard.importers import read_grouped
from espnet_ext.scoring.error_rate import align
from espnet_ext.stitcher.note import windowing_of
from espnet_ext.stitcher.simulated_errors import (
    DISTANCES,
    SimulatedErrors,
    SpokenWord,
    simulate_recordings,
    spoken_words,
    write_errors,
)
from espnet_ext.text.transcript import SPEAKER
from espnet_ext.text.turns import Turn, by_recording, read_turns

COMMON = 3  # a confusion counts if it was heard so often
Place = tuple[int, int]  # a word of a recording: number of its turn, and in it


class Outcome(NamedTuple):
    """What became of a word in a window: its class in :class:`Counts`, is it wrong, and what was heard in its place."""

    kind: tuple[bool, float]
    wrong: bool
    heard: str | None


@dataclass
class Counts:
    """What was counted.

    Attributes:
        words, wrong: by overlap with other speakers (False, True) and distance from the window's edge.
        kinds: substitutions, deletions and insertions.
        confusions: word said -> word heard -> times.
        shared, both: words that two windows have heard, and those wrong in both, by their classes in the two.
        same: the same wrong word in both, of ``wrong_twice`` that are substituted twice.
        turns, moved: utterances in windows, and those that were given to another speaker.
    """

    words: Counter = field(default_factory=Counter)
    wrong: Counter = field(default_factory=Counter)
    kinds: Counter = field(default_factory=Counter)
    confusions: dict[str, Counter] = field(default_factory=dict)
    shared: Counter = field(default_factory=Counter)
    both: Counter = field(default_factory=Counter)
    same: int = 0
    wrong_twice: int = 0
    turns: int = 0
    moved: int = 0

    @property
    def correlation(self) -> float:
        """Of words that two windows have heard: from 0, errors are independent, to 1, as many in common as can be."""
        more = most = 0.0
        for (one, other), count in self.shared.items():
            first, second = self.rate(*one), self.rate(*other)
            more += self.both[one, other] - count * first * second
            most += count * (min(first, second) - first * second)
        return min(1.0, max(0.0, more / most)) if most > 0 else 0.0

    @property
    def coincidence(self) -> float:
        """How often two independent substitutions of a word are the same word."""
        every = [(sum(heard.values()), heard.values()) for heard in self.confusions.values()]
        pairs = sum(total * (total - 1) for total, _ in every)
        return sum(times * (times - 1) for _, heard in every for times in heard) / max(1, pairs)

    def rate(self, overlapped: bool, distance: float) -> float:
        """The share of wrong words, of those at a distance that have any; else of all."""
        key = (overlapped, distance)
        if self.words[key] < COMMON:
            return sum(self.wrong.values()) / max(1, sum(self.words.values()))
        return min(1.0, self.wrong[key] / self.words[key])

    def lines(self) -> dict[str, float]:
        """What is compared between a recogniser and its simulation, in percent."""
        words, kinds = max(1, sum(self.words.values())), max(1, sum(self.kinds.values()))
        found = {"wrong words": sum(self.wrong.values()) / words}
        for distance in DISTANCES:
            count = sum(self.words[overlapped, distance] for overlapped in (False, True))
            wrong = sum(self.wrong[overlapped, distance] for overlapped in (False, True))
            found[f"up to {distance:g} s from an edge"] = wrong / max(1, count)
        for overlapped, name in ((False, "one voice"), (True, "voices at once")):
            count = sum(self.words[overlapped, distance] for distance in DISTANCES)
            found[name] = sum(self.wrong[overlapped, distance] for distance in DISTANCES) / max(1, count)
        found |= {f"{kind} of the errors": self.kinds[kind] / kinds for kind in ("deletions", "insertions")}
        found["correlation between windows"] = self.correlation
        found["same word, of those wrong twice"] = self.same / max(1, self.wrong_twice)
        found["utterances of a wrong speaker"] = self.moved / max(1, self.turns)
        return {name: round(100 * value, 1) for name, value in found.items()}


def count_errors_of_windows(grouped: Grouped, turns: Iterable[Turn]) -> Counts:
    """Compare what was heard in windows with what was said in them.

    Args:
        grouped: the hypotheses.
        turns: the references, with times.
    """
    counts = Counts()
    said = by_recording(turns)
    for recording, speakers in grouped.items():
        words = spoken_words(said.get(recording, []))
        outcomes: dict[Place, list[Outcome]] = {}
        windows = next(iter(speakers.values()), ())
        for number, window in enumerate(windows):
            inside = [word for word in words if window.start <= word.middle < window.end]
            heard = {speaker: own[number].words for speaker, own in speakers.items()}
            edges = (window.start if number else None, window.end if number + 1 < len(windows) else None)
            for place, outcome in _window(counts, inside, heard, edges).items():
                outcomes.setdefault(place, []).append(outcome)
        for found in outcomes.values():
            if len(found) > 1:
                _count_shared(counts, found[0], found[1])
    return counts


def _count_shared(counts: Counts, one: Outcome, other: Outcome) -> None:
    classes = (one.kind, other.kind)
    counts.shared[classes] += 1
    counts.both[classes] += one.wrong and other.wrong
    if one.heard and other.heard:
        counts.wrong_twice += 1
        counts.same += one.heard == other.heard


def _window(
    counts: Counts,
    inside: Sequence[SpokenWord],
    heard: Mapping[str, tuple[str, ...]],
    edges: tuple[float | None, float | None],
) -> dict[Place, Outcome]:
    """Count one window, and say of each word what became of it."""
    given = _attributed(counts, inside, heard)
    outcomes: dict[Place, Outcome] = {}
    for speaker in {*heard, *given.values()}:
        own = [word for word in inside if given[word.turn] == speaker]
        place = 0
        extra = False  # an insertion belongs to the word after it
        for left, right in align([word.text for word in own], list(heard.get(speaker, ()))):
            if left is None:
                counts.kinds["insertions"] += 1
                extra = True
                continue
            word = own[place]
            place += 1
            wrong = left != right or extra
            if left != right:
                counts.kinds["deletions" if right is None else "substitutions"] += 1
                if right is not None:
                    counts.confusions.setdefault(left, Counter())[right] += 1
            key = (word.overlapped, word.bin(edges))
            counts.words[key] += 1
            counts.wrong[key] += wrong
            outcomes[word.turn, word.place] = Outcome(key, wrong, right if left != right else None)
            extra = False
    return outcomes


def _attributed(counts: Counts, inside: Sequence[SpokenWord], heard: Mapping[str, tuple[str, ...]]) -> dict[int, str]:
    """The speaker to whom each utterance was given: another one if its words are found there, and not with its own."""
    given: dict[int, str] = {}
    for turn in dict.fromkeys(word.turn for word in inside):
        own = [word for word in inside if word.turn == turn]
        texts = {word.text for word in own}
        found = {speaker: len(texts & set(words)) for speaker, words in heard.items()}
        best = max(found, key=lambda speaker: found[speaker], default=own[0].speaker)
        moved = len(texts) > 1 and not found.get(own[0].speaker) and found.get(best, 0) >= len(texts) / 2
        given[turn] = best if moved else own[0].speaker
        counts.turns += 1
        counts.moved += moved
    return given


def fit_errors(counts: Counts) -> SimulatedErrors:
    """Simulated errors with what was counted."""
    kinds = max(1, sum(counts.kinds.values()))
    confusions = {
        word: {other: times for other, times in heard.items() if times >= COMMON}
        for word, heard in counts.confusions.items()
    }
    return SimulatedErrors(
        rates={
            name: tuple(counts.rate(overlapped, distance) for distance in DISTANCES)
            for overlapped, name in ((False, "alone"), (True, "overlapped"))
        },
        speaker=counts.moved / max(1, counts.turns),
        deletion=counts.kinds["deletions"] / kinds,
        insertion=counts.kinds["insertions"] / kinds,
        correlation=counts.correlation,
        same=_same(counts),
        confusions={word: heard for word, heard in confusions.items() if heard},
    )


def _same(counts: Counts) -> float:
    """The share of words wrong twice that are the same word for a reason, not by coincidence."""
    by_chance = counts.coincidence
    found = counts.same / max(1, counts.wrong_twice)
    return max(0.0, (found - by_chance) / (1 - by_chance)) if by_chance < 1 else 0.0


def fit_and_check(
    hypotheses: Path,
    references: Path,
    output: Path,
    segments: Path | None = None,
    speaker: str = SPEAKER,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Fit simulated errors to a recogniser, write them, simulate the same recordings, and print both statistics.

    Args:
        hypotheses: of the recogniser, in a format of :mod:`espnet_ext.multitalker.heard.importers`.
        references: SegLST, with times.
        output: the JSON file to write, for :func:`espnet_ext.stitcher.simulated_errors.simulate_hypotheses`.
        segments, speaker: see :func:`espnet_ext.multitalker.heard.importers.read_grouped`.
        seed: of the simulation.

    Returns:
        Statistic -> percent of the recogniser, and of its simulation.
    """
    turns, grouped = read_turns(references), read_grouped(hypotheses, segments, speaker=speaker)
    counts = count_errors_of_windows(grouped, turns)
    errors = fit_errors(counts)
    windowing = windowing_of(grouped)
    real, simulated = counts.lines(), {}
    if windowing:
        again = group_by_speaker(simulate_recordings(turns, windowing, errors, seed))
        simulated = count_errors_of_windows(again, turns).lines()
    both = {name: (value, simulated.get(name, float("nan"))) for name, value in real.items()}
    print(f"{'percent':36} recogniser  simulated")
    for name, (one, other) in both.items():
        print(f"{name:36} {one:10.1f} {other:10.1f}")
    write_errors(output, errors, both)
    return both
