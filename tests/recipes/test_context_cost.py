"""The counted memory against real tensors, and the search for the longest context."""

import bench_context
import context_cost
import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.longform.long_fastconformer import LongFastConformerEncoder

SMALL = {
    "output_size": 16,
    "attention_heads": 2,
    "num_blocks": 2,
    "subsampling_channels": 4,
}


def make():
    return context_cost.make_ctc_model(
        LongFastConformerEncoder(context_cost.BANDS, **SMALL)
    )


@pytest.mark.parametrize("flash", [True, False])
def test_counted_is_what_real_tensors_take(flash):
    model = make()
    parameters = 4 * sum(parameter.numel() for parameter in model.parameters())
    with context_cost.LiveBytes() as live, context_cost.choose_attention(flash):
        for parameter in model.parameters():
            live.add(parameter)
        assert live.now == parameters
        context_cost.take_step(model, 20, False)
    assert (
        context_cost.count_peak(make, 20, False, flash)
        == live.peak + context_cost.MADGRAD_STATES * parameters
    )


def test_live_bytes_by_hand():
    with context_cost.LiveBytes() as live:
        first = torch.zeros(1000)
        second = first.view(10, 100) + 1  # a view takes nothing
        assert (live.now, live.peak) == (8000, 8000)
        del first
        third = second.double()
        assert (live.now, live.peak) == (12000, 12000)
        del second, third
        assert (live.now, live.peak) == (0, 12000)


def test_memory_is_linear_with_flash_and_quadratic_without(monkeypatch):
    # CTC's own memory grows with frames times tokens
    monkeypatch.setattr(context_cost, "TOKENS_PER_SECOND", 1e-3)
    short, middle, long = (
        context_cost.count_peak(make, seconds, False, True)
        for seconds in (500, 1000, 2000)
    )
    assert long - middle < 2.05 * (middle - short)
    # scores and weights of one layer's two heads at least
    assert (
        context_cost.count_peak(make, 2000, False, False) - long
        > 2 * 2 * 4 * (2000 * 100 / 8) ** 2
    )


@pytest.mark.parametrize("limit", [0, 1, 59, 60, 61, 1000, 4321, 100000])
def test_longest_context(limit):
    asked = []

    def fits(seconds):
        asked.append(seconds)
        return seconds <= limit

    found = context_cost.find_longest_context(fits)
    assert found <= limit <= found + max(1, 0.02 * found) and len(asked) < 25


def test_speed_is_positive_and_trains():
    model = make()
    before = model.encoder.layers[0].norm.weight.detach().clone()
    assert context_cost.measure_frames_per_second(model, 1, False, True, rounds=1) > 0
    assert not torch.equal(model.encoder.layers[0].norm.weight, before)


def test_no_seconds_are_refused():
    with pytest.raises(InputError, match="must be above 0"):
        bench_context.main(["--seconds", "0"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is an accelerator")
def test_an_accelerator_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="accelerator"):
        bench_context.measure(SMALL, "cuda", 1.0, 1.0)
