"""Chunks of recordings and the sequence-length warm-up."""

import itertools
import random
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.longform.chunking import (
    Chunk,
    Schedule,
    check_plan,
    count_shares,
    cut_batches,
)
from espnet_ext.text.word_times import SHORTEST

DURATIONS = st.dictionaries(
    st.text("abcd", min_size=1), st.floats(0.5, 300), min_size=1, max_size=20
)
SCHEDULES = st.builds(
    Schedule,
    batch_seconds=st.floats(40, 200),
    max_seconds=st.floats(1, 40),
    initial_seconds=st.floats(1, 10),
    double_every=st.integers(0, 6),
    whole_first=st.booleans(),
)


def test_lengths_of_the_paper():
    """5 s at first, doubled every 5,000 recordings.

    These are the words of P5, section 2.3, not its formula.
    """
    schedule = Schedule(max_seconds=3600)
    lengths = [schedule.find_length(seen) for seen in range(0, 60_000, 5000)]
    assert lengths == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    assert [schedule.count_sequences(length) for length in (5, 10, 41, 655, 3600)] == [
        720,
        360,
        88,
        6,
        1,
    ]


@settings(max_examples=60)
@given(DURATIONS, SCHEDULES, st.integers(1, 3), st.none() | st.integers(0, 9))
def test_chunks_cover_every_recording_in_order(durations, schedule, passes, seed):
    covered = {recording: [] for recording in durations}
    for batch in cut_batches(durations, schedule, passes=passes, seed=seed):
        assert (
            0
            < sum(chunk.end - chunk.start for chunk in batch)
            <= schedule.batch_seconds + 1e-6
        )
        for chunk in batch:
            assert chunk.end - chunk.start <= schedule.max_seconds + 1e-9
            covered[chunk.recording].append(chunk)
    for recording, chunks in covered.items():
        starts = [chunk for chunk in chunks if chunk.start == 0]
        assert len(starts) == passes
        # One pass may overlap the next, but each is a row of chunks without gaps.
        for chunk in chunks:
            following = [other for other in chunks if other.start == chunk.end]
            assert following or durations[recording] - chunk.end < SHORTEST


@pytest.mark.parametrize("length", [5.0, 7.3, 41.0, 333.0, 2621.0, 3600.0])
def test_all_contexts_get_equally_many_updates_of_an_hour(length):
    """Podcasts last 34 minutes in the mean: none fills a batch of an hour."""
    drawn = random.Random(1)
    durations = {
        f"r{number}": max(60.0, drawn.gauss(34 * 60, 1200)) for number in range(400)
    }
    schedule = Schedule(
        batch_seconds=3600, max_seconds=length, initial_seconds=5, double_every=10
    )
    *full, last = (
        sum(chunk.end - chunk.start for chunk in batch)
        for batch in cut_batches(durations, schedule, seed=1)
    )
    assert (
        min(full) > 3600 - SHORTEST and max(full) <= 3600 + 1e-6 and last <= 3600 + 1e-6
    )
    hours = sum(durations.values()) / 3600
    assert (
        hours * 0.995 < len(full) + 1 <= hours + 1
    )  # rests of less than half a second are dropped


def test_only_the_last_sequence_of_a_batch_is_cut():
    """40 s in sequences of 16 s: two whole ones, and one of 8 s.

    After that one its recording goes on.
    """
    schedule = Schedule(
        batch_seconds=40, max_seconds=16, double_every=0, whole_first=False
    )
    plan = list(cut_batches({f"r{number}": 160.0 for number in range(12)}, schedule))
    assert all(
        [chunk.end - chunk.start for chunk in batch] == [16, 16, 8]
        for batch in plan[:20]
    )
    assert plan[0][2].recording == "r2" and plan[1][2] == Chunk("r2", 8, 16)


