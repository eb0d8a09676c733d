"""Plans of multi-talker mixtures: which utterances, and when each starts (P4, 4.1.1). No audio is read here.

P4's sets use the utterances of a corpus about once: dev_clean's 54,402 words are 513 x 106, and 319 x 171. So a set is
made in passes: utterances are dealt out to mixtures until none is left, then again until there are enough mixtures.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import partial
from itertools import batched, chain
from typing import Any, NamedTuple

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.text.turns import Turn, by_recording
from espnet_ext.work.parallel import map_shards

ON_THE_FLY = "on_the_fly"
_BISECTIONS = 30
_MIXTURES_OF_A_SHARD = 500


@dataclass(frozen=True)
class SourceUtterance:
    """An utterance to mix: one speaker, one audio file, its length in seconds and its words."""

    id: str
    speaker: str
    path: str
    seconds: float
    words: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """An utterance in a mixture; ``start`` in seconds."""

    source: SourceUtterance
    start: float

    @property
    def end(self) -> float:
        return self.start + self.source.seconds


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
    def words(self) -> int:
        return sum(len(part.source.words) for part in self.parts)

    @property
    def overlap(self) -> float:
        """Share of the speech time in which two or more people speak."""
        return overlap_ratio([(part.start, part.end) for part in self.parts])

    @property
    def turns(self) -> list[Turn]:
        """The reference."""
        return [Turn(self.name, part.source.speaker, part.source.words, part.start, part.end) for part in self.parts]


@dataclass(frozen=True)
class MixtureSettings:
    """How a set of mixtures is made.

    Attributes:
        utterances: the fewest and the most utterances of a mixture.
        speakers: the most speakers of a mixture.
        overlap: the wanted share of the speech time in which two or more people speak, below 1.
        gap: the shortest time between two starts, in seconds.
        count: number of mixtures; None: as many as one pass over the utterances gives.
        seed: seed of all random choices.
        longest: the most seconds of speech in a mixture; None: no limit. An utterance that would exceed it waits for a
            later mixture, so that this one may have fewer than the fewest ``utterances``; one that is longer by itself
            is left out, and how many there are is printed.
        audio: whether audio is written; without it a set has only its references and text. ``on_the_fly``: it is mixed
            whenever it is read, and only recipes for it are written.

    Raises:
        InputError: a number that makes no sense.
    """

    utterances: tuple[int, int]
    speakers: int
    overlap: float
    gap: float = 0.5
    count: int | None = None
    seed: int = 0
    longest: float | None = None
    audio: bool | str = True

    @classmethod
    def from_mapping(cls, name: str, options: Mapping[str, Any]) -> "MixtureSettings":
        """The settings of a set from a config.

        Args:
            name: of the set, for the messages.
            options: the attributes by name; ``utterances`` is a list of the fewest and the most.

        Raises:
            InputError: an unknown or a missing option, or a value that makes no sense.
        """
        known = {field.name: field.default is MISSING for field in fields(cls)}
        unknown = sorted(set(options) - set(known))
        missing = [option for option, needed in known.items() if needed and option not in options]
        if unknown or missing:
            what = f"{unknown[0]} is unknown" if unknown else f"{missing[0]} is missing"
            raise InputError(f"mixtures {name}: {what}: the options are {', '.join(known)}")
        span = options["utterances"]
        if not isinstance(span, Sequence) or len(span) != 2 or not all(isinstance(number, int) for number in span):
            raise InputError(f"mixtures {name}: utterances is {span}: give the fewest and the most, such as [3, 8]")
        return cls(**{**options, "utterances": (span[0], span[1])})

    def __post_init__(self) -> None:
        least, most = self.utterances
        faults = {
            f"{least} to {most} utterances per mixture": not 1 <= least <= most,
            f"at most {self.speakers} speakers per mixture": self.speakers < 1,
            f"an overlap of {self.overlap} (a share of the speech time, below 1)": not 0 <= self.overlap < 1,
            f"{self.gap} s between starts": not 0 <= self.gap < float("inf"),
            f"audio: {self.audio} (true, false or {ON_THE_FLY})": self.audio not in (True, False, ON_THE_FLY),
            f"at most {self.longest} s of speech": self.longest is not None and not self.longest > 0,
            f"{self.count} mixtures": self.count is not None and self.count < 1,
        }
        for what, found in faults.items():
            if found:
                raise InputError(f"mixtures cannot be made with {what}: choose another number")


def plan_mixtures(
    sources: Sequence[SourceUtterance], settings: MixtureSettings, *, prefix: str, nj: int = 1
) -> list[Mixture]:
    """Draw mixtures. The same sources and settings give the same mixtures, whatever the order of ``sources``.

    Within a pass no utterance is used twice. At its end, when the utterances that are left have few speakers or are
    too few, mixtures may be smaller than wanted.

    Args:
        prefix: the mixtures are called ``<prefix>-00000`` and so on.
        nj: processes. What is drawn is drawn in one; what takes time, finding the wanted overlap, is shared out.

    Raises:
        InputError: no utterances, one without words or length, an id that comes twice, or only utterances that are
            longer than the longest mixture.
    """
    _check_sources(sources)
    if settings.longest is not None:
        fitting = [source for source in sources if source.seconds <= settings.longest]
        if len(fitting) < len(sources):
            print(
                f"{len(sources) - len(fitting)} of {len(sources)} utterances last over {settings.longest:g} s: left out"
            )
        sources = fitting
        if not sources:
            raise InputError(f"each utterance is longer than the longest mixture, {settings.longest} s: raise longest")
    rng = np.random.default_rng(settings.seed)
    drawn: list[Drawn] = []
    while not drawn or (settings.count is not None and len(drawn) < settings.count):
        for chosen in _deal(sources, settings, rng):
            if len(drawn) == settings.count:
                break
            drawn.append(Drawn(tuple(chosen), draw_distances(len(chosen), rng)))
    work = partial(place_all, settings=settings)
    shards = [list(part) for part in batched(drawn, _MIXTURES_OF_A_SHARD)]
    placed = map_shards(work, shards, nj=nj, describe="plans") if nj > 1 and len(shards) > 1 else map(work, shards)
    return [
        Mixture(f"{prefix}-{number:05d}", tuple(map(Part, each.sources, starts)))
        for number, (each, starts) in enumerate(zip(drawn, chain.from_iterable(placed), strict=True))
    ]


def draw_distances(count: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Random distances between the starts of utterances, which :func:`place` scales."""
    return tuple(rng.uniform(0.1, 1.0, count).tolist())


