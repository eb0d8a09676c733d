"""The training batches: consecutive chunks of recordings, with the sequence-length warm-up.

P5, section 2.3: training starts with short sequences, whose length is doubled every n recordings until it reaches the
maximum. The formula as printed, min(s_0 + s_0 * 2 ** floor(r / n), s_m), would start at twice s_0. The text is followed
here: "a minimum sequence length s_0 that is used at the start of training, which is then doubled".

Batches are a pure function of the recordings' durations, the schedule and the seed. So a training that was interrupted
resumes exactly: it walks through the plan, without reading audio, to the next batch.
"""

import math
import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from espnet_ext.errors import InputError
from espnet_ext.text.word_times import SHORTEST


class Chunk(NamedTuple):
    """A part of a recording, from ``start`` to ``end`` in seconds."""

    recording: str
    start: float
    end: float


@dataclass(frozen=True)
class Schedule:
    """Sequence lengths in seconds, and audio per batch.

    Attributes:
        batch_seconds: Audio of a batch, whatever the length of its sequences (P5, section 3.3: one hour).
        max_seconds: The maximum length, s_m, which is the context of the model.
        initial_seconds: The length at first, s_0.
        double_every: The length is doubled after this number of recordings, n; 0: no warm-up.

    Raises:
        InputError: A number is out of range, or a sequence of the maximum length does not fit into a batch.
    """

    batch_seconds: float = 3600.0
    max_seconds: float = 3600.0
    initial_seconds: float = 5.0
    double_every: int = 5000

    def __post_init__(self) -> None:
        lengths = (self.batch_seconds, self.max_seconds, self.initial_seconds)
        if not all(length >= SHORTEST for length in lengths) or self.double_every < 0:
            raise InputError(f"chunks: lengths must be at least {SHORTEST} s and double_every at least 0: {self}")
        if self.max_seconds > self.batch_seconds:
            raise InputError(
                f"chunks: a sequence of {self.max_seconds:g} s does not fit into a batch of {self.batch_seconds:g} s"
            )

    def length(self, recordings: int) -> float:
        """Return the sequence length in seconds after a number of recordings (P5, section 2.3).

        >>> schedule = Schedule(max_seconds=41)
        >>> [schedule.length(seen) for seen in (0, 4999, 5000, 10000, 15000, 10**9)]
        [5.0, 5.0, 10.0, 20.0, 40.0, 41]
        """
        if not self.double_every:
            return self.max_seconds
        # The exponent is bounded: 2 ** (10 ** 6) is too large for a float.
        return min(self.initial_seconds * 2 ** min(recordings // self.double_every, 64), self.max_seconds)

    def sequences(self, length: float) -> int:
        """Return the number of sequences of ``length`` seconds that fill a batch; the last one may be cut."""
        return math.ceil(self.batch_seconds / length)


def batches(
    durations: Mapping[str, float], schedule: Schedule, *, passes: int = 1, seed: int | None = None
) -> Iterator[list[Chunk]]:
    """Yield all batches of a training. Each has ``batch_seconds`` of audio, whatever the length of its sequences.

    A batch takes the next chunk of one open recording after the other until its seconds are full. The last chunk is cut
    where they are, and its recording goes on from there in a later batch. So all contexts get equally many updates of
    equally much audio (P5, section 3.3), also where recordings are shorter than a sequence. Only the last batch holds
    less.

    At least as many recordings are open as a batch has full sequences, and the next is opened when all have given a
    chunk. At the end, when none is left to open, the open ones give several chunks each. The length depends on the
    number of recordings opened so far, in all passes; when it changes, open recordings use the new length too.

    Args:
        durations: Recording -> seconds.
        schedule: Lengths and batch size.
        passes: How often all recordings are used.
        seed: Seed of the order, which differs in each pass; None: the order of ``durations``.

    Raises:
        InputError: No recordings, or one that is too short for a chunk.
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
        while room >= SHORTEST and (opened or waiting):
            if waiting and not untouched:
                opened.appendleft((waiting.popleft(), 0.0))
                seen, untouched = seen + 1, 1
            recording, start = opened.popleft()
            end = min(start + min(length, room), durations[recording])
            batch.append(Chunk(recording, start, end))
            room, untouched = room - (end - start), untouched - 1
            if durations[recording] - end >= SHORTEST:
                opened.append((recording, end))
        yield batch


def _require_recordings(durations: Mapping[str, float]) -> None:
    if not durations:
        raise InputError("chunks: there are no recordings to cut")
    for recording, seconds in durations.items():
        if not seconds >= SHORTEST:
            raise InputError(f"recording {recording} lasts {seconds:g} s, less than {SHORTEST} s: drop it")


def _order(durations: Mapping[str, float], passes: int, seed: int | None) -> Iterator[str]:
    for number in range(passes):
        order = list(durations)
        if seed is not None:
            random.Random(f"{seed} {number}").shuffle(order)
        yield from order
