"""The learning rate of P5: up in a line, down to zero in a cosine."""

import math

import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.scheduler.warmup_cosine import WarmupCosine


def rates(scheduler, optimizer, steps):
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def test_shape_and_resumption():
    def make():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=3e-3)
        return WarmupCosine(optimizer, warmup_steps=4, total_steps=24), optimizer

    scheduler, optimizer = make()
    found = rates(scheduler, optimizer, 26)
    assert found[:5] == pytest.approx([3e-3 * share for share in (0.2, 0.4, 0.6, 0.8, 1.0)])
    assert found[4:24] == pytest.approx([1.5e-3 * (1 + math.cos(math.pi * step / 20)) for step in range(20)])
    assert found[24:] == pytest.approx([0.0, 0.0])

    scheduler, optimizer = make()
    rates(scheduler, optimizer, 10)
    again, other = make()
    other.load_state_dict(optimizer.state_dict())
    again.load_state_dict(scheduler.state_dict())
    assert rates(again, other, 16) == pytest.approx(found[10:])


@pytest.mark.parametrize("warmup, total", [(0, 0), (5, 5), (-1, 10)])
def test_steps_out_of_range(warmup, total):
    with pytest.raises(InputError):
        WarmupCosine(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0), warmup, total)