class Drawn(NamedTuple):
    """The utterances of a mixture, and the random distances between their starts, which are still to be scaled."""

    sources: tuple[SourceUtterance, ...]
    distances: tuple[float, ...]


def place_all(drawn: Sequence[Drawn], settings: MixtureSettings) -> list[list[float]]:
    """The starts of the utterances of some mixtures (in a worker process)."""
    return [place(each.sources, each.distances, settings) for each in drawn]


def _check_sources(sources: Sequence[SourceUtterance]) -> None:
    if not sources:
        raise InputError("there are no utterances to mix: check the data dirs")
    seen: set[str] = set()
    for source in sources:
        if source.id in seen:
            raise InputError(f"utterance {source.id} appears twice: keep one of them")
        seen.add(source.id)
        if not source.words or not source.seconds > 0:
            raise InputError(f"utterance {source.id} has no words or no length: leave it out")


def _deal(
    sources: Sequence[SourceUtterance], settings: MixtureSettings, rng: np.random.Generator
) -> Iterator[list[SourceUtterance]]:
    """One pass: every utterance once, in groups of the wanted size, in the order in which they are to be spoken."""
    left: dict[str, list[SourceUtterance]] = {}
    for source in sorted(sources, key=lambda source: source.id):
        left.setdefault(source.speaker, []).append(source)
    names = sorted(left)
    for name in names:
        rng.shuffle(left[name])
    counts = np.array([len(left[name]) for name in names])
    while counts.any():
        size = int(rng.integers(settings.utterances[0], settings.utterances[1] + 1))
        most = min(settings.speakers, size, int(np.count_nonzero(counts)))
        speakers = rng.choice(len(names), int(rng.integers(1, most + 1)), replace=False, p=counts / counts.sum())
        turns = list(speakers)
        while len(turns) < size:
            open_to = [index for index in speakers if counts[index] > turns.count(index)]
            if not open_to:
                break
            turns.append(rng.choice(open_to))
        rng.shuffle(turns)
        group: list[SourceUtterance] = []
        for index in turns:
            seconds = sum(source.seconds for source in (*group, left[names[index]][-1]))
            if group and seconds > (settings.longest or math.inf):
                break
            group.append(left[names[index]].pop())
            counts[index] -= 1
        yield group


