"""Cut recordings into training batches of consecutive chunks.

Sequences start short, and their length is doubled now and then. The formula as P5
prints it (section 2.3), min(s_0 + s_0 * 2 ** floor(r / n), s_m), would start at twice
s_0. The text is followed: "a minimum sequence length s_0 that is used at the start of
training, which is then doubled". Batches are a pure function of durations, schedule and
seed: an interrupted training walks through the plan to its next batch.
"""

import math
import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from espnet_ext.errors import InputError
from espnet_ext.text.word_times import SHORTEST
from espnet_ext.upstream.option_faults import make_checked


class Chunk(NamedTuple):
    """A part of a recording, from ``start`` to ``end`` in seconds."""

    recording: str
    start: float
    end: float


@dataclass(frozen=True)
class Schedule:
    """Sequence lengths, and audio per batch, in seconds.

    Numbers out of range are refused. A batch has ``batch_seconds`` of audio, whatever
    the length of its sequences (P5, section 3.3: one hour). ``max_seconds`` is s_m, the
    context of the model, and ``initial_seconds`` s_0; the length is doubled after
    ``double_every`` recordings, n (0: no warm-up). ``whole_first`` fills batches with
    whole sequences, as the authors' code does: none of the full length is cut if a rest
    of a recording can fill the batch.
    """

    batch_seconds: float = 3600.0
    max_seconds: float = 3600.0
    initial_seconds: float = 5.0
    double_every: int = 5000
    whole_first: bool = True

    def __post_init__(self) -> None:
        lengths = (self.batch_seconds, self.max_seconds, self.initial_seconds)
        if not all(length >= SHORTEST for length in lengths) or self.double_every < 0:
            raise InputError(
                f"chunks: lengths must be at least {SHORTEST} s and double_every "
                f"at least 0: {self}"
            )
        if self.max_seconds > self.batch_seconds:
            raise InputError(
                f"chunks: {self.max_seconds:g} s do not fit into a batch of "
                f"{self.batch_seconds:g} s"
            )

    def find_length(self, recordings: int) -> float:
        """Return the sequence length in seconds after some recordings (P5, 2.3)."""
        if not self.double_every:
            return self.max_seconds
        # The text's formula, s_0 * 2 ** floor(r / n), see the module's docstring. The
        # exponent is bounded: 2 ** (10 ** 6) is too large for a float.
        doublings = min(recordings // self.double_every, 64)
        doubled = self.initial_seconds * 2**doublings
        return min(doubled, self.max_seconds)

    @property
    def warmup_recordings(self) -> int:
        """Return the number of recordings before sequences have the maximum length."""
        factor = self.max_seconds / self.initial_seconds
        doublings = max(0, math.ceil(math.log2(factor)))
        return doublings * self.double_every

    def count_sequences(self, length: float) -> int:
        """Return how many sequences of ``length`` seconds fill a batch.

        The last one may be cut.
        """
        return math.ceil(self.batch_seconds / length)


def cut_batches(
    durations: Mapping[str, float],
    schedule: Schedule,
    *,
    passes: int = 1,
    seed: int | None = None,
) -> Iterator[list[Chunk]]:
    """Yield all batches of a training, each of ``batch_seconds`` of audio.

    So much, whatever the length of its sequences. A batch takes the next chunk of one
    open recording after the other until its seconds are full. The last chunk is cut
    where they are, and its recording goes on from there later; with ``whole_first``, it
    is a whole one that fits, otherwise cut from the rest of a recording beyond its full
    sequences. So all contexts get equally many updates of equally much audio (P5,
    section 3.3). Only the last batch holds less.

    At least as many recordings are open as a batch has full sequences, and the next is
    opened when all have given a chunk. The length depends on the number of recordings
    opened so far, in all passes. The order differs in each pass, by ``seed``; None:
    that of ``durations``, recording -> seconds.
    """
    _require_recordings(durations)
    cutter = _Cutter(durations, schedule, _order_recordings(durations, passes, seed))
    while cutter.waiting or cutter.opened:
        yield cutter.next_batch()


class _Cutter:
    """Cuts recordings into the chunks of one batch after the other.

    ``waiting`` are recordings that were not opened; ``opened`` are those with audio
    left, as name and the second at which that begins. They give chunks in this order:
    one that has given a chunk to the batch goes to the end, a new one to the front. So
    the first ``untouched`` have given none to this batch.
    """

    def __init__(
        self,
        durations: Mapping[str, float],
        schedule: Schedule,
        order: Iterable[str],
    ):
        self.durations = durations
        self.schedule = schedule
        self.waiting = deque(order)
        self.opened: deque[tuple[str, float]] = deque()
        self.seen = 0  # recordings opened so far
        self.untouched = 0

    def next_batch(self) -> list[Chunk]:
        """Return chunks of ``batch_seconds`` together, less only in the last batch."""
        self._open_enough()
        # That of the one opened last: all sequences of a batch have one length.
        length = self.schedule.find_length(self.seen - 1)
        self.untouched = len(self.opened)
        may_open_to_fit = self.schedule.whole_first  # once in a batch
        batch: list[Chunk] = []
        room = self.schedule.batch_seconds
        # Less room than the shortest chunk stays empty.
        while room >= SHORTEST and (self.opened or self.waiting):
            # All open ones have given a chunk: a new recording gives the next one, so
            # that none has two sequences in a batch while others wait.
            if self.waiting and self.untouched <= 0:
                self._open_first()
            choice = self._choose_next(length, room)
            if choice is None and may_open_to_fit and self.waiting:
                # What fits may be in one more recording: as if all had given a chunk.
                may_open_to_fit = False
                self.untouched = 0
                continue
            # A whole sequence is cut after all: a batch is never left half empty.
            if choice is None:
                choice = (0, min(length, room))
            place, seconds = choice
            chunk = self._take(place, seconds)
            batch.append(chunk)
            room -= chunk.end - chunk.start
        return batch

    def _open_enough(self) -> None:
        """Open as many recordings as a batch has full sequences, at least."""
        while self.waiting:
            length = self.schedule.find_length(self.seen)
            if len(self.opened) >= self.schedule.count_sequences(length):
                return
            self.opened.append((self.waiting.popleft(), 0.0))
            self.seen += 1

    def _open_first(self) -> None:
        """Open a recording that gives the next chunk."""
        self.opened.appendleft((self.waiting.popleft(), 0.0))
        self.seen += 1
        self.untouched = 1

    def _choose_next(self, length: float, room: float) -> tuple[int, float] | None:
        """Return which of ``opened`` gives the next chunk, and how many seconds.

        None: ``whole_first`` asks for a whole chunk, and none fits without a loss.
        """
        lefts = [self.durations[name] - start for name, start in self.opened]
        first_fits = min(lefts[0], length) <= room
        if first_fits or not self.schedule.whole_first:
            return 0, min(length, room)
        # One that has given a chunk is taken only if all have.
        if self.untouched > 0:
            lefts = lefts[: self.untouched]
        return _choose_fitting(lefts, length, room)

    def _take(self, place: int, seconds: float) -> Chunk:
        """Cut a chunk of the recording at a place in ``opened``."""
        recording, start = self.opened[place]
        del self.opened[place]
        duration = self.durations[recording]
        end = min(start + seconds, duration)
        self.untouched -= 1
        # A shorter rest is no chunk. A longer one waits at the end: recordings take
        # turns, so that neighbours in a batch are of different ones.
        if duration - end >= SHORTEST:
            self.opened.append((recording, end))
        return Chunk(recording, start, end)


def _choose_fitting(
    lefts: Iterable[float], length: float, room: float
) -> tuple[int, float] | None:
    """Return which recording gives the next chunk, and its seconds.

    ``lefts`` is what is left of each. A whole chunk that fits comes first; otherwise a
    part of a rest beyond a recording's full sequences, whose number that does not
    lower; None: there is no such rest either.

    >>> _choose_fitting([50, 20], length=30, room=25)
    (1, 20)
    >>> _choose_fitting([50, 70], length=30, room=15)
    (0, 15)
    >>> _choose_fitting([60], length=30, room=15)
    """
    of_rest = None
    for place, left in enumerate(lefts):
        whole = min(left, length)
        if whole <= room:
            return place, whole
        rest = left % length
        if of_rest is None and rest >= SHORTEST:
            of_rest = place, min(rest, room)
    return of_rest


def _require_recordings(durations: Mapping[str, float]) -> None:
    if not durations:
        raise InputError("chunks: there are no recordings to cut")
    for recording, seconds in durations.items():
        if not seconds >= SHORTEST:
            raise InputError(
                f"recording {recording} lasts {seconds:g} s, less than {SHORTEST} "
                "s: drop it"
            )


def _order_recordings(
    durations: Mapping[str, float], passes: int, seed: int | None
) -> Iterator[str]:
    """Yield the recordings of all passes; without a seed in the given order."""
    for number in range(passes):
        order = list(durations)
        if seed is not None:
            # Of a string Python's generator takes a hash that is the same in each
            # process.
            random.Random(f"{seed} {number}").shuffle(order)
        yield from order


def read_schedule(chunk_conf: Mapping[str, Any]) -> tuple[Schedule, int]:
    """Return the schedule and the number of passes of a ``chunk_conf``.

    Raises InputError for unknown or impossible settings.
    """
    settings = dict(chunk_conf)
    passes = settings.pop("passes", 1)
    if not isinstance(passes, int) or passes < 1:
        raise InputError(
            f"chunk_conf: passes must be a whole number of at least 1, not {passes!r}"
        )
    return make_checked(Schedule, settings, "chunk_conf"), passes


def count_shares(
    config: Mapping[str, Any], durations: Mapping[str, float]
) -> dict[str, Any]:
    """Return what changes in a training config if its shares become counts.

    A share is a number below 1. ``double_every`` of ``chunk_conf`` may be a share of
    the recordings of all passes; ``warmup_steps`` of ``scheduler_conf`` and each of
    ``renorm_steps`` of ``encoder_conf`` one of the updates.
    """
    chunks = dict(config.get("chunk_conf") or {})
    schedule, passes = read_schedule({**chunks, "double_every": 0})
    updates = _count_updates(schedule, passes, durations)
    totals = {
        "double_every": passes * len(durations),
        "warmup_steps": updates,
        "renorm_steps": updates,
    }
    changed = {}
    for key in ("chunk_conf", "scheduler_conf", "encoder_conf"):
        own = config.get(key) or {}
        counted = dict(own)
        for name, total in totals.items():
            if name in own:
                counted[name] = _count_share(own[name], total)
        if counted != own:
            changed[key] = counted
    return changed


def _count_updates(
    schedule: Schedule, passes: int, durations: Mapping[str, float]
) -> int:
    """Return how many batches there are; the last one may hold less."""
    seconds = passes * sum(durations.values())
    return math.ceil(seconds / schedule.batch_seconds)


def _count_share(value: Any, total: int) -> Any:
    """Return a share of a total, or each of a list of shares, as a count."""
    if isinstance(value, list):
        return [_count_share(each, total) for each in value]
    if isinstance(value, float) and 0 < value < 1:
        return max(1, round(value * total))
    return value


def check_plan(config: Mapping[str, Any], durations: Mapping[str, float]) -> None:
    """Refuse a config with which sequences stay too short or a warm-up never ends.

    Sequences shall get as long as the context. The config has ``chunk_conf``, and
    ``warmup_steps`` in ``scheduler_conf``, as counts or shares. Durations are in
    seconds.
    """
    _require_recordings(durations)
    config = {**config, **count_shares(config, durations)}
    schedule, passes = read_schedule(config.get("chunk_conf") or {})
    warmup = (config.get("scheduler_conf") or {}).get("warmup_steps", 0)
    context = schedule.max_seconds
    longest = max(durations.values())
    seen = passes * len(durations)
    updates = _count_updates(schedule, passes, durations)
    # The cause before the effect: without such a recording no sequence gets there.
    if longest < context:
        raise InputError(
            f"no recording is as long as the context of {context:g} s: the "
            f"longest has {longest:.0f} s"
        )
    if schedule.warmup_recordings >= seen:
        raise InputError(
            f"sequences never reach the context of {context:g} s: they get "
            f"{schedule.find_length(seen - 1):g} s long in "
            f"{seen:,} recordings of {passes} pass{'es' if passes > 1 else ''}, "
            f"and need {schedule.warmup_recordings:,}"
        )
    if warmup >= updates:
        raise InputError(
            f"the {updates:,} updates end within the {warmup:,} of the learning "
            "rate's warm-up"
        )
