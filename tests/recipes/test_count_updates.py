"""``local/count_updates.py``: batches by number of sequences, counted by hand, and the durations that it draws."""

from statistics import fmean

import count_updates
import pytest


def test_batches_by_number_of_sequences(monkeypatch):
    """Batches of 100 s in sequences of 40 s: two recordings at a time, a chunk of each in a batch."""
    monkeypatch.setattr(count_updates, "BATCH", 100.0)
    durations = {"a": 100.0, "b": 50.0, "c": 40.2}
    # a and b: 40 + 40; a: 40, b: 10, so b is done; a: 20, c: 40, whose rest of 0.2 s is dropped
    assert list(count_updates.by_number(durations, 40)) == pytest.approx([80, 50, 60])
    counted = count_updates.updates(durations, 40)
    assert (counted["before"], counted["now"]) == (3, 2)
    assert counted["now_seconds"] == pytest.approx(190.2 / 2, abs=0.3)


def test_durations_have_their_mean():
    durations = count_updates.drawn_durations()
    assert len(durations) == 6000 and fmean(durations.values()) == pytest.approx(34 * 60)
    assert min(durations.values()) > 60 and max(durations.values()) > 2 * 34 * 60