def place(sources: Sequence[SourceUtterance], distances: Sequence[float], settings: MixtureSettings) -> list[float]:
    """The starts in seconds of utterances that follow each other with the wanted overlap.

    Each utterance begins at a random distance before the end of the one before it. All distances are scaled by one
    factor until the share of overlapped speech is the wanted one, or the nearest that keeps the gap between starts and
    in which nobody speaks over themselves.
    """

    def starts(scale: float) -> list[float]:
        begun: list[float] = []
        ends: dict[str, float] = {}
        for index, source in enumerate(sources):
            before = sources[index - 1].seconds if index else 0.0
            start = begun[-1] + before - scale * distances[index] * before if index else 0.0
            earliest = max(begun[-1] + settings.gap if index else 0.0, ends.get(source.speaker, 0.0))
            begun.append(round(max(start, earliest), 3))
            ends[source.speaker] = begun[-1] + source.seconds
        return begun

    def ratio(scale: float) -> float:
        return overlap_ratio([(begin, begin + s.seconds) for begin, s in zip(starts(scale), sources, strict=True)])

    low, high = 0.0, 1.0 / min(distances)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if ratio(middle) < settings.overlap else (low, middle)
    return starts(high if settings.overlap else 0.0)


def overlap_ratio(spans: Iterable[tuple[float, float]]) -> float:
    """The time that two or more spans cover, divided by the time that any span covers.

    >>> overlap_ratio([(0.0, 4.0), (3.0, 6.0), (10.0, 12.0)])
    0.125
    """
    events = sorted((time, step) for start, end in spans for time, step in ((start, 1), (end, -1)))
    speech = overlapped = last = 0.0
    active = 0
    for time, step in events:
        speech += (time - last) * (active > 0)
        overlapped += (time - last) * (active > 1)
        active, last = active + step, time
    return overlapped / speech if speech else 0.0


@dataclass(frozen=True)
class SetCounts:
    """The size of a set of mixtures as in P4's Table 1, and the mean overlap; ``UNITS`` holds the units."""

    samples: int
    mean_words: float
    mean_seconds: float
    hours: float
    overlap: float


UNITS = {"samples": "mixtures", "mean_words": "words", "mean_seconds": "s", "hours": "h", "overlap": "%"}


def count_set(mixtures: Sequence[Mixture]) -> SetCounts:
    """Count a set of mixtures: means per mixture, and hours in total."""
    return count_turns([turn for mixture in mixtures for turn in mixture.turns])


def count_turns(turns: Iterable[Turn]) -> SetCounts:
    """Count a set by its references; a recording ends with its last turn.

    Raises:
        InputError: a turn without times.
    """
    recordings = by_recording(turns)
    spans = [[turn.span for turn in spoken] for spoken in recordings.values()]
    seconds = sum(max(end for _, end in each) for each in spans)
    return SetCounts(
        samples=len(recordings),
        mean_words=sum(len(turn.words) for spoken in recordings.values() for turn in spoken) / len(recordings),
        mean_seconds=seconds / len(recordings),
        hours=seconds / 3600,
        overlap=100 * sum(map(overlap_ratio, spans)) / len(recordings),
    )


def counts_line(name: str, counts: SetCounts) -> str:
    """A set's counts in a sentence."""
    return (
        f"{name}: {counts.samples:,} mixtures of {counts.mean_words:.0f} words and {counts.mean_seconds:.1f} s each "
        f"({counts.hours:.1f} h in all), overlap {counts.overlap:.1f} %"
    )
