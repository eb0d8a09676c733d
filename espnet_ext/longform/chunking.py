"""The training batches: consecutive chunks of recordings, with the sequence-length
warm-up.

The formula as P5 prints it (section 2.3), min(s_0 + s_0 * 2 ** floor(r / n), s_m),
would start at twice s_0. The text is followed: "a minimum sequence length s_0 that is
used at the start of training, which is then doubled". Batches are a pure function of
durations, schedule and seed: an interrupted training walks through the plan to its next
batch.
"""

import math
import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from espnet_ext.errors import InputError
from espnet_ext.text.word_times import SHORTEST
from espnet_ext.upstream.option_faults import fitted


class Chunk(NamedTuple):
    """A part of a recording, from ``start`` to ``end`` in seconds."""

    recording: str
    start: float
    end: float


@dataclass(frozen=True)
class Schedule:
    """Sequence lengths in seconds, and audio per batch; numbers out of range are
    refused.

    A batch has ``batch_seconds`` of audio, whatever the length of its sequences (P5,
    section 3.3: one hour). ``max_seconds`` is s_m, the context of the model, and
    ``initial_seconds`` s_0; the length is doubled after ``double_every`` recordings, n
    (0: no warm-up). ``whole_first`` fills batches with whole sequences, as the authors'
    code does: none of the full length is cut if a rest of a recording can fill the
    batch.
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

    def length(self, recordings: int) -> float:
        """Return the sequence length in seconds after a number of recordings (P5,
        section 2.3).
        """
        if not self.double_every:
            return self.max_seconds
        # The exponent is bounded: 2 ** (10 ** 6) is too large for a float.
        return min(
            self.initial_seconds * 2 ** min(recordings // self.double_every, 64),
            self.max_seconds,
        )

    @property
    def warmup_recordings(self) -> int:
        """Return the number of recordings before sequences have the maximum length."""
        return (
            max(0, math.ceil(math.log2(self.max_seconds / self.initial_seconds)))
            * self.double_every
        )

    def sequences(self, length: float) -> int:
        """Return the number of sequences of ``length`` seconds that fill a batch; the
        last one may be cut.
        """
        return math.ceil(self.batch_seconds / length)


def batches(
    durations: Mapping[str, float],
    schedule: Schedule,
    *,
    passes: int = 1,
    seed: int | None = None,
) -> Iterator[list[Chunk]]:
    """Yield all batches of a training. Each has ``batch_seconds`` of audio, whatever
    the length of its sequences.

    A batch takes the next chunk of one open recording after the other until its seconds
    are full. The last chunk is cut where they are, and its recording goes on from there
    later; with ``whole_first``, it is a whole one that fits, otherwise cut from the
    rest of a recording beyond its full sequences. So all contexts get equally many
    updates of equally much audio (P5, section 3.3). Only the last batch holds less.

    At least as many recordings are open as a batch has full sequences, and the next is
    opened when all have given a chunk. The length depends on the number of recordings
    opened so far, in all passes. The order differs in each pass, by ``seed``; None:
    that of ``durations``, recording -> seconds.
    """
    _require_recordings(durations)
    waiting = deque(_order(durations, passes, seed))
    opened: deque[tuple[str, float]] = deque()
    seen = 0
    while waiting or opened:
        while waiting and len(opened) < schedule.sequences(schedule.length(seen)):
            opened.append((waiting.popleft(), 0.0))
            seen += 1
        length = schedule.length(seen - 1)  # that of the recording opened last
        batch: list[Chunk] = []
        room = schedule.batch_seconds
        untouched = len(opened)  # recordings that have given no chunk to this batch
        searching = schedule.whole_first
        while room >= SHORTEST and (opened or waiting):
            if waiting and untouched <= 0:
                opened.appendleft((waiting.popleft(), 0.0))
                seen, untouched = seen + 1, 1
            place, taken = 0, min(length, room)
            if (
                schedule.whole_first
                and min(durations[opened[0][0]] - opened[0][1], length) > room
            ):
                lefts = (
                    durations[name] - start
                    for name, start in islice(opened, max(untouched, 0) or None)
                )
                found = _choose(lefts, length, room)
                if (
                    found is None and waiting and searching
                ):  # one more recording may have what fits
                    searching, untouched = False, 0
                    continue
                place, taken = found or (place, taken)
            recording, start = opened[place]
            del opened[place]
            end = min(start + taken, durations[recording])
            batch.append(Chunk(recording, start, end))
            room, untouched = room - (end - start), untouched - 1
            if durations[recording] - end >= SHORTEST:
                opened.append((recording, end))
        yield batch


def _choose(
    lefts: Iterable[float], length: float, room: float
) -> tuple[int, float] | None:
    """Return which recording gives the next chunk, and its seconds, by what is left of
    each; None: none without a loss.

    >>> _choose([50, 20], length=30, room=25), _choose([50, 70], length=30, room=15), _choose([60], length=30, room=15)
    ((1, 20), (0, 15), None)
    """
    rest = None
    for place, left in enumerate(lefts):
        if min(left, length) <= room:
            return place, min(left, length)
        if rest is None and left % length >= SHORTEST:
            rest = place, min(left % length, room)
    return rest


def _require_recordings(durations: Mapping[str, float]) -> None:
    if not durations:
        raise InputError("chunks: there are no recordings to cut")
    for recording, seconds in durations.items():
        if not seconds >= SHORTEST:
            raise InputError(
                f"recording {recording} lasts {seconds:g} s, less than {SHORTEST} "
                "s: drop it"
            )


def _order(
    durations: Mapping[str, float], passes: int, seed: int | None
) -> Iterator[str]:
    for number in range(passes):
        order = list(durations)
        if seed is not None:
            random.Random(f"{seed} {number}").shuffle(order)
        yield from order


def schedule_of(chunk_conf: Mapping[str, Any]) -> tuple[Schedule, int]:
    """Return the schedule and the number of passes of a ``chunk_conf``; unknown or
    impossible settings are refused.
    """
    settings = dict(chunk_conf)
    passes = settings.pop("passes", 1)
    if not isinstance(passes, int) or passes < 1:
        raise InputError(
            f"chunk_conf: passes must be a whole number of at least 1, not {passes!r}"
        )
    return fitted(Schedule, settings, "chunk_conf"), passes


def with_counts(
    config: Mapping[str, Any], durations: Mapping[str, float]
) -> dict[str, Any]:
    """Return what changes in a training config if its shares of the training, numbers
    below 1, become counts.

    ``double_every`` of ``chunk_conf`` may be a share of the recordings of all passes;
    ``warmup_steps`` of ``scheduler_conf`` and each of ``renorm_steps`` of
    ``encoder_conf`` one of the updates.
    """
    chunks = dict(config.get("chunk_conf") or {})
    schedule, passes = schedule_of({**chunks, "double_every": 0})
    totals = {"double_every": passes * len(durations)}
    totals["warmup_steps"] = totals["renorm_steps"] = _updates(
        schedule, passes, durations
    )
    changed = {}
    for key in ("chunk_conf", "scheduler_conf", "encoder_conf"):
        own = config.get(key) or {}
        counted = {
            name: _counted(own[name], total)
            for name, total in totals.items()
            if name in own
        }
        if counted != {name: own[name] for name in counted}:
            changed[key] = {**own, **counted}
    return changed


def _updates(schedule: Schedule, passes: int, durations: Mapping[str, float]) -> int:
    return math.ceil(passes * sum(durations.values()) / schedule.batch_seconds)


def _counted(value: Any, total: int) -> Any:
    if isinstance(value, list):
        return [_counted(each, total) for each in value]
    return (
        max(1, round(value * total))
        if isinstance(value, float) and 0 < value < 1
        else value
    )


def check_plan(config: Mapping[str, Any], durations: Mapping[str, float]) -> None:
    """Refuse a training config with which sequences never get as long as the context,
    or the warm-up never ends.

    It has ``chunk_conf``, and ``warmup_steps`` in ``scheduler_conf``, as counts or
    shares. Durations are in seconds.
    """
    _require_recordings(durations)
    config = {**config, **with_counts(config, durations)}
    schedule, passes = schedule_of(config.get("chunk_conf") or {})
    warmup = (config.get("scheduler_conf") or {}).get("warmup_steps", 0)
    context, longest, seen = (
        schedule.max_seconds,
        max(durations.values()),
        passes * len(durations),
    )
    updates = _updates(schedule, passes, durations)
    if longest < context:
        raise InputError(
            f"no recording is as long as the context of {context:g} s: the "
            f"longest has {longest:.0f} s"
        )
    if schedule.warmup_recordings >= seen:
        raise InputError(
            f"sequences never reach the context of {context:g} s: they get "
            f"{schedule.length(seen - 1):g} s long in "
            f"{seen:,} recordings of {passes} pass{'es' if passes > 1 else ''}, "
            f"and need {schedule.warmup_recordings:,}"
        )
    if warmup >= updates:
        raise InputError(
            f"the {updates:,} updates end within the {warmup:,} of the learning "
            "rate's warm-up"
        )