@pytest.mark.parametrize("length", [655, 1311, 3600])
def test_full_sequences_are_not_cut_where_rests_fill_a_batch(length):
    """As much audio is in full sequences as the recordings hold.

    So it is in the authors' code: none spans two of them.
    """
    drawn = random.Random(1)
    durations = {
        f"r{number}": min(9000.0, drawn.lognormvariate(7.3, 0.75))
        for number in range(600)
    }
    whole = sum(seconds // length * length for seconds in durations.values())

    def full(whole_first: bool) -> float:
        schedule = Schedule(3600, length, double_every=0, whole_first=whole_first)
        seconds = [
            chunk.end - chunk.start
            for batch in cut_batches(durations, schedule, seed=1)
            for chunk in batch
        ]
        return sum(value for value in seconds if value > length - 1e-6)

    assert full(False) < 0.98 * whole
    assert 0.98 * whole < full(True) <= whole


def test_length_follows_the_recordings_seen():
    schedule = Schedule(
        batch_seconds=40, max_seconds=16, initial_seconds=2, double_every=40
    )
    opened = set()
    for batch in cut_batches({f"r{number}": 64.0 for number in range(200)}, schedule):
        before = len(opened)
        opened |= {chunk.recording for chunk in batch}
        longest = max(chunk.end - chunk.start for chunk in batch)
        assert (
            schedule.find_length(max(0, before - 1))
            <= longest
            <= schedule.find_length(len(opened) - 1)
        )


def test_a_plan_is_the_same_every_time_and_can_be_entered_anywhere():
    durations = {f"r{number}": 10.0 + number for number in range(30)}
    schedule = Schedule(
        batch_seconds=40, max_seconds=20, initial_seconds=5, double_every=7
    )
    whole = list(cut_batches(durations, schedule, passes=2, seed=5))
    assert (
        list(
            itertools.islice(
                cut_batches(durations, schedule, passes=2, seed=5), 17, None
            )
        )
        == whole[17:]
    )
    assert list(cut_batches(durations, schedule, passes=2, seed=6)) != whole


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial_seconds": 0},
        {"max_seconds": 7200},
        {"double_every": -1},
        {"batch_seconds": float("nan")},
    ],
)
def test_settings_out_of_range(wrong):
    with pytest.raises(InputError):
        Schedule(**{"batch_seconds": 3600, **wrong})


def test_recordings_that_hold_no_chunk():
    with pytest.raises(InputError, match="short lasts 0.2 s"):
        next(cut_batches({"long": 9.0, "short": 0.2}, Schedule(60, 10)))
    with pytest.raises(InputError, match="no recordings"):
        next(cut_batches({}, Schedule(60, 10)))


PLAN = {
    "batch_seconds": 60,
    "max_seconds": 40,
    "initial_seconds": 5,
    "double_every": 10,
    "passes": 2,
}


@pytest.mark.parametrize(
    ("chunks", "warmup", "fault"),
    [
        ({}, 9, None),
        ({"double_every": 0.2, "passes": 1}, 0.5, None),
        ({"max_seconds": 50.0}, 9, "no recording is as long as the context of 50 s"),
        (
            {"passes": 1},
            9,
            "never reach the context of 40 s: they get 10 s long in 20 recordings "
            "of 1 pass",
        ),
        ({"double_every": 0.4, "passes": 5}, 9, "never reach the context of 40 s"),
        ({}, 21, "the 21 updates end within the 21 "),
    ],
)
def test_plans_that_never_reach_their_context_or_end_in_the_warmup(
    chunks, warmup, fault
):
    config = {"chunk_conf": PLAN | chunks, "scheduler_conf": {"warmup_steps": warmup}}
    durations = {f"r{number}": 30.0 for number in range(19)} | {"long": 45.0}
    with pytest.raises(InputError, match=fault) if fault else nullcontext():
        check_plan(config, durations)


def test_shares_of_the_training_become_counts():
    config = {
        "chunk_conf": PLAN | {"double_every": 0.05},
        "encoder_conf": {"renorm_steps": [0.1, 0.5, 0.9], "layers": 2},
    }
    changed = count_shares(config, {f"r{number}": 30.0 for number in range(100)})
    assert changed["chunk_conf"] == PLAN | {"double_every": 10}  # of 200 recordings
    assert changed["encoder_conf"] == {
        "renorm_steps": [10, 50, 90],
        "layers": 2,
    }  # of 100 updates
    assert count_shares(config | changed, {"r": 9.0}) == {}
