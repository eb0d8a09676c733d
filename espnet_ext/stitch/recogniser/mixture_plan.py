"""Plans of multi-talker mixtures: which utterances, and when each starts (P4, 4.1.1).

No audio is read here.

P4's sets use the utterances of a corpus about once: dev_clean's 54,402 words are 513 x
106, and 319 x 171. So a set is made in passes: utterances are dealt out to mixtures
until none is left, then again until there are enough mixtures.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from espnet_ext.errors import InputError, say
from espnet_ext.synthetic.overlap import (
    Part,
    SourceUtterance,
    draw_distances,
    place_utterances,
)
from espnet_ext.text.words import Segment, group_by_recording, measure_overlap_ratio
from espnet_ext.work.settings import (
    Count,
    Positive,
    Share,
    StrictMapping,
    Weight,
    Whole,
)

ON_THE_FLY = "on_the_fly"


@dataclass(frozen=True)
class Mixture:
    """A mixture: its utterances in the order of their starts."""

    name: str
    parts: tuple[Part, ...]

    @property
    def seconds(self) -> float:
        """The latest end of a part."""
        return max(part.end for part in self.parts)

    @property
    def turns(self) -> list[Segment]:
        """The reference."""
        return [
            Segment(
                self.name, part.source.speaker, part.source.words, part.start, part.end
            )
            for part in self.parts
        ]


class MixtureSettings(StrictMapping):
    """Set how mixtures are made.

    An utterance that would exceed ``longest`` waits for a later mixture, so that this
    one may have fewer than the fewest; one that is longer by itself is left out, and
    how many there are is printed.
    """

    utterances: tuple[Count, Count]  # the fewest and the most of a mixture
    speakers: Count  # the most of a mixture
    # wanted share of the speech time in which two or more people speak, below 1
    overlap: Share
    gap: Weight = 0.5  # seconds between two starts, at least
    # of mixtures; None: as many as one pass over the utterances gives
    count: Count | None = None
    seed: Whole = 0
    # seconds of speech in a mixture, at most; None: no limit
    longest: Positive | None = None
    # on_the_fly: mixed when it is read; False: only text
    audio: Literal[True, False, "on_the_fly"] = True

    @model_validator(mode="after")
    def _order_turns(self) -> Self:
        if self.utterances[0] > self.utterances[1]:
            raise ValueError(
                "utterances must be the fewest and the most, is "
                f"{list(self.utterances)}"
            )
        return self


def plan_mixtures(
    sources: Sequence[SourceUtterance], settings: MixtureSettings, *, prefix: str
) -> list[Mixture]:
    """Draw mixtures ``<prefix>-00000`` and so on.

    Mixtures are the same for the same sources, in any order, and settings.

    Within a pass no utterance is used twice. At its end, when the utterances that are
    left have few speakers or are too few, mixtures may be smaller than wanted. Raises
    InputError: no utterances, one without words or length, an id that comes twice, or
    only utterances that are longer than the longest mixture.
    """
    _check_sources(sources)
    if settings.longest is not None:
        fitting = [source for source in sources if source.seconds <= settings.longest]
        if len(fitting) < len(sources):
            left_out = len(sources) - len(fitting)
            say(
                f"{left_out} of {len(sources)} utterances last over "
                f"{settings.longest:g} s: left out"
            )
        sources = fitting
        if not sources:
            raise InputError(
                "each utterance is longer than the longest mixture, "
                f"{settings.longest} s: raise longest"
            )
    rng = np.random.default_rng(settings.seed)
    mixtures: list[Mixture] = []
    # Without a number, one pass: after it there is at least one mixture.
    wanted = settings.count or 1
    while len(mixtures) < wanted:
        for chosen in _deal(sources, settings, rng):
            if len(mixtures) == settings.count:
                break
            distances = draw_distances(len(chosen), rng)
            starts = place_utterances(chosen, distances, settings.overlap, settings.gap)
            name = f"{prefix}-{len(mixtures):05d}"
            mixtures.append(Mixture(name, tuple(map(Part, chosen, starts))))
    return mixtures


def _check_sources(sources: Sequence[SourceUtterance]) -> None:
    """Raise an InputError for utterances that cannot be mixed."""
    if not sources:
        raise InputError("there are no utterances to mix: check the data dirs")
    seen: set[str] = set()
    for source in sources:
        if source.id in seen:
            raise InputError(f"utterance {source.id} appears twice: keep one of them")
        seen.add(source.id)
        if not source.words or not source.seconds > 0:
            raise InputError(
                f"utterance {source.id} has no words or no length: leave it out"
            )


def _deal(
    sources: Sequence[SourceUtterance],
    settings: MixtureSettings,
    rng: np.random.Generator,
) -> Iterator[list[SourceUtterance]]:
    """Deal out every utterance once, in groups of the wanted size.

    In a group they are in the order in which they are to be spoken.
    """
    left: dict[str, list[SourceUtterance]] = {}
    # Sorted, so that the order of the data dirs does not matter to what is drawn.
    for source in sorted(sources, key=lambda source: source.id):
        left.setdefault(source.speaker, []).append(source)
    names = sorted(left)
    for name in names:
        rng.shuffle(left[name])
    counts = np.array([len(left[name]) for name in names])  # utterances not dealt out
    while counts.any():
        group: list[SourceUtterance] = []
        seconds = 0.0
        for index in _draw_turns(counts, settings, rng):
            utterance = left[names[index]][-1]
            # Their sum, as if none overlapped: how much they do is not known before
            # they are placed, and the mixture can only be shorter.
            seconds += utterance.seconds
            # It stays, and those after it: they are dealt out to a later mixture.
            if group and seconds > (settings.longest or math.inf):
                break
            group.append(left[names[index]].pop())
            counts[index] -= 1
        yield group


def _draw_turns(
    counts: np.ndarray, settings: MixtureSettings, rng: np.random.Generator
) -> list[int]:
    """Draw who speaks in a mixture, turn by turn, as indices of speakers.

    ``counts``: how many utterances each has left, (speakers,). Those who have more left
    are drawn more often, so that all are used up at about the same time and the last
    mixtures of a pass still have several speakers.
    """
    fewest_turns, most_turns = settings.utterances
    size = int(rng.integers(fewest_turns, most_turns + 1))
    # No more speakers than turns, nor than there are with utterances left.
    most = min(settings.speakers, size, int(np.count_nonzero(counts)))
    number = int(rng.integers(1, most + 1))
    weights = counts / counts.sum()
    speakers = rng.choice(len(counts), number, replace=False, p=weights)
    turns = list(speakers)  # each has a turn at least
    while len(turns) < size:
        # `counts` falls only when the turns are dealt out.
        able = [index for index in speakers if counts[index] > turns.count(index)]
        if not able:
            break
        turns.append(rng.choice(able))
    rng.shuffle(turns)
    return turns


@dataclass(frozen=True)
class SetCounts:
    """The size of a set of mixtures as in P4's Table 1, and the mean overlap.

    ``UNITS`` holds the units.
    """

    samples: int
    mean_words: float
    mean_seconds: float
    hours: float
    overlap: float


UNITS = {
    "samples": "mixtures",
    "mean_words": "words",
    "mean_seconds": "s",
    "hours": "h",
    "overlap": "%",
}


def count_turns(turns: Iterable[Segment]) -> SetCounts:
    """Count a set by its references.

    Means are per recording, which ends with its last turn; hours are in total.
    """
    recordings = group_by_recording(turns)
    # Only references are read: what a recording holds after its last turn is silence.
    spans = [[turn.span for turn in spoken] for spoken in recordings.values()]
    seconds = 0.0
    overlap = 0.0
    for each in spans:
        seconds += max(end for _, end in each)
        overlap += measure_overlap_ratio(each)
    words = 0
    for spoken in recordings.values():
        words += sum(len(turn.words) for turn in spoken)
    return SetCounts(
        samples=len(recordings),
        mean_words=words / len(recordings),
        mean_seconds=seconds / len(recordings),
        hours=seconds / 3600,
        overlap=100 * overlap / len(recordings),
    )
